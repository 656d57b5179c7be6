#include "server/http/response_header.h"

#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/write.hpp>
#include <sstream>

namespace tandem::server {

namespace http = boost::beast::http;

std::string header_text(const HttpResponse& head, const HttpRequest& request, int version,
                        bool keep_alive, bool streaming) {
  http::response<http::empty_body> r;
  r.version(static_cast<unsigned>(version));
  r.result(static_cast<unsigned>(head.status));
  if (head.status == 499) r.reason("Client Closed Request");
  if (!head.content_type.empty()) r.set(http::field::content_type, head.content_type);
  for (const auto& [name, value] : head.headers) r.insert(name, value);
  r.set("x-request-id", request.id);
  if (request.trace) r.set("traceresponse", request.trace.response());
  r.keep_alive(keep_alive);
  if (streaming) {
    r.set(http::field::cache_control, "no-cache");
    if (version >= 11) r.chunked(true);
  } else if (head.status != 204) {
    r.content_length(head.body.size());
  }
  std::ostringstream text;
  text << r.base();
  return text.str();
}

}  // namespace tandem::server
