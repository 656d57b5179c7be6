// Keys and certificates through OpenSSL's C interface. All are EC P-256; only the authority may
// sign, and everybody else's certificate serves both ends of a connection.
#include "actors/network/credentials.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "actors/network/endpoint_probe.h"
#include "base/error.h"
#include "base/json.h"

namespace tandem::actors {
namespace {

template <auto release>
struct Release {
  template <class T>
  void operator()(T* x) const {
    release(x);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Release<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Release<X509_free>>;
using Bio = std::unique_ptr<BIO, Release<BIO_free_all>>;

[[noreturn]] void fail(const char* what) {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  throw std::runtime_error(std::string("credentials: ") + what + ": " +
                           (reason != nullptr ? reason : "unknown error"));
}
void check(bool ok, const char* what) {
  if (!ok) fail(what);
}

template <class Write>
std::string to_pem(Write&& write) {
  const Bio bio(BIO_new(BIO_s_mem()));
  check(bio && write(bio.get()) == 1, "cannot write PEM");
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<size_t>(size)};
}
std::string to_pem(X509* certificate) {
  return to_pem([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}

void add_extension(X509* certificate, X509* issuer, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, Release<X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, nid, value));
  check(extension && X509_add_ext(certificate, extension.get(), -1) == 1, "cannot add extension");
}

void set_serial(X509* certificate) {
  unsigned char bytes[16];
  check(RAND_bytes(bytes, sizeof(bytes)) == 1, "no random numbers");
  bytes[0] = static_cast<unsigned char>((bytes[0] & 0x7f) | 0x40);  // positive, and never short
  const std::unique_ptr<BIGNUM, Release<BN_free>> number(BN_bin2bn(bytes, sizeof(bytes), nullptr));
  check(number && BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr,
        "cannot set serial number");
}

// Without `issuer` it signs itself.
Certificate make_certificate(const std::string& name, EVP_PKEY* key, X509* issuer,
                             EVP_PKEY* issuer_key) {
  Certificate certificate(X509_new());
  X509* x = certificate.get();
  check(x != nullptr && X509_set_version(x, 2) == 1, "cannot make a certificate");
  set_serial(x);
  constexpr long kHour = 3600, kTenYears = 10L * 365 * 24 * kHour;
  check(X509_gmtime_adj(X509_getm_notBefore(x), -kHour) != nullptr &&
            X509_gmtime_adj(X509_getm_notAfter(x), kTenYears) != nullptr,
        "cannot set validity");
  X509_NAME* subject = X509_get_subject_name(x);
  check(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                                   reinterpret_cast<const unsigned char*>(name.data()),
                                   static_cast<int>(name.size()), -1, 0) == 1,
        "cannot set the name");
  check(X509_set_issuer_name(x, issuer != nullptr ? X509_get_subject_name(issuer) : subject) == 1,
        "cannot set the issuer");
  check(X509_set_pubkey(x, key) == 1, "cannot set the key");
  if (issuer == nullptr) {
    add_extension(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
    add_extension(x, x, NID_key_usage, "critical,keyCertSign,cRLSign");
    add_extension(x, x, NID_subject_key_identifier, "hash");
  } else {
    add_extension(x, issuer, NID_basic_constraints, "critical,CA:FALSE");
    add_extension(x, issuer, NID_key_usage, "critical,digitalSignature");
    add_extension(x, issuer, NID_ext_key_usage, "serverAuth,clientAuth");
    add_extension(x, issuer, NID_authority_key_identifier, "keyid");
  }
  check(X509_sign(x, issuer_key, EVP_sha256()) != 0, "cannot sign");
  return certificate;
}

Key make_key() {
  Key key(EVP_EC_gen("P-256"));
  check(key != nullptr, "cannot make a key");
  return key;
}

}  // namespace

// --- Authority -----------------------------------------------------------------------------------

struct CertificateAuthority::Impl {
  Key key = make_key();
  Certificate certificate = make_certificate(kAuthorityName, key.get(), nullptr, key.get());
};

CertificateAuthority::CertificateAuthority() : impl_(std::make_unique<Impl>()) {}
CertificateAuthority::~CertificateAuthority() = default;

Credentials CertificateAuthority::issue(const std::string& common_name) {
  const Key key = make_key();
  const Certificate certificate =
      make_certificate(common_name, key.get(), impl_->certificate.get(), impl_->key.get());
  Credentials out;
  out.ca = to_pem(impl_->certificate.get());
  out.certificate = to_pem(certificate.get());
  out.key = to_pem([&](BIO* bio) {
    return PEM_write_bio_PKCS8PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
  return out;
}

// --- Text ----------------------------------------------------------------------------------------

std::string Credentials::encode() const {
  return json_text(nlohmann::json{{"ca", ca}, {"certificate", certificate}, {"key", key}});
}

Credentials Credentials::decode(const std::string& text) {
  const nlohmann::json json = json_or_discarded<nlohmann::json>(text);
  if (!json.is_object()) throw invalid_request("credentials", "not a JSON object");
  Credentials out;
  for (const auto& [name, field] :
       {std::pair{"ca", &out.ca}, {"certificate", &out.certificate}, {"key", &out.key}}) {
    const auto it = json.find(name);
    if (it == json.end() || !it->is_string())
      throw invalid_request("credentials", std::string("no text \"") + name + "\"");
    *field = it->get<std::string>();
    if (field->compare(0, 11, "-----BEGIN ") != 0)
      throw invalid_request("credentials", std::string("\"") + name + "\" is not PEM");
  }
  return out;
}

// --- Files in memory -----------------------------------------------------------------------------

CredentialFiles::CredentialFiles(const Credentials& credentials) {
  try {
    for (int& fd : fds_) {
      fd = ::memfd_create("tandem-credentials", MFD_CLOEXEC);
      if (fd < 0)
        throw std::runtime_error(std::string("credentials: memfd_create: ") + strerror(errno));
    }
    replace(credentials);
  } catch (...) {
    close_all();
    throw;
  }
}

CredentialFiles::~CredentialFiles() { close_all(); }

void CredentialFiles::close_all() {
  for (int& fd : fds_) {
    if (fd >= 0) ::close(fd);
    fd = -1;
  }
}

void CredentialFiles::replace(const Credentials& credentials) {
  const std::string* texts[] = {&credentials.ca, &credentials.certificate, &credentials.key};
  for (int i = 0; i < 3; ++i) {
    const std::string& text = *texts[i];
    if (::ftruncate(fds_[i], 0) != 0 ||
        ::pwrite(fds_[i], text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
      throw std::runtime_error(std::string("credentials: memfd: ") + strerror(errno));
  }
}

std::string CredentialFiles::path(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

}  // namespace tandem::actors
