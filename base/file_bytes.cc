#include "base/file_bytes.h"

#include <fstream>
#include <system_error>

#include "base/error.h"
#include "base/strings/printable.h"

namespace tandem {
namespace fs = std::filesystem;

std::string read_file_bytes(const fs::path& path, uint64_t most, const std::string& field) {
  const std::string name = in_quotes(path.string());
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) throw invalid_request(field, name + " does not exist");
  if (!fs::is_regular_file(status)) throw invalid_request(field, name + " is not a file");
  const uint64_t size = fs::file_size(path, error);
  std::ifstream in(path, std::ios::binary);
  if (error || !in) throw invalid_request(field, name + " cannot be read");
  if (size > most)
    throw InputError(ErrorKind::kResource,
                     field + ": " + name + " has " + std::to_string(size) +
                         " bytes, more than the " + std::to_string(most) + " that are taken",
                     field);
  std::string bytes(size, '\0');
  in.read(bytes.data(), static_cast<std::streamsize>(size));
  if (static_cast<uint64_t>(in.gcount()) != size)
    throw invalid_request(field, name + " cannot be read");
  return bytes;
}

}  // namespace tandem
