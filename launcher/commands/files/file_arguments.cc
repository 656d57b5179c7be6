#include "launcher/commands/files/file_arguments.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/strings/readable_text.h"

namespace tandem::launcher {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const KnownFiles& known, const std::string& argument,
                         const std::string& why) {
  throw invalid_request(known.argument, "\"" + readable(argument) + "\": " + why);
}

KnownFiles files_ending(std::initializer_list<std::string_view> endings) {
  KnownFiles out{.argument = "FILE", .has = {}, .endings = {}};
  std::vector<std::string> all(endings.begin(), endings.end());
  for (const std::string& ending : all) out.endings += (out.endings.empty() ? "" : ", ") + ending;
  out.has = [all](const std::string& name) {
    std::string ending = fs::path(name).extension().string();
    for (char& c : ending) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    return std::find(all.begin(), all.end(), ending) != all.end();
  };
  return out;
}

}  // namespace

std::vector<std::string> files_of_folder(const std::string& folder, const KnownFiles& known) {
  std::vector<std::string> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.is_regular_file(error) && known.has(entry.path().filename().string()))
      out.push_back(entry.path().string());
  }
  if (error) refuse(known, folder, error.message());
  if (out.empty()) refuse(known, folder, "has no file of a known ending (" + known.endings + ")");
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> files_of_pattern(const std::string& pattern, const KnownFiles& known) {
  glob_t found{};
  const int status = glob(pattern.c_str(), GLOB_TILDE, nullptr, &found);
  std::vector<std::string> out;
  for (size_t i = 0; status == 0 && i < found.gl_pathc; ++i)
    if (fs::is_regular_file(found.gl_pathv[i])) out.emplace_back(found.gl_pathv[i]);
  globfree(&found);
  if (out.empty()) refuse(known, pattern, "no file matches");
  return out;
}

bool is_address(const std::string& argument) {
  return argument.starts_with("https://") || argument.starts_with("http://");
}

bool is_pattern(const std::string& argument) {
  std::error_code error;
  return argument.find_first_of("*?[") != std::string::npos && !fs::exists(argument, error);
}

std::vector<std::string> expand_files(const std::vector<std::string>& arguments,
                                      const KnownFiles& known) {
  std::vector<std::string> out;
  for (const std::string& argument : arguments) {
    std::error_code error;
    std::vector<std::string> files = {argument};
    if (is_address(argument)) refuse(known, argument, kAddress);
    if (fs::is_directory(argument, error))
      files = files_of_folder(argument, known);
    else if (is_pattern(argument))
      files = files_of_pattern(argument, known);
    out.insert(out.end(), files.begin(), files.end());
  }
  return out;
}

KnownFiles sound_files() {
  return files_ending({".wav", ".mp3",  ".m4a", ".flac", ".ogg", ".oga", ".opus", ".aac",  ".wma",
                       ".aif", ".aiff", ".amr", ".mp4",  ".m4v", ".mkv", ".mov",  ".webm", ".avi",
                       ".3gp", ".caf",  ".w64", ".au",   ".ac3", ".ts",  ".mpg",  ".flv",  ".spx"});
}

KnownFiles image_files() {
  return files_ending({".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".pdf"});
}

}  // namespace tandem::launcher
