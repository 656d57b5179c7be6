// The pages at "/" and "/docs": server/page's files, each joined to a single one. The browser runs
// only the scripts and the style whose hashes the header names, and talks to this server only.
#include <openssl/evp.h>
#include <openssl/sha.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

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

// What the browser may do with a page of these scripts and styles.
HttpResponse page_of(std::string html, const std::string& scripts, const std::string& styles) {
  return {.body = std::move(html),
          .content_type = "text/html; charset=utf-8",
          .headers = {{"content-security-policy",
                       "default-src 'none'; script-src " + scripts + "; style-src " + styles +
                           "; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action "
                           "'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"},
                      {"x-content-type-options", "nosniff"},
                      {"referrer-policy", "no-referrer"},
                      {"cache-control", "no-cache"}}};
}

// root: --root-path, fit for a URL.
std::string rooted(std::string_view html, const std::string& root) {
  std::string page(html);
  while (page.find(kRootMark) != std::string::npos) put(page, kRootMark, root);
  return page;
}

HttpResponse make_page(const std::string& root) {
  std::string html = rooted(page::index_html, root);
  put(html, kStyleMark, page::style_css);
  put(html, kScriptMark, page::app_js);
  put(html, kHearMark, page::hear_js);
  return page_of(std::move(html), csp_hash(page::app_js) + " " + csp_hash(page::hear_js),
                 csp_hash(page::style_css));
}

HttpResponse make_docs(const std::string& root) {
  std::string html = rooted(page::docs_html, root);
  const std::string style = std::string(page::style_css) + std::string(page::docs_css);
  put(html, kStyleMark, style);
  put(html, kScriptMark, page::docs_js);
  return page_of(std::move(html), csp_hash(page::docs_js), csp_hash(style));
}

}  // namespace

void get_page(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  static const HttpResponse page = make_page(app.config.root_path);
  exchange->respond(page);
}

void get_docs(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  static const HttpResponse page = make_docs(app.config.root_path);
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
