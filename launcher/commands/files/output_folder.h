// The folder that gets a file for each input of a command.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace tandem::launcher {

class OutputFolder {
 public:
  // The name of an output by that of its file.
  using OutputName = std::function<std::string(const std::filesystem::path& file_name)>;

  // Makes the folder where there is none, and finds out whether files can be written there: before
  // the work, whose results they are to hold. Where several outputs would have one name, the later
  // files count as having a number (-2, -3, …) behind their stems. No output takes the place of an
  // input. Throws InputError (--output-dir).
  OutputFolder(std::filesystem::path folder, const std::vector<std::string>& files,
               const OutputName& output_name);

  // Of the i-th file.
  const std::filesystem::path& path(size_t i) const { return paths_.at(i); }
  bool numbered(size_t i) const { return numbered_.at(i); }
  // The file is there whole or not at all. Returns what is in the way; empty: nothing.
  std::string write(size_t i, const std::string& text) const;

 private:
  void name(const std::vector<std::string>& files, const OutputName& output_name);

  std::filesystem::path folder_;
  std::vector<std::filesystem::path> paths_;  // by file
  std::vector<bool> numbered_;
};

}  // namespace tandem::launcher
