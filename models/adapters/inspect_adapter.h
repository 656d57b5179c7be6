// What an adapter's directory says of it.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace tandem {

// Whether it is one, and no model.
bool is_adapter(const std::filesystem::path& directory);
// Its base, ranks, and what it changes. Throws InputError naming file, and key or tensor.
nlohmann::ordered_json inspect_adapter(const std::filesystem::path& directory);
std::string adapter_to_text(const nlohmann::ordered_json& adapter);

}  // namespace tandem
