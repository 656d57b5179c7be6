// Finds the __shared__ variables: thread-local symbols whose names bear the tag that __shared__
// gives them. The symbols are read from the files of the program and of its libraries, once each.
#include "shared_memory.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace cuda_emulator {
namespace {

struct Variable {
  uint64_t offset, size;  // in the module's thread-local block
};

std::vector<Variable> variables_of(const unsigned char* file, size_t size) {
  std::vector<Variable> found;
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(file);
  if (size < sizeof *header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 ||
      header->e_shoff + uint64_t{header->e_shnum} * sizeof(Elf64_Shdr) > size)
    return found;
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(file + header->e_shoff);
  for (unsigned i = 0; i < header->e_shnum; ++i) {
    const Elf64_Shdr& table = sections[i];
    if (table.sh_type != SHT_SYMTAB || table.sh_link >= header->e_shnum) continue;
    const Elf64_Shdr& names = sections[table.sh_link];
    if (table.sh_offset + table.sh_size > size || names.sh_offset + names.sh_size > size) continue;
    const auto* symbols = reinterpret_cast<const Elf64_Sym*>(file + table.sh_offset);
    for (size_t s = 0; s < table.sh_size / sizeof(Elf64_Sym); ++s) {
      if (ELF64_ST_TYPE(symbols[s].st_info) != STT_TLS || symbols[s].st_shndx == SHN_UNDEF)
        continue;
      const char* name = reinterpret_cast<const char*>(file) + names.sh_offset + symbols[s].st_name;
      if (std::strncmp(name, "_Z", 2) == 0 && std::strncmp(name, "_ZT", 3) != 0 &&
          std::strstr(name, "B11cuda_shared"))
        found.push_back({symbols[s].st_value, symbols[s].st_size});
    }
  }
  return found;
}

std::vector<Variable> variables_of(const char* path) {
  std::vector<Variable> found;
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return found;
  struct stat info;
  if (::fstat(fd, &info) == 0 && info.st_size > 0) {
    const size_t size = static_cast<size_t>(info.st_size);
    void* file = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (file != MAP_FAILED) {
      found = variables_of(static_cast<const unsigned char*>(file), size);
      ::munmap(file, size);
    }
  }
  ::close(fd);
  return found;
}

struct Places {
  std::vector<std::pair<void*, size_t>> of_thread;
  bool complete = true;           // no library's thread-local block is still to be made
  unsigned long long loaded = 0;  // objects that had been loaded
};

int add_module(dl_phdr_info* info, size_t, void* to) {
  static std::mutex mutex;
  static std::map<std::string, std::vector<Variable>> known;
  auto& places = *static_cast<Places*>(to);
  places.loaded = info->dlpi_adds;
  if (info->dlpi_tls_modid == 0) return 0;
  std::lock_guard lock(mutex);
  const std::string path = *info->dlpi_name ? info->dlpi_name : "/proc/self/exe";
  auto [entry, is_new] = known.try_emplace(path);
  if (is_new) entry->second = variables_of(path.c_str());
  if (entry->second.empty()) return 0;
  if (!info->dlpi_tls_data) {
    places.complete = false;
    return 0;
  }
  for (const Variable& variable : entry->second)
    places.of_thread.emplace_back(static_cast<char*>(info->dlpi_tls_data) + variable.offset,
                                  variable.size);
  return 0;
}

unsigned long long loaded_objects() {
  unsigned long long adds = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* result) {
        *static_cast<unsigned long long*>(result) = info->dlpi_adds;
        return 1;
      },
      &adds);
  return adds;
}

// As this OS thread last saw them.
thread_local Places places{{}, false, 0};

constexpr uint64_t kAlwaysScanned = 8, kScannedEach = 64;

struct OfKernel {
  std::vector<uint32_t> writes;  // variables that blocks of it were seen to write
  uint64_t blocks = 0;
};
// Of this OS thread: what its blocks may have written since the last poison.
struct Writers {
  std::unordered_map<const char*, OfKernel> kernels;  // by type: each has its name at one place
  const OfKernel* last = nullptr;                     // whose block has run; null: nobody knows
};
thread_local Writers writers;

bool is_poisoned(const std::pair<void*, size_t>& variable) {
  const auto* bytes = static_cast<const unsigned char*>(variable.first);
  // (All bytes are as the first one, which is poison.)
  return bytes[0] == 0xff && std::memcmp(bytes, bytes + 1, variable.second - 1) == 0;
}

void poison(uint32_t variable) {
  const auto& [at, size] = places.of_thread[variable];
  std::memset(at, 0xff, size);
}

}  // namespace

void poison_static_shared() {
  if (!places.complete || places.loaded != loaded_objects()) {
    places = {};
    dl_iterate_phdr(add_module, &places);
    std::erase_if(places.of_thread, [](const auto& variable) { return variable.second == 0; });
    writers = {};
  }
  if (writers.last != nullptr) {
    for (const uint32_t variable : writers.last->writes) poison(variable);
  } else {
    for (uint32_t i = 0; i < places.of_thread.size(); ++i) poison(i);
  }
  writers.last = nullptr;
}

void note_static_shared(const char* type) {
  OfKernel& kernel = writers.kernels[type];
  if (kernel.blocks++ < kAlwaysScanned || kernel.blocks % kScannedEach == 0)
    for (uint32_t i = 0; i < places.of_thread.size(); ++i)
      if (!is_poisoned(places.of_thread[i]) &&
          std::find(kernel.writes.begin(), kernel.writes.end(), i) == kernel.writes.end())
        kernel.writes.push_back(i);
  writers.last = &kernel;
}

bool is_static_shared(const void* at, size_t bytes) {
  const auto* begin = static_cast<const char*>(at);
  for (const auto& [variable, size] : places.of_thread) {
    const auto* first = static_cast<const char*>(variable);
    if (begin >= first && begin + bytes <= first + size) return true;
  }
  return false;
}

}  // namespace cuda_emulator
