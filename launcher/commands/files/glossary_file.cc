#include "launcher/commands/files/glossary_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "base/strings/readable_text.h"

namespace tandem::launcher {

Glossary read_glossary_file(const std::string& file, const std::string& field) {
  const std::string name = "\"" + readable(file) + "\"";
  const bool is_tsv = file.ends_with(".tsv");
  if (!is_tsv && !file.ends_with(".csv"))
    throw invalid_request(field, name + " ends with neither .tsv nor .csv");
  std::error_code error;
  if (std::filesystem::is_directory(file, error))
    throw invalid_request(field, name + " is a directory");
  std::ifstream in(file, std::ios::binary);
  if (!in) throw invalid_request(field, name + ": " + std::strerror(errno));
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  return is_tsv ? Glossary::of_tsv(text, field) : Glossary::of_csv(text, field);
}

}  // namespace tandem::launcher
