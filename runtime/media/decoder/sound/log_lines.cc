// libav's log, made into a few lines.
#include "runtime/media/decoder/sound/log_lines.h"

extern "C" {
#include <libavutil/log.h>
}

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "base/strings/printable.h"

namespace tandem::decoder {
namespace {

LogLines* current = nullptr;

void take_line(void* object, int level, const char* format, va_list arguments) {
  if (level > AV_LOG_ERROR || current == nullptr) return;
  char text[512];
  if (std::vsnprintf(text, sizeof text, format, arguments) < 0) return;
  std::string line = text;
  while (!line.empty() && (line.back() == '\n' || line.back() == '.')) line.pop_back();
  if (line.empty()) return;
  // (The first member of an object that logs is its class.)
  const AVClass* const kind = object != nullptr ? *static_cast<AVClass**>(object) : nullptr;
  const char* const name = kind != nullptr ? kind->item_name(object) : nullptr;
  current->add(name != nullptr && *name != '\0' ? std::string(name) + ": " + line : line);
}

}  // namespace

LogLines::LogLines() {
  current = this;
  av_log_set_callback(take_line);
}

LogLines::~LogLines() { current = nullptr; }

void LogLines::forget() {
  lines_.clear();
  others_ = 0;
}

void LogLines::add(std::string line) {
  line = printable(line, kMostCharacters);
  const auto same =
      std::find_if(lines_.begin(), lines_.end(), [&](const auto& l) { return l.first == line; });
  if (same != lines_.end())
    ++same->second;
  else if (lines_.size() < kMostLines)
    lines_.emplace_back(std::move(line), 1);
  else
    ++others_;
}

std::vector<std::string> LogLines::texts() const {
  std::vector<std::string> out;
  for (const auto& [line, count] : lines_)
    out.push_back(count == 1 ? line : line + " (" + std::to_string(count) + " times)");
  if (others_ > 0) out.push_back("and " + std::to_string(others_) + " more");
  return out;
}

}  // namespace tandem::decoder
