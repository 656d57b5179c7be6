#include "server/http/request_reader.h"

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <cctype>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

#include "server/http/body/request_body.h"
#include "server/http/url.h"

namespace tandem::server {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

// Of a quoted string, where Beast takes any: a line end in it ends a chunk's header for others.
bool is_control(char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f; }

// "GET / HTTP/2.0": a version, but none of ours.
bool asks_for_other_version(std::string_view line) {
  if (line.size() < 9 || std::any_of(line.begin(), line.end(), is_control)) return false;
  const std::string_view version = line.substr(line.size() - 9);
  return version.starts_with(" HTTP/") && version != " HTTP/1.1" &&
         std::isdigit(static_cast<unsigned char>(version[6])) && version[7] == '.' &&
         std::isdigit(static_cast<unsigned char>(version[8]));
}

// Whether the body's length is certain (RFC 9112, 6.1 and 6.3). Beast takes a body with codings
// besides chunked for chunked, and one with others for none.
template <class Message>
Refusal fault_of_framing(const Message& message) {
  const auto [begin, end] = message.equal_range(http::field::transfer_encoding);
  if (begin == end) return {};
  if (message.version() < 11) return {400, "HTTP/1.0 has no Transfer-Encoding"};
  if (message.count(http::field::content_length) > 0)
    return {400, "there are both a Content-Length and a Transfer-Encoding"};
  size_t chunked = 0, others = 0;
  for (auto field = begin; field != end; ++field) {
    std::string_view rest = view(field->value());
    for (bool more = true; more;) {
      const size_t comma = rest.find(',');
      std::string_view coding = rest.substr(0, comma);
      more = comma != rest.npos;
      if (more) rest.remove_prefix(comma + 1);
      coding.remove_prefix(std::min(coding.find_first_not_of(" \t"), coding.size()));
      coding = coding.substr(0, coding.find_last_not_of(" \t") + 1);
      const bool known = beast::iequals({coding.data(), coding.size()}, "chunked");
      ++(known ? chunked : others);
      if (coding.empty()) return {400, "the Transfer-Encoding has an empty element"};
    }
  }
  if (others > 0) return {501, "the only Transfer-Encoding that is understood is chunked"};
  if (chunked > 1) return {400, "the Transfer-Encoding says chunked more than once"};
  return {};
}

template <class Message>
Refusal fault_of_host(const Message& message) {
  const size_t count = message.count(http::field::host);
  if (count > 1) return {400, "there are " + std::to_string(count) + " Host headers; one is right"};
  if (count == 0 && message.version() >= 11) return {400, "there is no Host header"};
  if (count == 0 || is_host(view(message[http::field::host]))) return {};
  return {400, "the Host header names no host"};
}

}  // namespace

RequestReader::RequestReader(const ServerConfig& config)
    : config_(config), on_chunk_([this](uint64_t, beast::string_view extensions, error_code& ec) {
        chunk_overhead_ += extensions.size();
        if (std::any_of(extensions.begin(), extensions.end(), is_control))
          fault_ = {400, "a chunk's extension has control characters"};
        else if (chunk_overhead_ > config_.max_header_bytes)
          fault_ = {400, "the chunks' extensions have more than " +
                             std::to_string(config_.max_header_bytes) +
                             " bytes (--max-header-size)"};
        if (fault_.status != 0) ec = http::error::bad_chunk_extension;
      }) {
  parser_.header_limit(static_cast<std::uint32_t>(config.max_header_bytes));
  parser_.on_chunk_header(on_chunk_);
  parser_.get().body() = nullptr;
  // What the body may have is known once it is known who asks for what.
  bound_body(std::numeric_limits<size_t>::max());
}

void RequestReader::bound_body(size_t bytes, const char* flag) {
  parser_.body_limit(body_bound_ = bytes);
  body_flag_ = flag;
}

