// libcurl behind http.h. Redirects are followed here and not by libcurl, so that each address is
// looked at before it gets a request.
#include "launcher/hub/http_client.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <string_view>
#include <thread>
#include <utility>

#include "base/strings/printable.h"
#include "launcher/curl.h"
#include "runtime/version.h"

namespace tandem::hub {
namespace {

constexpr int kMostRedirects = 8;
constexpr size_t kMostHeaderBytes = size_t{256} << 10;
constexpr size_t kMostBodyBytes = size_t{32} << 20;  // without a sink
constexpr size_t kMostErrorBytes = 4096;
constexpr long kSlowest = 1024;  // bytes per second; less is silence
constexpr std::chrono::seconds kLongestWait(60);

using Url = CurlUrl;

// `location` as seen from `base`. Throws ConnectionError.
Url resolve(const std::string& base, const std::string& location) {
  Url url(curl_url());
  const auto set = [&](const std::string& text) {
    return curl_url_set(url.get(), CURLUPART_URL, text.c_str(),
                        CURLU_URLENCODE | CURLU_DISALLOW_USER) == CURLUE_OK;
  };
  if (!set(base) || !set(location))
    throw ConnectionError("redirected to an address that makes no sense", /*lasting=*/true);
  const std::string scheme = part_of(url, CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https")
    throw ConnectionError("redirected to " + printable(scheme) + ":, which is not HTTP",
                          /*lasting=*/true);
  return url;
}

// scheme, host and port.
std::string origin(const Url& url) {
  std::string host = part_of(url, CURLUPART_HOST);
  for (char& c : host) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return part_of(url, CURLUPART_SCHEME) + "://" + host + ":" +
         part_of(url, CURLUPART_PORT, CURLU_DEFAULT_PORT);
}

std::string origin(const std::string& url) { return origin(resolve(url, url)); }

bool is_lasting(CURLcode code) {
  return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
         code == CURLE_SSL_CERTPROBLEM || code == CURLE_SSL_ISSUER_ERROR ||
         code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL;
}

bool is_redirect(long status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

bool is_relative(const std::string& location) {
  return location.substr(0, 2) != "//" && location.find("://") >= location.find_first_of("/?");
}

}  // namespace

std::string Response::header(const std::string& name) const {
  const auto it = headers.find(name);
  return it == headers.end() ? std::string() : it->second;
}

// What libcurl's callbacks work on. No exception may pass through its code: they are kept.
struct HttpClient::Transfer {
  const Request& request;
  const Hooks& hooks;
  CURL* curl;
  Response response;
  size_t header_bytes = 0;
  bool too_long = false;
  std::exception_ptr thrown;

  template <class F>
  bool guarded(const F& f) {
    try {
      return f();
    } catch (...) {
      thrown = std::current_exception();
      return false;
    }
  }

  bool on_header(std::string_view line) {
    header_bytes += line.size();
    too_long = too_long || header_bytes > kMostHeaderBytes;
    if (too_long) return false;
    if (line.substr(0, 5) == "HTTP/") response.headers.clear();  // after a 1xx
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return true;
    std::string name(line.substr(0, colon)), value(line.substr(colon + 1));
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const size_t begin = value.find_first_not_of(" \t");
    const size_t end = value.find_last_not_of(" \t\r\n");
    response.headers[name] = begin == std::string::npos ? "" : value.substr(begin, end - begin + 1);
    return true;
  }

  bool on_body(const char* bytes, size_t count) {
    if (response.status == 0) curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &response.status);
    const bool good = response.status >= 200 && response.status < 300;
    if (good && request.sink) {
      request.sink(response, bytes, count);
      return true;
    }
    if (!good) {
      count = std::min(count, kMostErrorBytes - std::min(kMostErrorBytes, response.body.size()));
    } else if (response.body.size() + count > kMostBodyBytes) {
      too_long = true;
      return false;
    }
    response.body.append(bytes, count);
    return true;
  }

  static size_t header_callback(char* bytes, size_t, size_t count, void* self) {
    auto* t = static_cast<Transfer*>(self);
    return t->guarded([&] { return t->on_header({bytes, count}); }) ? count : 0;
  }
  static size_t body_callback(char* bytes, size_t, size_t count, void* self) {
    auto* t = static_cast<Transfer*>(self);
    return t->guarded([&] { return t->on_body(bytes, count); }) ? count : 0;
  }
  static int progress_callback(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    auto* t = static_cast<Transfer*>(self);
    return t->guarded([&] {
      t->hooks.check();
      return true;
    })
               ? 0
               : 1;
  }
};

HttpClient::HttpClient(const Settings& settings, const Hooks& hooks)
    : settings_(settings), hooks_(hooks) {
  set_up_curl();
  curl_ = curl_easy_init();
  if (curl_ == nullptr) throw std::bad_alloc();
}

HttpClient::~HttpClient() { curl_easy_cleanup(curl_); }

Response HttpClient::send_once(const Request& request, const std::string& url) {
  CURL* curl = curl_;
  curl_easy_reset(curl);  // connections stay
  Transfer transfer{request, hooks_, curl, {}, 0, false, nullptr};
  const Url parsed = resolve(url, url);
  transfer.response.host = part_of(parsed, CURLUPART_HOST);
  char why[CURL_ERROR_SIZE] = "";
  const auto set = [&](CURLoption option, auto value) { curl_easy_setopt(curl, option, value); };
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_ERRORBUFFER, why);
  set(CURLOPT_USERAGENT, (std::string("tandem/") + kVersion).c_str());
  set(CURLOPT_NOBODY, request.head ? 1L : 0L);
  set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  set(CURLOPT_HEADERFUNCTION, &Transfer::header_callback);
  set(CURLOPT_HEADERDATA, &transfer);
  set(CURLOPT_WRITEFUNCTION, &Transfer::body_callback);
  set(CURLOPT_WRITEDATA, &transfer);
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, &Transfer::progress_callback);
  set(CURLOPT_XFERINFODATA, &transfer);
  const auto silence = request.sink ? settings_.download_timeout : settings_.metadata_timeout;
  set(CURLOPT_CONNECTTIMEOUT, static_cast<long>(settings_.metadata_timeout.count()));
  set(CURLOPT_LOW_SPEED_LIMIT, kSlowest);
  set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(silence.count()));
  // Metadata are small: no answer may drip for ever.
  if (!request.sink) set(CURLOPT_TIMEOUT, static_cast<long>(12 * silence.count()));
  if (!settings_.ca_file.empty())
    set(std::filesystem::is_directory(settings_.ca_file) ? CURLOPT_CAPATH : CURLOPT_CAINFO,
        settings_.ca_file.c_str());
  if (request.offset > 0) set(CURLOPT_RANGE, (std::to_string(request.offset) + "-").c_str());
  curl_slist* list = curl_slist_append(nullptr, "Accept-Encoding: identity");
  if (!settings_.token.empty() && origin(parsed) == origin(settings_.endpoint))
    list = curl_slist_append(list, ("Authorization: Bearer " + settings_.token).c_str());
  const CurlList headers(list);
  set(CURLOPT_HTTPHEADER, list);

  const CURLcode code = curl_easy_perform(curl);
  if (transfer.thrown) std::rethrow_exception(transfer.thrown);
  if (transfer.too_long)
    throw ConnectionError(transfer.response.host + ": the answer is too long", /*lasting=*/true);
  if (code != CURLE_OK)
    throw ConnectionError(
        transfer.response.host + ": " + printable(*why != 0 ? why : curl_easy_strerror(code)),
        is_lasting(code));
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &transfer.response.status);
  curl_off_t seconds = 0;
  if (curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &seconds) == CURLE_OK && seconds > 0)
    transfer.response.retry_after = std::chrono::seconds(std::min<curl_off_t>(seconds, 86400));
  return std::move(transfer.response);
}

