// What a directory is that has no weights which Tandem reads: the formats of other programs, by
// their files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tandem {

// "an adapter of PEFT (adapter_config.json); merge it …", of the names of a directory's files; ""
// if they are of no such format.
std::string other_format(const std::vector<std::string>& names);
// The same of a directory. Of an adapter it says of which model.
std::string other_format(const std::filesystem::path& directory);

}  // namespace tandem
