#include "server/request_reader.h"

#include <boost/beast/http/error.hpp>
#include <cstdint>
#include <utility>

#include "server/url.h"

namespace tandem::server {

namespace http = boost::beast::http;

void set_bounds(RequestParser& parser, const ServerConfig& config) {
  parser.header_limit(static_cast<std::uint32_t>(config.max_header_bytes));
  parser.body_limit(config.max_body_bytes);
}

Refusal refusal_of(const boost::system::error_code& ec, bool timed_out,
                   const ServerConfig& config) {
  if (ec == http::error::header_limit || ec == http::error::buffer_overflow)
    return {431, "the header is larger than " + std::to_string(config.max_header_bytes) + " bytes"};
  if (ec == http::error::body_limit)
    return {413, "the body is larger than " + std::to_string(config.max_body_bytes) + " bytes"};
  if (timed_out) return {408, "the request took too long to arrive"};
  if (ec.category() == http::make_error_code(http::error::bad_version).category() &&
      ec != http::error::end_of_stream && ec != http::error::partial_message)
    return {400, "this is not HTTP: " + ec.message()};
  return {};
}

HttpRequest take_request(RequestParser& parser) {
  auto message = parser.release();
  HttpRequest r;
  r.method = std::string(message.method_string());
  r.body = std::move(message.body());
  split_target(std::string(message.target()), r.path, r.query);
  for (const auto& field : message) {
    std::string name(field.name_string());
    for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    r.headers.emplace_back(std::move(name), std::string(field.value()));
  }
  r.id = request_id_of(r.header("x-request-id"));
  r.trace = trace_of(r.header("traceparent"));
  return r;
}

}  // namespace tandem::server
