// The parser of connections: Beast's parser within the server's bounds, and the meaning of its
// results. It is stricter than Beast, which accepts requests that a server in front of this one may
// read otherwise (RFC 9112, 11.2). No sockets: the fuzzer drives it too.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/system/error_code.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/body/body_sink.h"
#include "server/http/config.h"
#include "server/http/http.h"

namespace tandem::server {

class RequestBody;

struct Refusal {
  int status = 0;  // 0: there is none, or nobody is there to be answered
  std::string message;
};

// One request.
class RequestReader {
 public:
  explicit RequestReader(const ServerConfig& config);
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;

  // Parses up to the end of the header, or of the request if the header is done. Returns the number
  // of bytes used. Without an error and without an end, it needs more.
  size_t feed(boost::asio::const_buffer bytes, boost::system::error_code& ec);
  bool has_header() const { return parser_.is_header_done(); }
  bool done() const { return parser_.is_done(); }
  bool begun() const { return parser_.got_some(); }
  // Of an error of feed(). timed_out: the server ended the read.
  Refusal refusal_of(const boost::system::error_code& ec, bool timed_out) const;

  // Once the header is done. ----------------------------------------------------------------------
  // The error in its framing, Host or target, if any. After it nothing can be trusted.
  Refusal header_fault() const;
  // `remote` and `secure` are the connection's to say.
  HttpRequest head() const;
  int version() const { return static_cast<int>(parser_.get().version()); }
  // Also: the client takes a further answer; its body is read.
  bool keep_alive() const { return parser_.keep_alive() && done(); }
  std::optional<uint64_t> content_length() const;
  bool expects_continue() const;
  // The most bytes of the body, as received.
  void bound_body(size_t bytes, const char* flag = "");
  // Where the body goes, which outlives the reader; null: it is dropped.
  void read_into(RequestBody* body) { parser_.get().body() = body; }

 private:
  void look_for_folds(std::string_view used);
  void explain(const boost::system::error_code& ec, std::string_view bytes);

  const ServerConfig& config_;
  boost::beast::http::request_parser<BodySink> parser_;
  std::function<void(uint64_t, boost::beast::string_view, boost::system::error_code&)> on_chunk_;
  size_t body_bound_ = 0;
  const char* body_flag_ = "";
  size_t chunk_overhead_ = 0;  // bytes of extensions
  bool line_begins_ = false;   // the last byte that was used ended a line
  Refusal fault_;              // that Beast does not find, or does not name
};

}  // namespace tandem::server
