// Mapped files, and the functions of the C library and of FreeType that would open them. The
// program defines these, so that libpoppler finds them first.
#include "runtime/media/decoder/document/known_files.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fontconfig/fontconfig.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <system_error>

// clang-format off
#include <ft2build.h>
#include FT_FREETYPE_H
// clang-format on

namespace tandem::decoder {
namespace {

struct KnownFiles {
  std::map<std::string, std::string_view, std::less<>> of;  // by path
  size_t bytes = 0;
};

KnownFiles& known() {
  static KnownFiles& files = *new KnownFiles();
  return files;
}

}  // namespace

void know_file(const std::string& path) {
  KnownFiles& files = known();
  if (files.of.size() >= kMostKnownFiles || files.of.contains(path)) return;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  struct stat info = {};
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0 &&
      files.bytes + static_cast<size_t>(info.st_size) <= kMostKnownBytes) {
    const auto size = static_cast<size_t>(info.st_size);
    void* const at = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (at != MAP_FAILED) {
      files.of.emplace(path, std::string_view(static_cast<const char*>(at), size));
      files.bytes += size;
    }
  }
  close(fd);
}

void know_folder(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (fs::recursive_directory_iterator at(path, error), end; !error && at != end;
       at.increment(error))
    if (at->is_regular_file(error)) know_file(at->path().string());
}

void know_fonts() {
  FcInit();
  // It would look whether its files are still as they were.
  FcConfigSetRescanInterval(nullptr, 0);
  for (const FcSetName name : {FcSetSystem, FcSetApplication}) {
    const FcFontSet* const set = FcConfigGetFonts(nullptr, name);
    for (int i = 0; set != nullptr && i < set->nfont; ++i) {
      FcChar8* file = nullptr;
      if (FcPatternGetString(set->fonts[i], FC_FILE, 0, &file) == FcResultMatch)
        know_file(reinterpret_cast<const char*>(file));
    }
  }
}

std::string_view known_file(const std::string& path) {
  const auto found = known().of.find(path);
  return found == known().of.end() ? std::string_view() : found->second;
}

}  // namespace tandem::decoder

extern "C" {

// Only reading, and of known files without the kernel.
std::FILE* fopen(const char* path, const char* mode) {
  const std::string_view bytes = tandem::decoder::known_file(path);
  if (!bytes.empty() && mode[0] == 'r')
    return fmemopen(const_cast<char*>(bytes.data()), bytes.size(), "rb");
  using Open = std::FILE* (*)(const char*, const char*);
  static const Open next = reinterpret_cast<Open>(dlsym(RTLD_NEXT, "fopen"));
  return next(path, mode);
}

// fontconfig reads fonts by it too, while its cache of them is made, and keeps what it has found.
FT_Error FT_New_Face(FT_Library library, const char* path, FT_Long index, FT_Face* face) {
  const std::string_view bytes = tandem::decoder::known_file(path);
  if (!bytes.empty())
    return FT_New_Memory_Face(library, reinterpret_cast<const FT_Byte*>(bytes.data()),
                              static_cast<FT_Long>(bytes.size()), index, face);
  using New = FT_Error (*)(FT_Library, const char*, FT_Long, FT_Face*);
  static const New next = reinterpret_cast<New>(dlsym(RTLD_NEXT, "FT_New_Face"));
  return next(library, path, index, face);
}
}
