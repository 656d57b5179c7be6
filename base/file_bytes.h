// Files that are read in one piece.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace tandem {

// The bytes of a regular file. Throws InputError naming `field`: it does not exist, is no file,
// cannot be read, or has more than `most` bytes (kResource).
std::string read_file_bytes(const std::filesystem::path& path, uint64_t most,
                            const std::string& field);

}  // namespace tandem
