// Messages to a collector over HTTP, by libcurl.
#pragma once

#include <atomic>
#include <chrono>
#include <string>

#include "launcher/curl.h"
#include "launcher/otlp/otlp_settings.h"
#include "server/telemetry/transport.h"

namespace tandem::launcher {

class CurlTransport final : public server::OtlpTransport {
 public:
  explicit CurlTransport(OtlpEndpoint endpoint);

  server::Delivery send(const std::string& json) override;
  void end_within(std::chrono::milliseconds time) override;
  std::string address() const override { return endpoint_.url; }

 private:
  using Clock = std::chrono::steady_clock;
  static int progress_callback(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t);
  static size_t body_callback(char* bytes, size_t, size_t count, void* answer);

  const OtlpEndpoint endpoint_;
  CurlEasy curl_;  // keeps the connection
  CurlList headers_;
  std::atomic<Clock::rep> deadline_{Clock::duration::max().count()};
};

}  // namespace tandem::launcher
