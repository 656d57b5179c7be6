// HTTP requests to the hub, and to where it redirects: one at a time, by libcurl. The token goes to
// the hub alone. Proxies by the usual variables (https_proxy, no_proxy).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "launcher/hub/cache.h"
#include "launcher/hub/settings.h"

namespace tandem::hub {

struct Response {
  long status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // without a sink, or of an error: its beginning
  std::string host;                            // that gave the answer
  std::optional<std::chrono::seconds> retry_after;

  std::string header(const std::string& name) const;
};

// No answer, or one that broke off.
class ConnectionError : public std::runtime_error {
 public:
  ConnectionError(const std::string& message, bool lasting)
      : std::runtime_error(message), lasting_(lasting) {}
  // Another try would end alike: a certificate that is not trusted, say.
  bool lasting() const { return lasting_; }

 private:
  bool lasting_;
};

struct Request {
  std::string url;
  bool head = false;    // HEAD, which stays at the hub: a redirect to the bytes is the answer
  uint64_t offset = 0;  // of the first byte that is wanted
  // Takes the body of an answer 2xx as it comes; exceptions end the request and pass through.
  using Sink = std::function<void(const Response& answer, const char* bytes, size_t count)>;
  Sink sink;
};

class HttpClient {
 public:
  HttpClient(const Settings& settings, const Hooks& hooks);
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;
  ~HttpClient();
  // Follows redirects; any status is an answer. Throws ConnectionError, InputError, Interrupted.
  Response send(const Request& request);
  // Until there is an answer that is not the server's or the line's passing trouble, at most
  // `tries` times. The last answer, or what the last try threw.
  Response send_patiently(const Request& request, int tries);

 private:
  struct Transfer;
  Response send_once(const Request& request, const std::string& url);

  const Settings& settings_;
  const Hooks& hooks_;
  void* curl_;  // CURL*
};

// Whether a later try may be answered better: 5xx, 429, 408.
bool is_passing(long status);

// "host answers with HTTP status 503: its message".
std::string describe_status(const Response& response);

// Waits between tries, longer each time.
class Patience {
 public:
  Patience(int tries, const Hooks& hooks) : tries_(tries), hooks_(hooks) {}
  // False, at once, after the last try or if the server wants more time than anybody has. Throws
  // Interrupted.
  bool wait(const std::string& why, std::optional<std::chrono::seconds> asked = {});
  void renew() { failed_ = 0; }

 private:
  int tries_, failed_ = 0;
  const Hooks& hooks_;
};

// http:// or https://, without credentials.
bool is_web_address(const std::string& text);
// Of a path below an URL: a name as one segment.
std::string url_escaped(const std::string& segment);

}  // namespace tandem::hub
