// Targets, hosts and ids of requests.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tandem::server {

// "/a%20b?c=d" → "/a b", "c=d". Invalid escapes stay as they are.
void split_target(std::string_view target, std::string& path, std::string& query);

// A request's target (RFC 9112, 3.2) in origin-form, "/path?query", or "*".
struct Target {
  std::string_view path_and_query;
  std::string_view authority;  // of the absolute form, "http://authority/path"; else empty
};
// Nothing: not a target of an origin server.
std::optional<Target> read_target(std::string_view target, std::string_view method);

// The value of a field of a query, "a=b%20c&d=e"; "": there is none.
std::string query_field(std::string_view query, std::string_view name);

// A name or an address, with a port or without (RFC 3986, 3.2.2 and 3.2.3).
bool is_host(std::string_view text);

// The path as routes have it: without the prefix `root` if it begins with it, and without slashes
// at its end.
std::string path_below(std::string_view path, std::string_view root);

// For a URL: IPv6 addresses in brackets.
std::string bracketed(const std::string& host);

// 32 hexadecimal digits.
std::string random_id();
// 1 to 128 printable ASCII characters without blanks, quotes and backslashes: fit for a log.
bool is_request_id(const std::string& text);
// The client's, if it is one; else a random one.
std::string request_id_of(const std::string* given);

}  // namespace tandem::server
