// Where models come from and are kept, by huggingface_hub's environment variables.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

namespace tandem::hub {

struct Settings {
  std::filesystem::path cache;  // with the folders models--…
  std::string endpoint;         // https://huggingface.co, without a slash at its end
  std::string token;            // empty: none; never to be shown
  // Certificates to trust, a file or a folder; empty: those of the system.
  std::string ca_file;
  bool offline = false;
  // Longest silence of the server: for metadata, and within a file.
  std::chrono::seconds metadata_timeout{10}, download_timeout{10};

  using GetVariable = std::function<const char*(const char*)>;
  // Throws InputError naming the variable.
  static Settings from_environment(const GetVariable& get);
  static Settings from_environment();
};

}  // namespace tandem::hub
