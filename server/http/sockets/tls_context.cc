#include "server/http/sockets/tls_context.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "base/error.h"

namespace tandem::server {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// OpenSSL does not tell why a file cannot be opened.
void check_readable(const char* flag, const std::string& file) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored))
    throw invalid_request(flag, file + ": is a directory, expected a PEM file");
  errno = 0;
  if (!std::ifstream(file))
    throw invalid_request(flag, file + ": " + std::generic_category().message(errno));
}

}  // namespace

std::unique_ptr<asio::ssl::context> tls_context(const ServerConfig& config) {
  if (config.tls_certificate.empty()) {
    if (!config.tls_key.empty()) throw invalid_request("--ssl-keyfile", "needs --ssl-certfile too");
    return nullptr;
  }
  auto context = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_server);
  context->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_sslv2 |
                       asio::ssl::context::no_sslv3 | asio::ssl::context::no_tlsv1 |
                       asio::ssl::context::no_tlsv1_1);
  SSL_CTX_set_mode(context->native_handle(), SSL_MODE_RELEASE_BUFFERS);
  error_code ec;
  check_readable("--ssl-certfile", config.tls_certificate);
  context->use_certificate_chain_file(config.tls_certificate, ec);
  if (ec)
    throw invalid_request(
        "--ssl-certfile",
        config.tls_certificate + ": has no certificate in PEM (" + ec.message() + ")");
  const bool apart = !config.tls_key.empty();
  const std::string key = apart ? config.tls_key : config.tls_certificate;
  check_readable("--ssl-keyfile", key);
  context->use_private_key_file(key, asio::ssl::context::pem, ec);
  if (ec)
    throw invalid_request("--ssl-keyfile",
                          key + ": has no private key in PEM that belongs to the certificate in " +
                              config.tls_certificate + " (" + ec.message() + ")" +
                              (apart ? "" : "; give the file that has it with --ssl-keyfile"));
  return context;
}

}  // namespace tandem::server
