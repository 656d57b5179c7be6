// The two containers of torch.save(): the pickle, and the bytes of its storages.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/core/types.h"
#include "models/checkpoint/pickle_machine.h"

namespace tandem {

struct TorchType {
  std::string_view storage;  // its class; "": there is none
  const char* dtype;
  size_t size;
  std::optional<DType> known;
};
// nullptr: torch has no such type.
const TorchType* type_of_storage(std::string_view storage);
const TorchType* type_of_dtype(std::string_view dtype);

struct TorchFile {
  std::string folder;                                             // of the storages, for messages
  pickle::Program program;                                        // of the object
  std::map<std::string, std::string_view, std::less<>> storages;  // by key, views into the file
};

// Throws InputError naming the file: not made by torch.save(), damaged, of a big-endian machine.
TorchFile open_torch_file(std::string_view data, const std::string& file);

}  // namespace tandem
