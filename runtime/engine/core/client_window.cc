#include "runtime/engine/core/client_window.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tandem {

std::vector<std::string> ClientWindow::acknowledge(uint64_t message) {
  acknowledged_ = std::max(acknowledged_, std::min(message, next_ - 1));
  std::vector<std::string> arrived;
  while (!last_chunks_.empty() && last_chunks_.begin()->first <= acknowledged_) {
    for (std::string& id : last_chunks_.begin()->second) arrived.push_back(std::move(id));
    last_chunks_.erase(last_chunks_.begin());
  }
  return arrived;
}

void ClientWindow::check_integrity() const {
  TANDEM_CHECK_GE(next_ - 1, acknowledged_);
  TANDEM_CHECK_LE(next_ - 1 - acknowledged_, kMaxUnacknowledged);
  if (last_chunks_.empty()) return;
  TANDEM_CHECK_GT(last_chunks_.begin()->first, acknowledged_);
  TANDEM_CHECK_LT(last_chunks_.rbegin()->first, next_);
}

}  // namespace tandem
