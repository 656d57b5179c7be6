// Finding and loading plugins.
#include "kernels/core/plugin.h"

#include <dlfcn.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/error.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

struct Loaded {
  const DevicePlugin* plugin = nullptr;
  std::string problem;
};

std::vector<fs::path> candidates() {
  if (const char* named = std::getenv("TANDEM_CUDA_PLUGIN"); named != nullptr && *named != '\0')
    return {named};
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const fs::path folder = program.parent_path();
  std::vector<fs::path> out;
  for (const char* where : {".", "../lib/tandem", "../lib"})
    out.push_back((folder / where / "libtandem_cuda.so").lexically_normal());
  return out;
}

Loaded load(const fs::path& path) {
  // Never unloaded: its kernels and deleters live as long as the process.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return {nullptr, path.string() + " does not load: " + (why != nullptr ? why : "?")};
  }
  using Entry = const DevicePlugin* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(library, kDevicePluginSymbol));
  if (entry == nullptr) return {nullptr, path.string() + " is not a plugin of Tandem"};
  const DevicePlugin* plugin = entry();
  if (plugin == nullptr || std::strcmp(plugin->version, kDevicePluginVersion) != 0)
    return {nullptr, path.string() + " is of another build of Tandem"};
  return {plugin, {}};
}

const Loaded& loaded() {
  static const Loaded result = [] {
    for (const fs::path& path : candidates()) {
      std::error_code error;
      if (fs::exists(path, error)) return load(path);
    }
    return Loaded{nullptr,
                  "libtandem_cuda.so is not beside the program nor in ../lib/tandem (a "
                  "build without a CUDA toolkit has none)"};
  }();
  return result;
}

// Whether it is worth loading the plugin to find out more: it brings hundreds of megabytes of
// libraries. A plugin that is named may need no driver.
bool may_have_cuda() {
  const char* named = std::getenv("TANDEM_CUDA_PLUGIN");
  if (named != nullptr && *named != '\0') return true;
  static const bool driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) != nullptr;
  return driver;
}

}  // namespace

// One build is one set of layouts; the compiler's version is part of them.
const char* const kDevicePluginVersion = "tandem-device-2 " __VERSION__;

const DevicePlugin* cuda_plugin() { return loaded().plugin; }
std::string cuda_plugin_problem() { return loaded().problem; }
std::string cuda_problem(int index) {
  return loaded().plugin == nullptr ? loaded().problem : loaded().plugin->problem(index);
}

int devices_for(const std::string& text) {
  if (text == "cpu" || !may_have_cuda()) return 0;
  const DevicePlugin* plugin = cuda_plugin();
  return plugin == nullptr ? 0 : plugin->device_count();
}

DeviceChoice choose_device(const std::string& text, int local_rank) {
  if (text == "cpu") return {};
  if (text == "auto") {
    if (!may_have_cuda()) return {};
    const DevicePlugin* plugin = cuda_plugin();
    if (plugin == nullptr || local_rank >= plugin->device_count()) return {};
    if (!plugin->lost().empty())
      throw InputError(ErrorKind::kUnavailable, "device: " + plugin->problem(local_rank), "device");
    return plugin->problem(local_rank).empty() ? DeviceChoice{Device::kCuda, local_rank}
                                               : DeviceChoice{};
  }
  int index = local_rank;
  if (text.starts_with("cuda:")) {
    const char* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data() + 5, end, index);
    if (error != std::errc() || at != end || index < 0)
      throw invalid_request("device", "\"" + text + "\": cuda: is followed by a device's number");
  } else if (text != "cuda") {
    throw invalid_request("device", "\"" + text + "\" is not one of auto, cpu, cuda, cuda:N");
  }
  if (const std::string problem = cuda_problem(index); !problem.empty()) {
    const DevicePlugin* plugin = cuda_plugin();
    const bool lost = plugin != nullptr && !plugin->lost().empty();  // another process may have it
    throw InputError(lost ? ErrorKind::kUnavailable : ErrorKind::kNotSupported,
                     "device: " + text + " cannot be had: " + problem, "device");
  }
  return {Device::kCuda, index};
}

}  // namespace tandem
