// OpenSSL's digests behind checksum.h.
#include "launcher/hub/checksum.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"

namespace tandem::hub {
namespace {

bool is_hexadecimal(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace

std::string plain_etag(std::string_view header) {
  if (header.substr(0, 2) == "W/") header.remove_prefix(2);
  while (!header.empty() && header.front() == '"') header.remove_prefix(1);
  while (!header.empty() && header.back() == '"') header.remove_suffix(1);
  return std::string(header);
}

struct Checksum::Digest {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  const EVP_MD* kind;

  explicit Digest(const EVP_MD* kind) : kind(kind) {}
  ~Digest() { EVP_MD_CTX_free(context); }
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;
};

Checksum::Checksum(std::string etag, uint64_t size) : etag_(std::move(etag)), size_(size) {
  if (is_hexadecimal(etag_) && etag_.size() == 64)
    digest_ = std::make_unique<Digest>(EVP_sha256());
  else if (is_hexadecimal(etag_) && etag_.size() == 40)
    digest_ = std::make_unique<Digest>(EVP_sha1());
  restart();
}

Checksum::~Checksum() = default;

void Checksum::restart() {
  if (!digest_) return;
  if (EVP_DigestInit_ex(digest_->context, digest_->kind, nullptr) != 1) {
    digest_.reset();  // a system that has no SHA-1 any more
    return;
  }
  if (digest_->kind != EVP_sha1()) return;
  const std::string head = "blob " + std::to_string(size_);
  update(head.c_str(), head.size() + 1);  // with the NUL
}

void Checksum::update(const char* bytes, size_t count) {
  if (digest_) TANDEM_CHECK(EVP_DigestUpdate(digest_->context, bytes, count) == 1);
}

bool Checksum::matches() {
  if (!digest_) return true;
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned int count = 0;
  TANDEM_CHECK(EVP_DigestFinal_ex(digest_->context, bytes.data(), &count) == 1);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (unsigned int i = 0; i < count; ++i) {
    hex += kDigits[bytes[i] >> 4];
    hex += kDigits[bytes[i] & 15];
  }
  return hex == etag_;
}

}  // namespace tandem::hub
