#include "base/log/log.h"

#include <spdlog/spdlog.h>

namespace tandem {
namespace {

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarning: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
    case LogLevel::kCritical: break;
  }
  return spdlog::level::critical;
}

}  // namespace

void log_line(LogLevel level, fmt::string_view format, fmt::format_args args) {
  const auto at = level_of(level);
  // (Not a shared pointer to it: that would be counted for each line.)
  spdlog::logger* const logger = spdlog::default_logger_raw();
  if (!logger->should_log(at)) return;
  logger->log(at, spdlog::string_view_t(fmt::vformat(format, args)));
}

void log_nothing() { spdlog::set_level(spdlog::level::off); }

}  // namespace tandem
