#include "server/http/request_reader.h"

#include <algorithm>
#include <boost/beast/http/error.hpp>
#include <cstdint>
#include <string_view>
#include <utility>

#include "server/http/url.h"

namespace tandem::server {
namespace {

namespace http = boost::beast::http;
using boost::system::error_code;

bool is_alnum(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// A name or an address, with a port or without (RFC 3986, 3.2.2 and 3.2.3).
bool is_host(std::string_view text) {
  size_t end = 0;
  if (!text.empty() && text.front() == '[') {
    end = text.find(']');
    if (end == text.npos || end < 3) return false;
    const std::string_view address = text.substr(1, end - 1);
    const auto fits = [](char c) { return is_alnum(c) || c == ':' || c == '.'; };
    if (!std::all_of(address.begin(), address.end(), fits)) return false;
    ++end;
  } else {
    end = std::min(text.find(':'), text.size());
    const auto fits = [](char c) {
      return is_alnum(c) || std::string_view("-._~%!$&'()*+,;=").find(c) != std::string_view::npos;
    };
    if (end == 0 || !std::all_of(text.begin(), text.begin() + static_cast<long>(end), fits))
      return false;
  }
  const std::string_view rest = text.substr(end);
  if (rest.empty()) return true;
  return rest.front() == ':' && rest.size() <= 6 &&
         std::all_of(rest.begin() + 1, rest.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

void set_bounds(RequestParser& parser, const ServerConfig& config) {
  parser.header_limit(static_cast<std::uint32_t>(config.max_header_bytes));
  parser.body_limit(config.largest_body());
}

size_t feed(RequestParser& parser, boost::asio::const_buffer bytes, error_code& ec) {
  size_t used = 0;
  const bool header = !parser.is_header_done();
  parser.eager(!header);
  ec = {};
  while (bytes.size() > 0 && !parser.is_done() && !(header && parser.is_header_done())) {
    const size_t n = parser.put(bytes, ec);
    used += n;
    bytes += n;
    if (ec == http::error::need_more) {
      ec = {};
      break;
    }
    if (ec) break;
  }
  return used;
}

Refusal refusal_of(const error_code& ec, bool timed_out, const ServerConfig& config,
                   size_t body_limit) {
  if (ec == http::error::header_limit || ec == http::error::buffer_overflow)
    return {431, "the header is larger than " + std::to_string(config.max_header_bytes) + " bytes"};
  if (ec == http::error::body_limit)
    return {413, "the body is larger than " + std::to_string(body_limit) + " bytes"};
  if (timed_out) return {408, "the request took too long to arrive"};
  if (ec.category() == http::make_error_code(http::error::bad_version).category() &&
      ec != http::error::end_of_stream && ec != http::error::partial_message)
    return {400, "this is not HTTP: " + ec.message()};
  return {};
}

Refusal refusal_of_host(const RequestParser& parser) {
  const auto& message = parser.get();
  const size_t count = message.count(http::field::host);
  if (count > 1) return {400, "there are " + std::to_string(count) + " Host headers; one is right"};
  if (count == 0 && message.version() >= 11) return {400, "there is no Host header"};
  if (count == 0) return {};
  const auto value = message[http::field::host];
  if (is_host({value.data(), value.size()})) return {};
  return {400, "the Host header names no host"};
}

HttpRequest head_of(const RequestParser& parser) {
  const auto& message = parser.get();
  HttpRequest r;
  r.method = std::string(message.method_string());
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

HttpRequest take_request(RequestParser& parser) {
  HttpRequest r = head_of(parser);
  r.body = std::move(parser.get().body());
  return r;
}

}  // namespace tandem::server
