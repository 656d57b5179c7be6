// The pages at "/" and "/docs" and their files, server/page's. The browser runs only scripts and
// styles of this server, and talks to no other.
#include <openssl/evp.h>
#include <openssl/sha.h>

#include <array>
#include <string>
#include <string_view>

#include "base/check.h"
#include "server/api/routes.h"
#include "server/http/errors.h"
#include "server/page_files.h"

namespace tandem::server {
namespace {

constexpr std::string_view kRootMark = "@ROOT@", kStampMark = "@STAMP@", kFiles = "/page/";
constexpr const char* kScript = "text/javascript; charset=utf-8";
constexpr const char* kStyle = "text/css; charset=utf-8";

struct PageFile {
  std::string_view name, text;
  const char* type;
};
const auto& page_files() {
  static const std::array all = std::to_array<PageFile>({
      {"api.js", page::api_js, kScript},
      {"app.js", page::app_js, kScript},
      {"captions.js", page::captions_js, kScript},
      {"capture.js", page::capture_js, kScript},
      {"docs.css", page::docs_css, kStyle},
      {"docs.js", page::docs_js, kScript},
      {"dom.js", page::dom_js, kScript},
      {"engine.css", page::engine_css, kStyle},
      {"engine.js", page::engine_js, kScript},
      {"key.js", page::key_js, kScript},
      {"languages.js", page::languages_js, kScript},
      {"prompt.js", page::prompt_js, kScript},
      {"read.js", page::read_js, kScript},
      {"recorder.js", page::recorder_js, kScript},
      {"samples.js", page::samples_js, kScript},
      {"style.css", page::style_css, kStyle},
      {"summarise.js", page::summarise_js, kScript},
      {"text_task.js", page::text_task_js, kScript},
      {"theme.js", page::theme_js, kScript},
      {"transcribe.js", page::transcribe_js, kScript},
      {"transcript.js", page::transcript_js, kScript},
      {"translate.js", page::translate_js, kScript},
  });
  return all;
}

// Changes with any of the files: browsers keep what has it in its address.
std::string make_stamp() {
  std::string all;
  for (const PageFile& file : page_files()) all += file.text;
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  unsigned int size = 0;
  TANDEM_CHECK_EQ(EVP_Digest(all.data(), all.size(), digest.data(), &size, EVP_sha256(), nullptr),
                  1);
  std::string out;
  for (size_t i = 0; i < 6; ++i) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    out += kDigits[digest[i] >> 4];
    out += kDigits[digest[i] & 15];
  }
  return out;
}
const std::string& stamp() {
  static const std::string value = make_stamp();
  return value;
}

void replace_all(std::string& text, std::string_view mark, std::string_view by) {
  size_t at = text.find(mark);
  TANDEM_CHECK(at != std::string::npos, "the page has no place for it");
  for (; at != std::string::npos; at = text.find(mark, at + by.size()))
    text.replace(at, mark.size(), by);
}

// root: --root-path, fit for a URL.
HttpResponse make_page(std::string_view html, const std::string& root) {
  HttpResponse response{.content_type = "text/html; charset=utf-8"};
  response.body = html;
  replace_all(response.body, kRootMark, root);
  replace_all(response.body, kStampMark, stamp());
  response.headers = {{"content-security-policy",
                       "default-src 'none'; script-src 'self'; style-src 'self'; connect-src "
                       "'self'; img-src 'self' blob:; base-uri 'none'; form-action 'none'; "
                       "frame-ancestors 'none'; require-trusted-types-for 'script'"},
                      {"x-content-type-options", "nosniff"},
                      {"referrer-policy", "no-referrer"},
                      {"cache-control", "no-cache"}};
  return response;
}

}  // namespace

void get_page(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  static const HttpResponse page = make_page(page::index_html, app.config.root_path);
  exchange->respond(page);
}

void get_docs(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  static const HttpResponse page = make_page(page::docs_html, app.config.root_path);
  exchange->respond(page);
}

// "/page/STAMP/NAME". A page of before an update gets today's files, which it does not keep.
void get_page_file(AppContext&, const std::shared_ptr<Exchange>& exchange) {
  const std::string_view path = exchange->request().path;
  const std::string_view below = path.substr(path.find(kFiles) + kFiles.size());
  const size_t slash = below.rfind('/');
  const std::string_view name = slash == below.npos ? below : below.substr(slash + 1);
  const bool current = slash != below.npos && below.substr(0, slash) == stamp();
  for (const PageFile& file : page_files())
    if (file.name == name)
      return exchange->respond(
          {.body = std::string(file.text),
           .content_type = file.type,
           .headers = {{"x-content-type-options", "nosniff"},
                       {"cache-control", current ? "max-age=31536000, immutable" : "no-cache"}}});
  exchange->respond(error_response(404, "the page has no such file"));
}

void get_icon(AppContext&, const std::shared_ptr<Exchange>& exchange) {
  exchange->respond({.body = std::string(page::icon_svg),
                     .content_type = "image/svg+xml",
                     .headers = {{"content-security-policy", "default-src 'none'"},
                                 {"x-content-type-options", "nosniff"},
                                 {"cache-control", "max-age=86400"}}});
}

}  // namespace tandem::server
