#include "server/http/body_budget.h"

#include <string>

namespace tandem::server {

bool BodyBudget::take(size_t bytes) {
  size_t used = used_;
  do {
    if (bytes > all_ || used > all_ - bytes) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes));
  return true;
}

InputError no_body_memory(const BodyBudget& memory) {
  return InputError(ErrorKind::kOverloaded,
                    "the bodies of requests under way take all the memory that the server has for "
                    "them (--max-body-memory, " +
                        std::to_string(memory.all()) + " bytes); try again later");
}

bool BodyShare::grow_to(size_t bytes) {
  if (bytes <= bytes_) return true;
  if (!budget_->take(bytes - bytes_)) return false;
  bytes_ = bytes;
  return true;
}

}  // namespace tandem::server
