#include "server/http/url.h"

#include <algorithm>
#include <random>

#include "base/strings/percent.h"

namespace tandem::server {
namespace {

bool is_alnum(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// What stands behind `scheme`, in any case; nothing: it does not begin so.
std::optional<std::string_view> behind(std::string_view text, std::string_view scheme) {
  if (text.size() < scheme.size()) return std::nullopt;
  for (size_t i = 0; i < scheme.size(); ++i)
    if ((text[i] | 0x20) != (scheme[i] | 0x20)) return std::nullopt;
  return text.substr(scheme.size());
}

}  // namespace

std::string query_field(std::string_view query, std::string_view name) {
  for (size_t at = 0; at < query.size();) {
    const size_t end = std::min(query.find('&', at), query.size());
    const std::string_view field = query.substr(at, end - at);
    at = end + 1;
    if (field.starts_with(name) && field.substr(name.size()).starts_with('='))
      return percent_decoded(field.substr(name.size() + 1));
  }
  return "";
}

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

std::optional<Target> read_target(std::string_view target, std::string_view method) {
  if (target.starts_with('/')) return Target{target, {}};
  if (target == "*" && method == "OPTIONS") return Target{target, {}};
  auto rest = behind(target, "http://");
  if (!rest) rest = behind(target, "https://");
  if (!rest) return std::nullopt;
  const size_t end = std::min(rest->find_first_of("/?"), rest->size());
  const Target found{rest->substr(end), rest->substr(0, end)};
  if (!is_host(found.authority)) return std::nullopt;
  if (found.path_and_query.empty()) return Target{method == "OPTIONS" ? "*" : "/", found.authority};
  return found;
}

std::string path_below(std::string_view path, std::string_view root) {
  if (!root.empty() && path.starts_with(root) &&
      (path.size() == root.size() || path[root.size()] == '/'))
    path.remove_prefix(root.size());
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return path.empty() ? "/" : std::string(path);
}

std::string bracketed(const std::string& host) {
  return host.find(':') == host.npos || host.starts_with('[') ? host : "[" + host + "]";
}

void split_target(std::string_view target, std::string& path, std::string& query) {
  const size_t mark = target.find('?');
  query = mark == target.npos ? "" : target.substr(mark + 1);
  path = percent_decoded(target.substr(0, mark));
}

std::string random_id() {
  thread_local std::mt19937_64 random{std::random_device{}()};
  std::string id;
  for (int i = 0; i < 2; ++i) {
    uint64_t bits = random();
    for (int k = 0; k < 16; ++k, bits >>= 4) id += "0123456789abcdef"[bits & 15];
  }
  return id;
}

bool is_request_id(const std::string& text) {
  return !text.empty() && text.size() <= 128 && std::all_of(text.begin(), text.end(), [](char c) {
    return c > ' ' && c < 0x7f && c != '"' && c != '\\';
  });
}

std::string request_id_of(const std::string* given) {
  return given != nullptr && is_request_id(*given) ? *given : random_id();
}

}  // namespace tandem::server
