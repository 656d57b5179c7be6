// The file by which clients find a server (credentials.h). It holds a private key, so it is written
// and read only where nobody else can have had a hand in it.
//
// A server holds the lock (flock) of its file, which ends with its process however that ends: a
// file whose lock can be had is a dead server's. Files are put in place and removed under the lock
// of their directory, so that who sweeps cannot remove one that has just taken another's place.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "actors/network/credentials.h"
#include "actors/network/system_config.h"
#include "base/error.h"
#include "base/json.h"

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
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

void check_private(const std::filesystem::path& path, const struct stat& status) {
  if (status.st_uid != ::geteuid()) wrong(path, "belongs to another user");
  if ((status.st_mode & 077) != 0) wrong(path, "others may open it (expected: this user only)");
}

// Where this user's may be. The first is the one for new files.
std::vector<std::filesystem::path> directories() {
  std::vector<std::filesystem::path> out;
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && runtime[0] == '/')
    out.push_back(std::filesystem::path(runtime) / "tandem");
  out.push_back("/tmp/tandem-" + std::to_string(::geteuid()));
  return out;
}

std::string file_name(int port) { return "client-" + std::to_string(port) + ".json"; }
std::filesystem::path default_file(int port) { return access_directory() / file_name(port); }

std::string this_host() {
  char name[256] = {};
  ::gethostname(name, sizeof(name) - 1);
  return name;
}

// A directory of this user, with its lock. Who has the lock needs a moment; one that is frozen just
// then must not freeze others, nor can everyone lock files everywhere (NFS): after a second the
// lock is done without.
int lock_directory(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat status {};
  if (fd >= 0 && ::fstat(fd, &status) == 0 && status.st_uid == ::geteuid()) {
    for (int i = 0; i < 100 && ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return fd;
  }
  const int error = fd >= 0 ? EPERM : errno;
  if (fd >= 0) ::close(fd);
  errno = error;
  return -1;
}

// Whether the path still names the file that is open.
bool is_named(int fd, const std::filesystem::path& path) {
  struct stat open {};
  struct stat named {};
  return ::fstat(fd, &open) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
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

std::string read_all(int fd, const std::filesystem::path& path) {
  std::string text(static_cast<size_t>(kMaxFile), '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::read(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) wrong(path, "read", errno);
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  text.resize(done);
  return text;
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
  return read_all(file.get(), path);
}

// Whether a server of this host wrote it under this name: a copy that came from elsewhere, for
// clients here, has no owner but stays.
bool is_ours(int fd, const std::filesystem::path& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != ::geteuid())
    return false;
  if (path.extension() == ".tmp") return true;
  try {
    const auto json = json_from<nlohmann::json>(read_all(fd, path));
    return json.at("host") == this_host() && path.filename() == file_name(json.at("port"));
  } catch (const std::exception&) {
    return false;
  }
}

void sweep(const std::filesystem::path& directory) {
  const File lock(lock_directory(directory));
  if (lock.get() < 0) return;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::filesystem::path& path = entry.path();
    if (path.filename().string().rfind("client-", 0) != 0) continue;
    const File file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    if (file.get() >= 0 && is_ours(file.get(), path) &&
        ::flock(file.get(), LOCK_EX | LOCK_NB) == 0 && is_named(file.get(), path))
      ::unlink(path.c_str());
  }
}

}  // namespace

std::filesystem::path access_directory() {
  const std::filesystem::path directory = directories().front();
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) wrong(directory, "mkdir", errno);
  struct stat status {};
  if (::lstat(directory.c_str(), &status) != 0) wrong(directory, "lstat", errno);
  if (!S_ISDIR(status.st_mode)) wrong(directory, "is not a directory");
  check_private(directory, status);
  return directory;
}

AccessFile::AccessFile(const ClientAccess& access, int port) : path_(default_file(port)) {
  const std::filesystem::path temporary =
      path_.string() + "." + std::to_string(::getpid()) + ".tmp";
  const nlohmann::json json = {
      {"address", access.address},
      {"credentials", json_from<nlohmann::json>(access.credentials.encode())},
      {"host", this_host()},
      {"port", port}};
  const File directory(lock_directory(path_.parent_path()));
  if (directory.get() < 0) wrong(path_.parent_path(), "open", errno);
  ::unlink(temporary.c_str());
  File file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.get() < 0) wrong(temporary, "open", errno);
  try {
    if (::fchmod(file.get(), 0600) != 0) wrong(temporary, "fchmod", errno);
    write_all(file.get(), temporary, json_text(json) + "\n");
    ::flock(file.get(), LOCK_EX | LOCK_NB);  // where it cannot be locked, nobody sweeps either
    if (::rename(temporary.c_str(), path_.c_str()) != 0) wrong(path_, "rename", errno);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  lock_ = file.release();
}

AccessFile::AccessFile(AccessFile&& other) noexcept
    : path_(std::move(other.path_)), lock_(std::exchange(other.lock_, -1)) {}

AccessFile::~AccessFile() {
  if (lock_ < 0) return;
  const File file(lock_);
  const File directory(lock_directory(path_.parent_path()));
  if (is_named(file.get(), path_)) ::unlink(path_.c_str());
}

void sweep_access_files() {
  for (const auto& directory : directories()) {
    try {
      sweep(directory);
    } catch (const std::exception&) {  // it cannot be read: whoever needs it will say so
    }
  }
}

ClientAccess read_client_access(const std::string& address, const std::filesystem::path& file) {
  const std::filesystem::path path =
      file.empty() ? default_file(parse_address(address).second) : file;
  const nlohmann::json json = json_or_discarded<nlohmann::json>(read_private(path));
  if (!json.is_object() || !json.contains("address") || !json["address"].is_string() ||
      !json.contains("credentials"))
    wrong(path, "is not an access file");
  ClientAccess out;
  out.address = address.empty() ? json["address"].get<std::string>() : address;
  try {
    out.credentials = Credentials::decode(json_text(json["credentials"]));
  } catch (const InputError& e) {
    wrong(path, e.what());
  }
  return out;
}

}  // namespace tandem::actors
