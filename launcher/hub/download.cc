// A download goes on where the last answer broke off, be that of this process or of another one.
#include "launcher/hub/download.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "launcher/hub/checksum.h"

namespace tandem::hub {
namespace {

namespace fs = std::filesystem;

constexpr int kTries = 5;  // in a row, without kProgress bytes between them
constexpr uint64_t kProgress = uint64_t{1} << 20;

// The first byte of "bytes 100-199/200"; none if it is not of that form.
std::optional<uint64_t> range_begin(const std::string& header) {
  constexpr std::string_view kUnit = "bytes ";
  if (header.compare(0, kUnit.size(), kUnit) != 0) return std::nullopt;
  uint64_t value = 0;
  const char* begin = header.data() + kUnit.size();
  const auto [end, error] = std::from_chars(begin, header.data() + header.size(), value);
  if (error != std::errc() || end == begin) return std::nullopt;
  return value;
}

class Download {
 public:
  Download(HttpClient& http, const RemoteFile& file, const fs::path& target, const Hooks& hooks,
           const OnProgress& progress)
      : http_(http),
        file_(file),
        target_(target),
        partial_(target.string() + ".incomplete"),
        hooks_(hooks),
        progress_(progress),
        checksum_(file.etag, file.size),
        fd_(open(partial_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    if (fd_ < 0) throw cannot_write(partial_, errno);
  }
  ~Download() { close(fd_); }
  Download(const Download&) = delete;
  Download& operator=(const Download&) = delete;

  void run() {
    if (!checksum_.known())
      hooks_.warn(file_.name + ": the server names no checksum; only the size is checked");
    const bool resumed = read_partial();
    fetch();
    bool good = checksum_.matches();
    if (!good && resumed) {
      // What an earlier process left may be bad: the disk was full, the machine stopped.
      hooks_.warn(file_.name + ": what an earlier download left is damaged; beginning anew");
      restart();
      fetch();
      good = checksum_.matches();
    }
    if (!good) {
      std::remove(partial_.c_str());
      throw model_error(ErrorKind::kUnavailable,
                        file_.name + ": what was downloaded does not have the checksum " +
                            file_.etag + " that the hub names; it was deleted");
    }
    if (fsync(fd_) != 0) throw cannot_write(partial_, errno);
    if (std::rename(partial_.c_str(), target_.c_str()) == 0) return;
    // Where locks do not hold, another process was faster with the same bytes.
    std::error_code error;
    const int why = errno;
    if (!fs::is_regular_file(target_, error)) throw cannot_write(target_, why);
  }

 private:
  // Whether there is something to go on from.
  bool read_partial() {
    struct stat status {};
    if (fstat(fd_, &status) != 0) throw cannot_write(partial_, errno);
    if (static_cast<uint64_t>(status.st_size) > file_.size) {
      restart();
      return false;
    }
    std::vector<char> buffer(size_t{1} << 20);
    ssize_t count = 0;
    while ((count = pread(fd_, buffer.data(), buffer.size(), static_cast<off_t>(have_))) > 0) {
      hooks_.check();
      count = std::min(count, static_cast<ssize_t>(file_.size - have_));
      if (count == 0) break;  // it has grown: a writer that has no lock
      checksum_.update(buffer.data(), static_cast<size_t>(count));
      have_ += static_cast<uint64_t>(count);
    }
    if (count < 0) throw cannot_write(partial_, errno);
    return have_ > 0;
  }

  // Until all bytes are there.
  void fetch() {
    Patience patience(kTries, hooks_);
    uint64_t furthest = have_;
    while (have_ < file_.size) {
      std::string trouble;
      std::optional<std::chrono::seconds> asked;
      try {
        const Response answer = ask();
        if (answer.status == 416 && have_ > 0) {
          restart();
          trouble = answer.host + " has no more of " + file_.name;
        } else if (is_passing(answer.status)) {
          trouble = describe_status(answer);
          asked = answer.retry_after;
        } else if (answer.status < 200 || answer.status > 299) {
          throw StatusError{answer};
        } else if (have_ < file_.size) {
          trouble = answer.host + " sent " + file_.name + " in part";
        }
      } catch (const ConnectionError& e) {
        if (e.lasting()) throw;
        trouble = e.what();
      }
      if (have_ >= furthest + kProgress) {
        furthest = have_;
        patience.renew();
      }
      if (!trouble.empty() && !patience.wait(trouble, asked))
        throw ConnectionError(trouble, /*lasting=*/false);
    }
  }

  Response ask() {
    Request request;
    request.url = file_.url;
    request.offset = have_;
    bool begun = false;
    request.sink = [&](const Response& answer, const char* bytes, size_t count) {
      if (!begun) check_beginning(answer);
      begun = true;
      take(bytes, count);
    };
    return http_.send(request);
  }

  void check_beginning(const Response& answer) {
    if (answer.status != 206) {
      if (have_ > 0) restart();  // the server sends all of it again
    } else if (range_begin(answer.header("content-range")) != have_) {
      throw ConnectionError(answer.host + " sent another part of " + file_.name + " than was asked",
                            /*lasting=*/true);
    }
  }

  void take(const char* bytes, size_t count) {
    if (count > file_.size - have_)
      throw model_error(ErrorKind::kUnavailable, file_.name + ": more comes than the " +
                                                     std::to_string(file_.size) +
                                                     " bytes that the hub names");
    for (size_t written = 0; written < count;) {
      const ssize_t n =
          pwrite(fd_, bytes + written, count - written, static_cast<off_t>(have_ + written));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw cannot_write(partial_, errno);
      written += static_cast<size_t>(n);
    }
    checksum_.update(bytes, count);
    have_ += count;
    fresh_ += count;
    progress_(have_, fresh_);
  }

  void restart() {
    if (ftruncate(fd_, 0) != 0) throw cannot_write(partial_, errno);
    checksum_.restart();
    have_ = 0;
  }

  HttpClient& http_;
  const RemoteFile& file_;
  const fs::path& target_;
  const fs::path partial_;
  const Hooks& hooks_;
  const OnProgress& progress_;
  Checksum checksum_;
  int fd_;
  uint64_t have_ = 0, fresh_ = 0;
};

}  // namespace

void download(HttpClient& http, const RemoteFile& file, const fs::path& target, const Hooks& hooks,
              const OnProgress& progress) {
  Download(http, file, target, hooks, progress).run();
}

}  // namespace tandem::hub
