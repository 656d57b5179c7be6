#include "server/http/body_budget.h"

namespace tandem::server {

bool BodyBudget::take(size_t bytes) {
  size_t used = used_;
  do {
    if (bytes > all_ || used > all_ - bytes) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes));
  return true;
}

bool BodyShare::grow_to(size_t bytes) {
  if (bytes <= bytes_) return true;
  if (!budget_->take(bytes - bytes_)) return false;
  bytes_ = bytes;
  return true;
}

}  // namespace tandem::server
