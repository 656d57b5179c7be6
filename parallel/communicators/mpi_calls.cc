// Finding and loading libtandem_mpi.so.
#include "parallel/communicators/mpi_calls.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "parallel/communicators/communicator.h"

namespace tandem::mpi {
namespace {

namespace fs = std::filesystem;
constexpr const char* kFile = "libtandem_mpi.so";

struct LoadedCalls {
  const Calls* calls = nullptr;
  std::string problem;
};

std::vector<fs::path> mpi_plugin_places() {
  if (const char* named = std::getenv("TANDEM_MPI_PLUGIN"); named != nullptr && *named != '\0')
    return {named};
  std::vector<fs::path> out;
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  if (!error)
    for (const char* where : {".", "../lib/tandem", "../lib"})
      out.push_back((folder / where / kFile).lexically_normal());
  for (const char* where : {"/usr/lib/tandem", "/usr/local/lib/tandem"})
    out.push_back(fs::path(where) / kFile);
  return out;
}

LoadedCalls load_calls(const fs::path& path) {
  // Never unloaded, as MPI is not. Global: OpenMPI's own plugins look for its symbols.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return {nullptr, path.string() + " does not load: " + (why != nullptr ? why : "?")};
  }
  using Entry = const Calls* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(library, kCallsSymbol));
  const Calls* given = entry != nullptr ? entry() : nullptr;
  if (given == nullptr) return {nullptr, path.string() + " is not a plugin of Tandem"};
  if (given->version != kCallsVersion)
    return {nullptr, path.string() + " is of another version of Tandem"};
  return {given, {}};
}

}  // namespace

const Calls& calls() {
  static const LoadedCalls loaded = [] {
    for (const fs::path& path : mpi_plugin_places()) {
      std::error_code error;
      if (fs::exists(path, error)) return load_calls(path);
    }
    return LoadedCalls{nullptr, std::string(kFile) +
                                    " is neither beside the program nor in ../lib/tandem nor in "
                                    "/usr/lib/tandem; TANDEM_MPI_PLUGIN may name it (a build "
                                    "without MPI has none)"};
  }();
  if (loaded.calls == nullptr) throw CommunicatorError("MPI cannot be used: " + loaded.problem);
  return *loaded.calls;
}

}  // namespace tandem::mpi
