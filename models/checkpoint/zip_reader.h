// Entries of an uncompressed zip archive in memory, as torch.save() writes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace tandem {

// name → bytes of the entry, views into `data`. Throws InputError naming `file` (and the entry) for
// an archive that is damaged, compressed or encrypted. Reads zip64. Checksums are not verified:
// that would read the whole file.
std::map<std::string, std::string_view> read_zip(std::string_view data, const std::string& file);

}  // namespace tandem
