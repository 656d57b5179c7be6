// The headers of Ogg Vorbis, checked before libsndfile sees them. Where they are damaged it keeps
// kilobytes for ever (1.2.0, 1.2.2); and of a few bytes libvorbis (1.3.7) makes gigabytes, a stack
// of many megabytes, or a loop without an end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace tandem {

// Copies up to `count` bytes of a file, from `at` on; returns how many, fewer only at its end.
using ReadAt = std::function<size_t(uint64_t at, char* to, size_t count)>;

// Nothing for files that libsndfile takes for anything else. Throws InputError naming `field`:
// headers are damaged, longer than 16 MiB, or ask for more memory than any encoder's; or the stream
// stands behind an ID3 tag, where libsndfile does not read it.
void check_vorbis_headers(const ReadAt& read, const std::string& field);

}  // namespace tandem