Response HttpClient::send(const Request& request) {
  std::string url = request.url;
  std::string commit;  // that a hop names
  for (int hop = 0; hop <= kMostRedirects; ++hop) {
    Response response = send_once(request, url);
    if (response.headers.count("x-repo-commit")) commit = response.headers["x-repo-commit"];
    if (!commit.empty()) response.headers["x-repo-commit"] = commit;
    const std::string location = response.header("location");
    if (!is_redirect(response.status) || location.empty()) return response;
    const Url next = resolve(url, location);
    // An absolute address is where the bytes are; a relative one is another name at the hub.
    const bool to_bytes = response.headers.count("x-linked-etag") > 0 && !is_relative(location);
    if (request.head && (to_bytes || origin(next) != origin(request.url))) return response;
    url = part_of(next, CURLUPART_URL);
  }
  throw ConnectionError("redirected more than " + std::to_string(kMostRedirects) + " times",
                        /*lasting=*/true);
}

Response HttpClient::send_patiently(const Request& request, int tries) {
  Patience patience(tries, hooks_);
  while (true) {
    try {
      Response response = send(request);
      if (!is_passing(response.status) ||
          !patience.wait(describe_status(response), response.retry_after))
        return response;
    } catch (const ConnectionError& e) {
      if (e.lasting() || !patience.wait(e.what())) throw;
    }
  }
}

bool is_passing(long status) { return status >= 500 || status == 429 || status == 408; }

std::string describe_status(const Response& response) {
  std::string text = response.host + " answers with HTTP status " + std::to_string(response.status);
  const std::string message = response.header("x-error-message");
  return message.empty() ? text : text + ": " + printable(message);
}

bool Patience::wait(const std::string& why, std::optional<std::chrono::seconds> asked) {
  using Clock = std::chrono::steady_clock;
  if (++failed_ >= tries_ || (asked && *asked > kLongestWait)) return false;
  std::chrono::milliseconds time(250 << std::min(failed_, 5));  // 0.5, 1, 2, 4, 8 s
  if (asked) time = *asked;
  char seconds[32];
  std::snprintf(seconds, sizeof(seconds), "%g", static_cast<double>(time.count()) / 1e3);
  hooks_.warn(why + "; trying again in " + seconds + " s");
  for (const auto end = Clock::now() + time; Clock::now() < end;) {
    hooks_.check();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

bool is_web_address(const std::string& text) {
  const Url url(curl_url());
  if (curl_url_set(url.get(), CURLUPART_URL, text.c_str(), CURLU_DISALLOW_USER) != CURLUE_OK)
    return false;
  const std::string scheme = part_of(url, CURLUPART_SCHEME);
  return (scheme == "http" || scheme == "https") && part_of(url, CURLUPART_QUERY).empty() &&
         part_of(url, CURLUPART_FRAGMENT).empty();
}

std::string url_escaped(const std::string& segment) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : segment) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '-' || c == '_' || c == '.' || c == '~')
      out += c;
    else
      out += {'%', kHex[byte >> 4], kHex[byte & 15]};
  }
  return out;
}

}  // namespace tandem::hub
