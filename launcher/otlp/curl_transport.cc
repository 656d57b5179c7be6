#include "launcher/otlp/curl_transport.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/strings/printable.h"
#include "runtime/version.h"
#include "server/http/body/gzip.h"

namespace tandem::launcher {
namespace {

using server::Delivery;

constexpr size_t kMostAnswer = 4096;  // bytes that are kept

// What OTLP says may be tried again.
bool is_passing(long status) {
  return status == 429 || status == 502 || status == 503 || status == 504;
}

}  // namespace

CurlTransport::CurlTransport(OtlpEndpoint endpoint) : endpoint_(std::move(endpoint)) {
  set_up_curl();
  curl_.reset(curl_easy_init());
  if (curl_ == nullptr) throw std::bad_alloc();
  curl_slist* list = curl_slist_append(nullptr, "Content-Type: application/json");
  list = curl_slist_append(list, "Expect:");  // a collector need not be asked first
  if (endpoint_.gzip) list = curl_slist_append(list, "Content-Encoding: gzip");
  for (const std::string& header : endpoint_.headers)
    list = curl_slist_append(list, header.c_str());
  headers_.reset(list);
}

void CurlTransport::end_within(std::chrono::milliseconds time) {
  deadline_ = (Clock::now() + time).time_since_epoch().count();
}

int CurlTransport::progress_callback(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const auto* transport = static_cast<CurlTransport*>(self);
  return Clock::now().time_since_epoch().count() > transport->deadline_ ? 1 : 0;
}

size_t CurlTransport::body_callback(char* bytes, size_t, size_t count, void* answer) {
  auto& text = *static_cast<std::string*>(answer);
  text.append(bytes, std::min(count, kMostAnswer - std::min(kMostAnswer, text.size())));
  return count;
}

Delivery CurlTransport::send(const std::string& json) {
  const std::string body = endpoint_.gzip ? server::gzip(json) : json;
  CURL* curl = curl_.get();
  curl_easy_reset(curl);  // connections stay
  char why[CURL_ERROR_SIZE] = "";
  std::string answer;
  const auto set = [&](CURLoption option, auto value) { curl_easy_setopt(curl, option, value); };
  set(CURLOPT_URL, endpoint_.url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_NOSIGNAL, 1L);  // this is not the only thread
  set(CURLOPT_ERRORBUFFER, why);
  set(CURLOPT_USERAGENT, (std::string("tandem/") + kVersion).c_str());
  set(CURLOPT_HTTPHEADER, headers_.get());
  set(CURLOPT_POST, 1L);
  set(CURLOPT_POSTFIELDS, body.c_str());
  set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(endpoint_.timeout.count()));
  set(CURLOPT_WRITEFUNCTION, &CurlTransport::body_callback);
  set(CURLOPT_WRITEDATA, &answer);
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, &CurlTransport::progress_callback);
  set(CURLOPT_XFERINFODATA, this);
  if (!endpoint_.ca_file.empty()) set(CURLOPT_CAINFO, endpoint_.ca_file.c_str());

  const CURLcode code = curl_easy_perform(curl);
  if (code == CURLE_ABORTED_BY_CALLBACK)
    return {.result = Delivery::Result::kFailed, .why = "no answer before the end of the server"};
  if (code != CURLE_OK)
    return {.result = Delivery::Result::kFailed,
            .why = printable(*why != 0 ? why : curl_easy_strerror(code))};
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  if (status >= 200 && status < 300) return {.answer = std::move(answer)};
  Delivery out{
      .result = is_passing(status) ? Delivery::Result::kFailed : Delivery::Result::kRefused,
      .why = "HTTP status " + std::to_string(status)};
  if (!answer.empty()) out.why += ": " + printable(answer);
  curl_off_t seconds = 0;
  if (curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &seconds) == CURLE_OK && seconds > 0)
    out.retry_after = std::chrono::seconds(std::min<curl_off_t>(seconds, 3600));
  return out;
}

}  // namespace tandem::launcher
