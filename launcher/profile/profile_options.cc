#include "launcher/profile/profile_options.h"

#include <CLI/CLI.hpp>
#include <filesystem>

#include "base/error.h"
#include "launcher/help.h"

namespace tandem::launcher {

void ProfileOptions::add(CLI::App& app) {
  const Heading heading(app, "Profile (docs/benchmarking.md)");
  app.add_option("--profile", file,
                 "Write where the time of steps goes, for ui.perfetto.dev; a rank in a process of "
                 "its own writes FILE.rankN.json")
      ->type_name("FILE.json");
  app.add_option("--profile-steps", window.steps, "Record that many steps")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  app.add_option("--profile-skip", window.skip, "Record steps behind that many")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 20))
      ->capture_default_str();
}

std::unique_ptr<ProfileFile> ProfileOptions::start(const std::string& part,
                                                   ProfileFile::When when) const {
  if (file.empty()) return nullptr;
  return std::make_unique<ProfileFile>(profile_path(file, part), window, when);
}

std::vector<std::string> ProfileOptions::flags() const {
  if (file.empty()) return {};
  return {"--profile",       std::filesystem::absolute(file).string(),
          "--profile-steps", std::to_string(window.steps),
          "--profile-skip",  std::to_string(window.skip)};
}

}  // namespace tandem::launcher
