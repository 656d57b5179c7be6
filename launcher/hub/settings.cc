// huggingface_hub's variables (constants.py and utils/_auth.py there).
#include "launcher/hub/settings.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <system_error>

#include "base/error.h"
#include "base/log/log.h"

namespace tandem::hub {
namespace {

namespace fs = std::filesystem;
using Get = Settings::GetVariable;

constexpr std::streamsize kLongestToken = 4096;

// The first of the variables that is set and not empty.
std::string first_of(const Get& get, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const char* value = get(name); value != nullptr && *value != 0) return value;
  return {};
}

bool is_true(std::string value) {
  for (char& c : value) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

// "~/x", "$NAME/x" and "${NAME}/x"; variables that are not set stay as they are written.
fs::path expanded(const Get& get, const std::string& text) {
  std::string out;
  size_t at = 0;
  if (!text.empty() && text[0] == '~' && (text.size() == 1 || text[1] == '/')) {
    out = first_of(get, {"HOME"});
    at = 1;
  }
  while (at < text.size()) {
    if (text[at] != '$') {
      out += text[at++];
      continue;
    }
    const bool braces = at + 1 < text.size() && text[at + 1] == '{';
    const size_t begin = at + (braces ? 2 : 1);
    size_t end = begin;
    while (end < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_'))
      ++end;
    const bool closed = !braces || (end < text.size() && text[end] == '}');
    const size_t next = end + (braces && closed ? 1 : 0);
    const char* value =
        closed && end > begin ? get(text.substr(begin, end - begin).c_str()) : nullptr;
    out += value != nullptr ? std::string(value) : text.substr(at, next - at);
    at = next;
  }
  return out;
}

std::string stripped(const std::string& text) {
  const char* blanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

std::string read_token_file(const fs::path& file) {
  std::error_code error;
  if (!fs::exists(file, error)) return {};
  std::ifstream in(file, std::ios::binary);
  std::string text(kLongestToken, '\0');
  in.read(text.data(), kLongestToken);
  if (in.bad() || !in.eof()) {
    log_warning("{}: no token can be read from it", file.string());
    return {};
  }
  text.resize(static_cast<size_t>(in.gcount()));
  return stripped(text);
}

std::string find_token(const Get& get, const fs::path& home) {
  if (is_true(first_of(get, {"HF_HUB_DISABLE_IMPLICIT_TOKEN"}))) return {};
  std::string token = stripped(first_of(get, {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}));
  if (token.empty()) {
    const std::string file = first_of(get, {"HF_TOKEN_PATH"});
    token = read_token_file(file.empty() ? home / "token" : expanded(get, file));
  }
  // It becomes a line of a header.
  if (!std::all_of(token.begin(), token.end(), [](char c) { return c > 0x20 && c < 0x7f; }))
    throw invalid_request("HF_TOKEN", "has blanks or other characters that no token has");
  return token;
}

std::chrono::seconds seconds_of(const Get& get, const char* name, std::chrono::seconds other) {
  const std::string text = first_of(get, {name});
  if (text.empty()) return other;
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > 86400)
    throw invalid_request(name, "\"" + text + "\" is not a number of seconds, 1 to 86400");
  return std::chrono::seconds(value);
}

}  // namespace

Settings Settings::from_environment(const Get& get) {
  Settings s;
  std::string home = first_of(get, {"HF_HOME"});
  if (home.empty()) {
    const std::string caches = first_of(get, {"XDG_CACHE_HOME"});
    home = (caches.empty() ? "~/.cache" : caches) + "/huggingface";
  }
  const fs::path home_path = expanded(get, home);
  const std::string cache = first_of(get, {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"});
  s.cache = cache.empty() ? home_path / "hub" : expanded(get, cache);
  s.endpoint = first_of(get, {"HF_ENDPOINT"});
  if (s.endpoint.empty()) s.endpoint = "https://huggingface.co";
  while (!s.endpoint.empty() && s.endpoint.back() == '/') s.endpoint.pop_back();
  s.token = find_token(get, home_path);
  s.ca_file = first_of(get, {"REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"});
  s.offline = is_true(first_of(get, {"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}));
  s.metadata_timeout = seconds_of(get, "HF_HUB_ETAG_TIMEOUT", s.metadata_timeout);
  s.download_timeout = seconds_of(get, "HF_HUB_DOWNLOAD_TIMEOUT", s.download_timeout);
  return s;
}

Settings Settings::from_environment() {
  return from_environment([](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace tandem::hub
