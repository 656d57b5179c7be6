// Lines of the log. spdlog writes them; its header takes a compiler 2 s, so log.cc alone includes
// it to log a line.
//
// A line's format is checked at compile time, and is evaluated only if its level is logged. Any
// thread may log.
#pragma once

#include <fmt/core.h>

namespace tandem {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kCritical };

// By name: log_info() and the others below.
void log_line(LogLevel level, fmt::string_view format, fmt::format_args args);

template <class... Args>
void log_at(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  log_line(level, format, fmt::make_format_args(args...));
}
template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kDebug, format, fmt::make_format_args(args...));
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kInfo, format, fmt::make_format_args(args...));
}
template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kWarning, format, fmt::make_format_args(args...));
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kError, format, fmt::make_format_args(args...));
}
template <class... Args>
void log_critical(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kCritical, format, fmt::make_format_args(args...));
}

// No line of any level, until the program ends.
void log_nothing();

}  // namespace tandem
