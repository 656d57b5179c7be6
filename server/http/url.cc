#include "server/http/url.h"

#include <algorithm>
#include <random>

namespace tandem::server {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

void split_target(const std::string& target, std::string& path, std::string& query) {
  const size_t mark = target.find('?');
  query = mark == std::string::npos ? "" : target.substr(mark + 1);
  const std::string raw = target.substr(0, mark);
  path.clear();
  for (size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] == '%' && i + 2 < raw.size()) {
      const int high = hex_digit(raw[i + 1]), low = hex_digit(raw[i + 2]);
      if (high >= 0 && low >= 0) {
        path += static_cast<char>(high * 16 + low);
        i += 2;
        continue;
      }
    }
    path += raw[i];
  }
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
