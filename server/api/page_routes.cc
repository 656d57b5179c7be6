// The page at "/": server/page's files, joined to a single one. The browser runs only the script
// and the style whose hashes the header names, and talks to this server only.
#include <openssl/evp.h>
#include <openssl/sha.h>

#include <array>
#include <string>
#include <string_view>

#include "base/base64.h"
#include "base/check.h"
#include "server/api/routes.h"
#include "server/page_files.h"

namespace tandem::server {
namespace {

constexpr std::string_view kStyleMark = "@STYLE@", kScriptMark = "@SCRIPT@", kHearMark = "@HEAR@",
                           kRootMark = "@ROOT@";

// As a Content-Security-Policy names an inline element with this text.
std::string csp_hash(std::string_view text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  unsigned int size = 0;
  TANDEM_CHECK_EQ(EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr),
                  1);
  return "'sha256-" + encode_base64({reinterpret_cast<const char*>(digest.data()), size}) + "'";
}

void put(std::string& page, std::string_view mark, std::string_view text) {
  const size_t at = page.find(mark);
  TANDEM_CHECK(at != std::string::npos, "the page has no place for it");
  page.replace(at, mark.size(), text);
}

// root: --root-path, fit for a URL.
HttpResponse make_page(const std::string& root) {
  HttpResponse response{.content_type = "text/html; charset=utf-8"};
  response.body = page::index_html;
  while (response.body.find(kRootMark) != std::string::npos) put(response.body, kRootMark, root);
  put(response.body, kStyleMark, page::style_css);
  put(response.body, kScriptMark, page::app_js);
  put(response.body, kHearMark, page::hear_js);
  response.headers = {
      {"content-security-policy",
       "default-src 'none'; script-src " + csp_hash(page::app_js) + " " + csp_hash(page::hear_js) +
           "; style-src " + csp_hash(page::style_css) +
           "; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
           "frame-ancestors 'none'; require-trusted-types-for 'script'"},
      {"x-content-type-options", "nosniff"},
      {"referrer-policy", "no-referrer"},
      {"cache-control", "no-cache"}};
  return response;
}

}  // namespace

void get_page(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  static const HttpResponse page = make_page(app.config.root_path);
  exchange->respond(page);
}

void get_icon(AppContext&, const std::shared_ptr<Exchange>& exchange) {
  exchange->respond({.body = std::string(page::icon_svg),
                     .content_type = "image/svg+xml",
                     .headers = {{"content-security-policy", "default-src 'none'"},
                                 {"x-content-type-options", "nosniff"},
                                 {"cache-control", "max-age=86400"}}});
}

}  // namespace tandem::server
