#include "base/log/log.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>
#include <string>

namespace tandem {
namespace log_test {
namespace {

// What is logged while it lives, as "level text" lines.
class Log {
 public:
  Log() : before_(spdlog::default_logger()) {
    auto logger = std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_));
    logger->set_pattern("%l %v");
    logger->set_level(spdlog::level::info);
    spdlog::set_default_logger(logger);
  }
  ~Log() { spdlog::set_default_logger(before_); }
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::shared_ptr<spdlog::logger> before_;
};

TEST(Log, HasLinesByLevel) {
  const Log log;
  log_debug("not {}", "logged");
  log_info("{} of {:.1f}", 1, 2.0);
  log_warning("w");
  log_error("e");
  log_critical("c");
  log_at(LogLevel::kWarning, "{}", std::string("told"));
  log_at(LogLevel::kDebug, "{}", 1);
  EXPECT_EQ(log.text(), "info 1 of 2.0\nwarning w\nerror e\ncritical c\nwarning told\n");
}

// Braces of a text that somebody sent are no format.
TEST(Log, TextsAreNoFormats) {
  const Log log;
  log_info("{}", "{} {0} %s");
  EXPECT_EQ(log.text(), "info {} {0} %s\n");
}

}  // namespace
}  // namespace log_test
}  // namespace tandem
