#include "launcher/logging.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/log/log_fields.h"
#include "base/log/log_text.h"
#include "launcher/help.h"

namespace tandem::launcher {
namespace {

// What messages quote (paths of requests, names, files) neither ends a line nor reaches the
// terminal as a command.
class EscapedMessage final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const std::string text = escape_controls({message.payload.data(), message.payload.size()});
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<EscapedMessage>();
  }
};

// {"time", "level", "who", "pid", "message"}, and the line's own fields
class JsonFormatter final : public spdlog::formatter {
 public:
  explicit JsonFormatter(std::string who) : who_(std::move(who)) {}
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const double time = std::chrono::duration<double>(message.time.time_since_epoch()).count();
    const auto level = spdlog::level::to_string_view(message.level);
    nlohmann::ordered_json line = {
        {"time", time},
        {"level", std::string(level.data(), level.size())},
        {"who", who_},
        {"pid", getpid()},
        {"message", escape_controls({message.payload.data(), message.payload.size()})}};
    if (const auto* fields = LogFields::current()) line.update((*fields)());
    const std::string text = dump_ordered_line(line) + "\n";
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>(who_);
  }

 private:
  std::string who_;
};

std::unique_ptr<spdlog::formatter> text_formatter(const std::string& who) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<EscapedMessage>('*').set_pattern("%Y-%m-%d %H:%M:%S.%e %^%-7l%$ [" + who +
                                                       "] %*");
  return formatter;
}

}  // namespace

void LogOptions::add(CLI::App& app) {
  const Heading heading(app, "Log");
  app.add_option("--log-level", level,
                 "Least important lines to log: trace, debug, info, warning, error or off")
      ->capture_default_str();
  app.add_option("--log-format", format, "text, or json with an object in each line")
      ->capture_default_str();
}

void LogOptions::apply(const std::string& who) const {
  const auto parsed = spdlog::level::from_str(level);
  if (parsed == spdlog::level::off && level != "off")
    throw invalid_request("--log-level", "\"" + level + "\" is not a level");
  if (format != "text" && format != "json")
    throw invalid_request("--log-format", "\"" + format + "\" is not text or json");
  auto logger = spdlog::default_logger();
  logger->set_level(parsed);
  if (format == "json")
    logger->set_formatter(std::make_unique<JsonFormatter>(who));
  else
    logger->set_formatter(text_formatter(who));
  logger->flush_on(spdlog::level::info);
}

std::vector<std::string> LogOptions::flags() const {
  return {"--log-level", level, "--log-format", format};
}

}  // namespace tandem::launcher
