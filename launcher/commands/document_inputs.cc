#include "launcher/commands/document_inputs.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>

#include "base/error.h"
#include "base/readable_text.h"
#include "launcher/commands/command.h"
#include "launcher/commands/input.h"
#include "text/documents/document_format.h"

namespace tandem::launcher {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& argument, const std::string& why) {
  throw UsageError("TEXT", "\"" + readable(argument) + "\": " + why);
}

std::vector<std::string> files_of_folder(const std::string& folder) {
  std::vector<std::string> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.is_regular_file(error) && document_format_of_file(entry.path().filename().string()))
      out.push_back(entry.path().string());
  }
  if (error) refuse(folder, error.message());
  if (out.empty())
    refuse(folder, "has no file of a known ending (" + known_document_endings() + ")");
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> files_of_pattern(const std::string& pattern) {
  glob_t found{};
  const int status = glob(pattern.c_str(), GLOB_TILDE, nullptr, &found);
  std::vector<std::string> out;
  for (size_t i = 0; status == 0 && i < found.gl_pathc; ++i)
    if (fs::is_regular_file(found.gl_pathv[i])) out.emplace_back(found.gl_pathv[i]);
  globfree(&found);
  if (out.empty()) refuse(pattern, "no file matches");
  return out;
}

}  // namespace

std::vector<DocumentInput> find_documents(const std::vector<std::string>& arguments) {
  std::vector<DocumentInput> out;
  const auto add_files = [&](const std::vector<std::string>& files) {
    for (const std::string& file : files) out.push_back({file, {}, false});
  };
  if (std::count(arguments.begin(), arguments.end(), "-") > 1)
    refuse("-", "standard input is read once");
  for (const std::string& argument : arguments) {
    std::error_code error;
    if (argument == "-")
      add_files({"-"});
    else if (fs::is_directory(argument, error))
      add_files(files_of_folder(argument));
    else if (fs::exists(argument, error))
      add_files({argument});
    else if (argument.find_first_of(" \t\n") != std::string::npos)
      out.push_back({"", argument, true});
    else if (argument.find_first_of("*?") != std::string::npos)
      add_files(files_of_pattern(argument));
    else
      refuse(argument,
             "there is no such file; a text has a blank in it, or comes by standard "
             "input (-)");
  }
  return out;
}

std::string read_text(DocumentInput& input) {
  std::string text = input.text;
  if (!input.is_text) {
    const std::unique_ptr<std::istream> in = open_input(input.name);
    text.assign(std::istreambuf_iterator<char>(*in), std::istreambuf_iterator<char>());
  }
  const size_t end = text.find_last_not_of("\n\r") + 1;
  input.end = text.substr(end);
  text.resize(end);
  return text;
}

}  // namespace tandem::launcher
