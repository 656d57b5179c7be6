// The file by which clients find a server (credentials.h). It holds a private key, so it is written
// and read only where nobody else can have had a hand in it.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "actors/protocol/credentials.h"
#include "actors/protocol/system_config.h"
#include "kernels/core/error.h"

namespace tandem::actors {
namespace {

constexpr off_t kMaxFile = 64 << 10;

[[noreturn]] void wrong(const std::filesystem::path& path, const std::string& what) {
  throw invalid_request(path.string(), what);
}
[[noreturn]] void wrong(const std::filesystem::path& path, const char* call, int error) {
  wrong(path, std::string(call) + ": " + strerror(error));
}

// Closes itself.
class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

void check_private(const std::filesystem::path& path, const struct stat& status) {
  if (status.st_uid != ::geteuid()) wrong(path, "belongs to another user");
  if ((status.st_mode & 077) != 0) wrong(path, "others may open it (expected: this user only)");
}

std::filesystem::path default_file(int port) {
  return access_directory() / ("client-" + std::to_string(port) + ".json");
}

void write_all(int fd, const std::filesystem::path& path, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) wrong(path, "write", errno);
    done += static_cast<size_t>(n);
  }
}

std::string read_private(const std::filesystem::path& path) {
  // O_NONBLOCK: a FIFO would wait for a writer.
  const File file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0 && errno == ENOENT) wrong(path, "there is no such access file");
  if (file.get() < 0) wrong(path, errno == ELOOP ? "open (a symbolic link)" : "open", errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) wrong(path, "fstat", errno);
  if (!S_ISREG(status.st_mode)) wrong(path, "is not a regular file");
  check_private(path, status);
  if (status.st_size > kMaxFile) wrong(path, "is too large for an access file");
  std::string text(static_cast<size_t>(kMaxFile), '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::read(file.get(), text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) wrong(path, "read", errno);
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  text.resize(done);
  return text;
}

}  // namespace

std::filesystem::path access_directory() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  const std::filesystem::path directory =
      runtime != nullptr && runtime[0] == '/'
          ? std::filesystem::path(runtime) / "tandem"
          : std::filesystem::path("/tmp/tandem-" + std::to_string(::geteuid()));
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) wrong(directory, "mkdir", errno);
  struct stat status {};
  if (::lstat(directory.c_str(), &status) != 0) wrong(directory, "lstat", errno);
  if (!S_ISDIR(status.st_mode)) wrong(directory, "is not a directory");
  check_private(directory, status);
  return directory;
}

std::filesystem::path write_client_access(const ClientAccess& access, int port) {
  const std::filesystem::path path = default_file(port);
  const std::filesystem::path temporary = path.string() + "." + std::to_string(::getpid()) + ".tmp";
  ::unlink(temporary.c_str());
  const nlohmann::json json = {{"address", access.address},
                               {"credentials", nlohmann::json::parse(access.credentials.encode())}};
  {
    const File file(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (file.get() < 0) wrong(temporary, "open", errno);
    if (::fchmod(file.get(), 0600) != 0) wrong(temporary, "fchmod", errno);
    write_all(file.get(), temporary, json.dump() + "\n");
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    wrong(path, "rename", error);
  }
  return path;
}

ClientAccess read_client_access(const std::string& address, const std::filesystem::path& file) {
  const std::filesystem::path path =
      file.empty() ? default_file(parse_address(address).second) : file;
  const nlohmann::json json =
      nlohmann::json::parse(read_private(path), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("address") || !json["address"].is_string() ||
      !json.contains("credentials"))
    wrong(path, "is not an access file");
  ClientAccess out;
  out.address = address.empty() ? json["address"].get<std::string>() : address;
  try {
    out.credentials = Credentials::decode(json["credentials"].dump());
  } catch (const InputError& e) {
    wrong(path, e.what());
  }
  return out;
}

}  // namespace tandem::actors
