#include "launcher/profile/profile_file.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/log/log.h"
#include "base/profile/trace_json.h"
#include "runtime/version.h"

namespace tandem::launcher {
namespace {

using namespace std::chrono_literals;

constexpr char kPartial[] = ".tmp.";  // and the process's number: a file that is being written
constexpr auto kLook = 100ms;
constexpr int64_t kQuiet = 500'000'000;  // ns without a step, after which what there is is written

InputError cannot_write(const std::filesystem::path& file, int error) {
  return invalid_request(
      "--profile", "cannot write " + file.string() + ": " + std::generic_category().message(error));
}

// A file beside the one that is meant, which it replaces or leaves as it was.
class Replacement {
 public:
  explicit Replacement(const std::filesystem::path& file)
      : file_(file), partial_(file.string() + kPartial + std::to_string(getpid())) {
    out_ = std::fopen(partial_.c_str(), "wb");
    if (out_ == nullptr) throw cannot_write(file_, errno);
  }
  ~Replacement() {
    if (out_ != nullptr) std::fclose(out_);
    std::remove(partial_.c_str());  // gone, if it has its place
  }
  Replacement(const Replacement&) = delete;

  void write(std::string_view text) {
    if (std::fwrite(text.data(), 1, text.size(), out_) != text.size())
      throw cannot_write(file_, errno);
  }
  void take_place() {
    const int status = std::fclose(std::exchange(out_, nullptr));
    if (status != 0 || std::rename(partial_.c_str(), file_.c_str()) != 0)
      throw cannot_write(file_, errno);
  }

 private:
  const std::filesystem::path& file_;
  const std::string partial_;
  std::FILE* out_;
};

}  // namespace

std::filesystem::path profile_path(const std::filesystem::path& file, const std::string& part) {
  if (part.empty()) return file;
  std::filesystem::path out = file;
  const std::string extension = file.extension() == ".json" ? ".json" : "";
  if (!extension.empty()) out.replace_extension();
  out += "." + part + extension;
  return out;
}

std::string rank_part(int replica, int replicas, int rank) {
  const std::string part = "rank" + std::to_string(rank);
  return replicas > 1 ? "replica" + std::to_string(replica) + "." + part : part;
}

ProfileFile::ProfileFile(std::filesystem::path file, const ProfileWindow& window, When when)
    : file_(std::move(file)), when_(when), profile_(std::make_unique<Profile>(window)) {
  if (std::filesystem::is_directory(file_)) throw cannot_write(file_, EISDIR);
  Replacement(file_).write("");  // better now than when the work is done
  if (when == When::kInTime) thread_ = std::thread([this] { write_in_time(); });
  set_process_profile(profile_.get());
}

ProfileFile::~ProfileFile() {
  set_process_profile(nullptr);
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ProfileFile::write() {
  const size_t events = profile_->num_events();
  if (events == written_) return;
  Replacement out(file_);
  write_trace(*profile_, {{"program", std::string("tandem ") + kVersion}},
              [&](std::string_view text) { out.write(text); });
  out.take_place();
  written_ = events;
}

void ProfileFile::write_in_time() {
  while (!wait_for_stop(kLook)) {
    const int64_t last = profile_->last_step();
    if (!profile_->is_done() && (last == 0 || profile_clock() - last < kQuiet)) continue;
    try {
      write();
    } catch (const InputError& e) {
      log_error("{}", e.what());
      return;
    }
  }
}

// Returns whether it is time to stop.
bool ProfileFile::wait_for_stop(std::chrono::milliseconds most) {
  const auto deadline = std::chrono::steady_clock::now() + most;
  const MutexLock lock(mutex_);
  while (!stop_ && changed_.wait_until(mutex_, deadline)) continue;
  return stop_;
}

void ProfileFile::finish() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  write();
  const int64_t dropped = profile_->num_dropped();
  std::string text = std::to_string(*written_) + " spans in " + file_.string();
  if (dropped > 0) text += "; " + std::to_string(dropped) + " were dropped";
  if (when_ == When::kInTime) {  // whoever goes on has a log
    log_info("profile: {}", text);
  } else {
    std::fprintf(stderr, "Profile: %s\n", text.c_str());
  }
}

void ProfileFile::wait_for_ranks(const std::vector<std::string>& parts) const {
  constexpr auto kLongest = 10s;
  if (parts.empty() || profile_->last_step() == 0) return;  // there was nothing to do
  const auto is_being_written = [](const std::filesystem::path& path) {
    const std::string begin = path.filename().string() + kPartial;
    const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error))
      if (entry.path().filename().string().rfind(begin, 0) == 0) return true;
    return false;
  };
  const auto is_there = [&](const std::filesystem::path& path) {
    std::error_code error;
    const auto time = std::filesystem::last_write_time(path, error);
    return !error && time >= begun_ && !is_being_written(path);
  };
  const auto deadline = std::chrono::steady_clock::now() + kLongest;
  std::this_thread::sleep_for(std::chrono::nanoseconds(kQuiet) + 3 * kLook);
  for (const std::string& part : parts) {
    const std::filesystem::path path = profile_path(file_, part);
    while (!is_there(path)) {
      if (std::chrono::steady_clock::now() > deadline) {
        log_warning("--profile: {} has not come; its rank may be on another host", path.string());
        return;
      }
      std::this_thread::sleep_for(kLook);
    }
  }
}

}  // namespace tandem::launcher
