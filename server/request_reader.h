// What connections read: Beast's parser within the server's bounds, and what its findings mean. No
// sockets: the fuzzer drives it too.
#pragma once

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/system/error_code.hpp>
#include <string>

#include "server/config.h"
#include "server/http.h"

namespace tandem::server {

using RequestParser = boost::beast::http::request_parser<boost::beast::http::string_body>;

void set_bounds(RequestParser& parser, const ServerConfig& config);

struct Refusal {
  int status = 0;  // 0: nobody is there to be answered
  std::string message;
};
// timed_out: the server ended the read.
Refusal refusal_of(const boost::system::error_code& ec, bool timed_out, const ServerConfig& config);

// Of a parser that is done. `remote` and `secure` are the connection's to say.
HttpRequest take_request(RequestParser& parser);

}  // namespace tandem::server
