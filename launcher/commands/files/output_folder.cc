#include "launcher/commands/files/output_folder.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <set>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace tandem::launcher {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolderFlag = "--output-dir";

std::string partial_name() { return ".tandem-" + std::to_string(getpid()) + ".partial"; }

// Writes the file, or says why not.
std::string write_whole(const fs::path& partial, const fs::path& path, const std::string& text) {
  errno = 0;
  std::ofstream out(partial, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (out && std::rename(partial.c_str(), path.c_str()) == 0) return {};
  std::string why = std::strerror(errno != 0 ? errno : EIO);
  std::remove(partial.c_str());
  return why;
}

}  // namespace

OutputFolder::OutputFolder(fs::path folder, const std::vector<std::string>& files,
                           const OutputName& output_name)
    : folder_(std::move(folder)), paths_(files.size()), numbered_(files.size()) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (!fs::is_directory(folder_))
    throw invalid_request(
        kFolderFlag,
        folder_.string() + ": " + (error ? error.message() : std::string("is not a directory")));
  const fs::path probe = folder_ / partial_name();
  if (const std::string why = write_whole(probe, probe, ""); !why.empty())
    throw invalid_request(kFolderFlag, folder_.string() + ": nothing can be written there: " + why);
  std::remove(probe.c_str());
  name(files, output_name);
  const long most = pathconf(folder_.c_str(), _PC_NAME_MAX);
  for (const fs::path& path : paths_) {
    if (most > 0 && path.filename().native().size() > static_cast<size_t>(most))
      throw invalid_request(kFolderFlag, path.string() + ": the name is too long");
    if (fs::is_directory(path))
      throw invalid_request(kFolderFlag, path.string() + ": is a directory");
  }
}

void OutputFolder::name(const std::vector<std::string>& files, const OutputName& output_name) {
  std::set<fs::path> taken;
  for (const std::string& file : files) {
    std::error_code ignored;
    taken.insert(fs::weakly_canonical(file, ignored));
  }
  const fs::path folder = fs::canonical(folder_);
  const auto take = [&](size_t i, const std::string& file_name) {
    const std::string output = output_name(file_name);
    if (!taken.insert(folder / output).second) return false;
    paths_[i] = folder_ / output;
    return true;
  };
  const auto base = [&](size_t i) {
    const fs::path name = fs::path(files[i]).filename();
    return files[i] == "-" || name.empty() ? fs::path("stdin") : name;
  };
  // Own names first: no number takes one away.
  for (size_t i = 0; i < files.size(); ++i) numbered_[i] = !take(i, base(i).string());
  for (size_t i = 0; i < files.size(); ++i)
    for (int number = 2; paths_[i].empty(); ++number)
      take(i,
           base(i).stem().string() + "-" + std::to_string(number) + base(i).extension().string());
}

std::string OutputFolder::write(size_t i, const std::string& text) const {
  return write_whole(folder_ / partial_name(), paths_.at(i), text);
}

}  // namespace tandem::launcher
