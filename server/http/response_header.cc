#include "server/http/response_header.h"

#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/write.hpp>
#include <cstdio>
#include <sstream>

namespace tandem::server {

namespace http = boost::beast::http;
namespace {

// Of each second once.
const std::string& date_now() {
  thread_local std::time_t second = -1;
  thread_local std::string text;
  if (const std::time_t now = std::time(nullptr); now != second) text = http_date(second = now);
  return text;
}

}  // namespace

std::string http_date(std::time_t time) {
  constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::tm t{};
  gmtime_r(&time, &t);
  char text[64];
  std::snprintf(text, sizeof text, "%s, %02d %s %04d %02d:%02d:%02d GMT", kDays[t.tm_wday],
                t.tm_mday, kMonths[t.tm_mon], t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
  return text;
}

std::string header_text(const HttpResponse& head, const HttpRequest& request, int version,
                        bool keep_alive, bool streaming) {
  http::response<http::empty_body> r;
  r.version(static_cast<unsigned>(version));
  r.result(static_cast<unsigned>(head.status));
  if (head.status == 499) r.reason("Client Closed Request");
  if (!head.content_type.empty()) r.set(http::field::content_type, head.content_type);
  for (const auto& [name, value] : head.headers) r.insert(name, value);
  r.set(http::field::date, date_now());
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

std::string answer_text(const HttpResponse& answer, const HttpRequest& request, int version,
                        bool keep_alive) {
  std::string text = header_text(answer, request, version, keep_alive, /*streaming=*/false);
  if (request.method != "HEAD") text += answer.body;
  return text;
}

}  // namespace tandem::server
