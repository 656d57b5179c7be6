// Attention over the caller's arrays: tandem_attention() of library.h.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>

#include "python/native/library.h"

namespace tandem::library {

// Throws InputError, which names the array or the option.
void run_attention(const nlohmann::json& request, const tandem_array* arrays, size_t count);

}  // namespace tandem::library
