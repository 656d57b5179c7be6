#include "runtime/execution/ranks/shared_modules.h"

#include <stdexcept>
#include <string>

#include "runtime/request/adapter_names.h"

namespace tandem {

void share_modules(Communicator& group, AdapterStore& adapters) {
  proto::WorkerLoaded own;
  tell_modules(adapters.set().modules(), own);
  for (int rank = 0; rank < group.size(); ++rank) {
    std::string text = rank == group.rank() ? own.SerializeAsString() : std::string();
    int64_t size = std::ssize(text);
    group.broadcast(Tensor::borrow(&size, {1}, DType::kI64), rank);
    text.resize(static_cast<size_t>(size));
    group.broadcast(Tensor::borrow(text.data(), {size}, DType::kU8), rank);
    proto::WorkerLoaded said;
    if (!said.ParseFromString(text))
      throw std::runtime_error("the modules of rank " + std::to_string(rank) + " are not readable");
    adapters.add_modules_of_others(modules_of(said));
  }
}

}  // namespace tandem
