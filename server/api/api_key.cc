#include "server/api/api_key.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <string>

#include "server/http/socket_request.h"
#include "server/http/token_chars.h"

namespace tandem::server {
namespace {

using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

// Keys of any length take the same time to compare.
Digest digest_of(std::string_view text) {
  Digest digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

}  // namespace

std::string_view credentials_of(const HttpRequest& request, std::string_view scheme) {
  const std::string* header = request.header("authorization");
  if (header == nullptr || header->size() <= scheme.size()) return {};
  std::string_view rest = *header;
  const auto same = [](char a, char b) { return (a | 0x20) == (b | 0x20); };
  if (!std::equal(scheme.begin(), scheme.end(), rest.begin(), same)) return {};
  rest.remove_prefix(scheme.size());
  if (!is_blank(rest.front())) return {};
  while (!rest.empty() && is_blank(rest.front())) rest.remove_prefix(1);
  while (!rest.empty() && is_blank(rest.back())) rest.remove_suffix(1);
  return rest;
}

bool has_key(const ServerConfig& config, const HttpRequest& request) {
  std::string_view credentials = credentials_of(request, "Bearer");
  if (credentials.empty()) credentials = credentials_of(request, "DeepL-Auth-Key");
  if (const std::string* azure = request.header("api-key"); credentials.empty() && azure)
    credentials = *azure;
  if (credentials.empty())
    for (const std::string_view protocol : socket_protocols(request))
      if (protocol.starts_with(kKeyProtocol)) credentials = protocol.substr(kKeyProtocol.size());
  return is_key(config, credentials);
}

bool is_key(const ServerConfig& config, std::string_view key_given) {
  if (config.api_keys.empty()) return true;
  const Digest given = digest_of(key_given);
  bool found = false;
  for (const std::string& key : config.api_keys)
    found |= CRYPTO_memcmp(digest_of(key).data(), given.data(), given.size()) == 0;
  return found;
}

}  // namespace tandem::server
