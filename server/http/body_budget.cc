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

InputError no_memory_to_parse(const BodyBudget& memory, size_t bytes) {
  if (bytes <= memory.all()) return no_body_memory(memory);
  return InputError(ErrorKind::kInvalidRequest,
                    "body: takes " + std::to_string(bytes) +
                        " bytes when it is parsed; the server has " + std::to_string(memory.all()) +
                        " (--max-body-memory)",
                    "body");
}

bool BodyShare::grow_to(size_t bytes) {
  if (bytes <= bytes_) return true;
  if (!budget_->take(bytes - bytes_)) return false;
  bytes_ = bytes;
  return true;
}

}  // namespace tandem::server
