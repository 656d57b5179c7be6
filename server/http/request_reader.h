// What connections read: Beast's parser within the server's bounds, and what its findings mean. No
// sockets: the fuzzer drives it too.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/system/error_code.hpp>
#include <string>

#include "server/http/config.h"
#include "server/http/http.h"

namespace tandem::server {

using RequestParser = boost::beast::http::request_parser<boost::beast::http::string_body>;

// Of the body those of the largest that there are: what a request's may be is known behind its
// header.
void set_bounds(RequestParser& parser, const ServerConfig& config);

// Parses up to the end of the header, or of the request if the header is done. Returns the number
// of bytes that are used up; without an error, and without an end, it needs more.
size_t feed(RequestParser& parser, boost::asio::const_buffer bytes, boost::system::error_code& ec);

struct Refusal {
  int status = 0;  // 0: nobody is there to be answered
  std::string message;
};
// timed_out: the server ended the read. body_limit: bytes that this body may have.
Refusal refusal_of(const boost::system::error_code& ec, bool timed_out, const ServerConfig& config,
                   size_t body_limit);
// Of a header that parses; status 0: it is none.
Refusal refusal_of_host(const RequestParser& parser);

// Of a parser whose header is done. `remote` and `secure` are the connection's to say.
HttpRequest head_of(const RequestParser& parser);
// The same with the body, of a parser that is done.
HttpRequest take_request(RequestParser& parser);

}  // namespace tandem::server
