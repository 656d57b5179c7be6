// Names the format of a directory without weights that Tandem reads: formats of other programs,
// recognised by their files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tandem {

// "an adapter of PEFT (adapter_config.json); merge it …", of the names of a directory's files; ""
// if they are of no such format.
std::string other_format(const std::vector<std::string>& names);
// The same for a directory. For an adapter it names the model.
std::string other_format(const std::filesystem::path& directory);

}  // namespace tandem
