// Files of this host that poppler and FreeType open by their names. They are mapped before the
// program is locked in, and given out afterwards in place of what the kernel would refuse.
#pragma once

#include <string>
#include <string_view>

namespace tandem::decoder {

// Maps the file, if it can be read and there is room (kMostKnownFiles, kMostKnownBytes).
void know_file(const std::string& path);
// Every file below a folder that is there.
void know_folder(const std::string& path);
// The fonts that fontconfig knows.
void know_fonts();
// Its bytes, for as long as the program runs; empty: it is not known.
std::string_view known_file(const std::string& path);

inline constexpr size_t kMostKnownFiles = 4096, kMostKnownBytes = size_t{1} << 30;

}  // namespace tandem::decoder