size_t RequestReader::feed(boost::asio::const_buffer bytes, error_code& ec) {
  size_t used = 0;
  const bool header = !parser_.is_header_done();
  parser_.eager(!header);
  ec = {};
  while (bytes.size() > 0 && !parser_.is_done() && !(header && parser_.is_header_done())) {
    const std::string_view there(static_cast<const char*>(bytes.data()), bytes.size());
    const size_t n = parser_.put(bytes, ec);
    if (header) look_for_folds(there.substr(0, n));
    used += n;
    bytes += n;
    if (ec == http::error::need_more) {
      ec = {};
      break;
    }
    if (ec) explain(ec, there);
    if (ec) break;
  }
  return used;
}

// A line that begins with a blank goes on with the one before it, for Beast. Others see a header of
// its own, or none (RFC 9112, 5.2).
void RequestReader::look_for_folds(std::string_view used) {
  for (const char c : used) {
    if (line_begins_ && (c == ' ' || c == '\t') && fault_.status == 0)
      fault_ = {400, "a line of the header is folded"};
    line_begins_ = c == '\n';
  }
}

void RequestReader::explain(const error_code& ec, std::string_view bytes) {
  if (ec == http::error::bad_version && asks_for_other_version(bytes.substr(0, bytes.find("\r\n"))))
    fault_ = {505, "the versions of HTTP that are spoken here are 1.1 and 1.0"};
}

Refusal RequestReader::refusal_of(const error_code& ec, bool timed_out) const {
  if (fault_.status != 0) return fault_;
  const std::string most_header =
      std::to_string(config_.max_header_bytes) + " bytes (--max-header-size)";
  if (ec == http::error::buffer_overflow && has_header())
    return {400, "a chunk's header, or the trailer, is too long"};
  if (ec == http::error::header_limit || ec == http::error::buffer_overflow)
    return {431, "the header is larger than " + most_header};
  if (ec == http::error::body_limit) return {413, too_large_text(body_bound_, body_flag_)};
  if (timed_out)
    return {408, std::string("the request took too long to arrive (") +
                     (has_header() ? "--body-timeout" : "--header-timeout") + ")"};
  if (ec.category() == http::make_error_code(http::error::bad_version).category() &&
      ec != http::error::end_of_stream && ec != http::error::partial_message)
    return {400, "this is not HTTP: " + ec.message()};
  return {};
}

Refusal RequestReader::header_fault() const {
  if (fault_.status != 0) return fault_;
  const auto& message = parser_.get();
  if (Refusal framing = fault_of_framing(message); framing.status != 0) return framing;
  if (Refusal host = fault_of_host(message); host.status != 0) return host;
  if (read_target(view(message.target()), view(message.method_string()))) return {};
  if (message.method() == http::verb::connect) return {501, "this is no proxy"};
  return {400, "the target is no path, and no URL with http or https"};
}

HttpRequest RequestReader::head() const {
  const auto& message = parser_.get();
  HttpRequest r;
  r.method = std::string(message.method_string());
  for (const auto& field : message) {
    std::string name(field.name_string());
    for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    r.headers.emplace_back(std::move(name), std::string(field.value()));
  }
  if (const auto target = read_target(view(message.target()), r.method)) {
    std::string path;
    split_target(target->path_and_query, path, r.query);
    r.path = path_below(path, config_.root_path);
    // The target's host is the one that is meant (RFC 9112, 3.2.2).
    for (auto& [name, value] : r.headers)
      if (name == "host" && !target->authority.empty()) value = target->authority;
  }
  r.id = request_id_of(r.header("x-request-id"));
  r.trace = config_.traces.begin(r.header("traceparent"));
  return r;
}

std::optional<uint64_t> RequestReader::content_length() const {
  const auto length = parser_.content_length();
  return length ? std::optional<uint64_t>(*length) : std::nullopt;
}

bool RequestReader::expects_continue() const {
  const auto expected = parser_.get().find(http::field::expect);
  return version() >= 11 && expected != parser_.get().end() &&
         beast::iequals(expected->value(), "100-continue");
}

}  // namespace tandem::server
