// What the log says about a collector: when it fails, once a minute while it goes on failing, and
// when it works again.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "base/log/log.h"
#include "base/log/log_text.h"

namespace tandem::server {

// One thread.
class ExportLog {
 public:
  // signal: "traces" or "metrics".
  ExportLog(std::string signal, std::string address)
      : signal_(std::move(signal)), address_(std::move(address)) {}

  // lost: spans so far.
  void failed(const std::string& why, int64_t lost) {
    const auto now = std::chrono::steady_clock::now();
    if (failing_ && now - last_ < std::chrono::minutes(1)) return;
    failing_ = true;
    last_ = now;
    const std::string losses =
        lost > 0 ? "; " + std::to_string(lost) + " spans have been dropped" : "";
    log_warning("{} to {}: {}{}", signal_, address_, escape_controls(why), losses);
  }
  void worked() {
    if (!std::exchange(failing_, false)) return;
    log_info("{} to {}: taken again", signal_, address_);
  }

 private:
  const std::string signal_, address_;
  bool failing_ = false;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace tandem::server
