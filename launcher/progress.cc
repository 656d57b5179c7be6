#include "launcher/progress.h"

#include <unistd.h>

#include <algorithm>
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
  if (total)
    std::fprintf(stderr, "\r\033[K%s %s %3.0f%% %s", title_.c_str(), bar.c_str(), share * 100,
                 note.c_str());
  else
    std::fprintf(stderr, "\r\033[K%s %s", title_.c_str(), note.c_str());
  std::fflush(stderr);
}

void ProgressBar::erase() {
  if (drawn_) std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

}  // namespace tandem::launcher
