#include "launcher/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace tandem::launcher {

ProgressBar::ProgressBar(std::string title) : title_(std::move(title)), enabled_(isatty(2) == 1) {}

ProgressBar::~ProgressBar() { erase(); }

double ProgressBar::seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

void ProgressBar::update(uint64_t done, uint64_t total, const std::string& note) {
  if (!enabled_) return;
  const auto now = Clock::now();
  if (!first_) {
    first_ = now;
    first_done_ = done;
  }
  // Short work ends before a bar would be readable.
  if (now - start_ < std::chrono::milliseconds(300) || now - last_ < std::chrono::milliseconds(100))
    return;
  last_ = now;
  drawn_ = true;
  constexpr int kWidth = 30;
  const double share =
      total ? std::min(1.0, static_cast<double>(done) / static_cast<double>(total)) : 0.0;
  const int full = static_cast<int>(share * kWidth);
  std::string bar;
  for (int i = 0; i < kWidth; ++i) bar += i < full ? "█" : "░";
  std::string text = note;
  if (total > done) {
    const double passed = std::chrono::duration<double>(now - *first_).count();
    const std::string left =
        time_left(passed, static_cast<double>(done) - static_cast<double>(first_done_),
                  static_cast<double>(total - done));
    if (!left.empty()) text += (text.empty() ? "" : ", ") + left;
  }
  if (total)
    std::fprintf(stderr, "\r\033[K%s %s %3.0f%% %s", title_.c_str(), bar.c_str(), share * 100,
                 text.c_str());
  else
    std::fprintf(stderr, "\r\033[K%s %s", title_.c_str(), note.c_str());
  std::fflush(stderr);
}

std::string time_left(double seconds, double done, double rest) {
  constexpr double kLeast = 1, kMost = 99 * 3600;
  if (!(seconds >= kLeast && done > 0)) return "";
  const double left = seconds / done * rest;
  if (!(left < kMost)) return "";
  const auto whole = static_cast<int>(std::lround(left));
  char text[32];
  if (whole < 3600)
    std::snprintf(text, sizeof(text), "%d:%02d left", whole / 60, whole % 60);
  else
    std::snprintf(text, sizeof(text), "%d:%02d:%02d left", whole / 3600, whole / 60 % 60,
                  whole % 60);
  return text;
}

void ProgressBar::erase() {
  if (drawn_) std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

}  // namespace tandem::launcher
