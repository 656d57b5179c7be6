// Starting a decoder, and speaking with it.
#include "runtime/media/decoder_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/seconds_since.h"
#include "base/strings/printable.h"

namespace tandem {
namespace fs = std::filesystem;
namespace {

// A slow disk, a machine that does much else: it loads a hundred libraries.
constexpr double kSecondsToStart = 60;
constexpr std::array kFolders = {"/usr/libexec/tandem", "/usr/local/libexec/tandem"};

InputError no_decoder(const std::string& program, const std::string& why) {
  const std::string name = printable(fs::path(program).filename().string());
  return InputError(ErrorKind::kUnavailable, "the program " + name + ", which reads files, " + why);
}

// Of this process's variables those that a program needs to run; keys and passwords are not its.
bool is_passed_on(std::string_view variable) {
  const std::string_view name = variable.substr(0, variable.find('='));
  return name == "LD_LIBRARY_PATH" || name == "TANDEM_PYTHON" || name.ends_with("SAN_OPTIONS") ||
         name.starts_with("QEMU_") || name.starts_with("FONTCONFIG_");
}

// What posix_spawn() takes, given back whatever happens.
struct SpawnSettings {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;

  explicit SpawnSettings(int socket) {
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_adddup2(&files, socket, STDIN_FILENO);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
};

pid_t spawn(const std::string& program, int socket) {
  const SpawnSettings settings(socket);
  std::string path = program, parent = std::to_string(getpid()), serve = "--serve";
  const std::array<char*, 4> arguments = {path.data(), serve.data(), parent.data(), nullptr};
  std::vector<char*> environment;
  for (char** variable = environ; *variable != nullptr; ++variable)
    if (is_passed_on(*variable)) environment.push_back(*variable);
  environment.push_back(nullptr);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, path.c_str(), &settings.files, &settings.attributes,
                                arguments.data(), environment.data());
  if (error != 0)
    throw no_decoder(program,
                     "cannot be started: " + printable(program) + ": " + std::strerror(error));
  return pid;
}

bool may_be_unlocked() {
  const char* const says = std::getenv("TANDEM_DECODER_SANDBOX");
  if (says == nullptr || std::string_view(says) == "required") return false;
  if (std::string_view(says) == "optional") return true;
  throw InputError(ErrorKind::kUnavailable, "TANDEM_DECODER_SANDBOX must be required or optional",
                   "TANDEM_DECODER_SANDBOX");
}

}  // namespace

namespace {

std::string find_program(const std::string& name, const char* variable, const char* reads) {
  if (const char* const named = std::getenv(variable); named != nullptr && *named != '\0')
    return named;
  std::error_code error;
  const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  std::vector<fs::path> places = {here, here.parent_path() / "libexec" / "tandem"};
  places.insert(places.end(), kFolders.begin(), kFolders.end());
  for (const fs::path& place : places)
    if (access((place / name).c_str(), X_OK) == 0) return place / name;
  throw InputError(ErrorKind::kUnavailable, "the program " + name + ", which reads " + reads +
                                                ", is neither in " + printable(here.string()) +
                                                ", nor in ../libexec/tandem; " + variable +
                                                " may name it");
}

}  // namespace

std::string decoder_program() {
  return find_program("tandem-decoder", "TANDEM_DECODER", "sound and images");
}

std::string page_decoder_program() {
  return find_program("tandem-page-decoder", "TANDEM_PAGE_DECODER", "PDF files");
}

std::unique_ptr<DecoderProcess> DecoderProcess::start(const std::string& program) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw no_decoder(program, std::string("cannot be started: ") + std::strerror(errno));
  std::unique_ptr<DecoderProcess> out(new DecoderProcess(program, ends[0]));
  try {
    out->pid_ = spawn(program, ends[1]);
  } catch (...) {
    close(ends[1]);
    throw;
  }
  close(ends[1]);
  out->greet();
  return out;
}

DecoderProcess::~DecoderProcess() { end(); }

void DecoderProcess::greet() {
  decoder::FrameHeader header;
  std::string payload;
  double seconds = kSecondsToStart;
  const Got got = receive(header, payload, seconds);
  if (got == Got::kEnd) throw no_decoder(program_, "cannot be used: it " + end());
  decoder::Hello hello;
  if (got != Got::kFrame || header.kind != decoder::FrameKind::kHello ||
      payload.size() < sizeof hello)
    throw no_decoder(program_, got == Got::kLate ? "does not start in time" : "is another program");
  std::memcpy(&hello, payload.data(), sizeof hello);
  if (hello.protocol != decoder::kProtocol) throw no_decoder(program_, "is of another version");
  if (hello.sandbox == decoder::Sandbox::kOn) return;
  unlocked_ = printable(std::string_view(payload).substr(sizeof hello));
  if (unlocked_.empty()) unlocked_ = "no reason given";
  if (hello.sandbox != decoder::Sandbox::kSanitizer && !may_be_unlocked())
    throw no_decoder(program_, "cannot lock itself in (" + unlocked_ +
                                   "); TANDEM_DECODER_SANDBOX=optional decodes without");
}

void DecoderProcess::allow(double seconds) {
  clockid_t clock = 0;
  timespec used = {};
  if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &used) != 0) return;
  rlimit limit = {};
  if (prlimit(pid_, RLIMIT_CPU, nullptr, &limit) != 0) return;
  limit.rlim_cur = std::min(limit.rlim_max, static_cast<rlim_t>(used.tv_sec) +
                                                static_cast<rlim_t>(std::ceil(seconds)) + 1);
  prlimit(pid_, RLIMIT_CPU, &limit, nullptr);
}

bool DecoderProcess::send(const decoder::Job& job, int file) {
  decoder::Job copy = job;
  iovec bytes = {&copy, sizeof copy};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message = {};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const part = CMSG_FIRSTHDR(&message);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(part), &file, sizeof file);
  ssize_t sent = 0;
  do sent = sendmsg(socket_, &message, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(sizeof copy);
}

DecoderProcess::Got DecoderProcess::receive_bytes(char* to, size_t count, double& seconds) {
  while (count > 0) {
    const ssize_t got = recv(socket_, to, count, MSG_DONTWAIT);
    if (got > 0) {
      to += got;
      count -= static_cast<size_t>(got);
      continue;
    }
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) return Got::kEnd;
    if (seconds <= 0) return Got::kLate;
    const auto began = std::chrono::steady_clock::now();
    pollfd wait = {socket_, POLLIN, 0};
    poll(&wait, 1, static_cast<int>(std::min(seconds, 3600.0) * 1000) + 1);
    seconds -= seconds_since(began);
  }
  return Got::kFrame;
}

DecoderProcess::Got DecoderProcess::receive(decoder::FrameHeader& header, std::string& payload,
                                            double& seconds) {
  const Got got = receive_bytes(reinterpret_cast<char*>(&header), sizeof header, seconds);
  if (got != Got::kFrame) return got;
  if (header.kind > decoder::FrameKind::kError || header.bytes > decoder::kMostFrameBytes)
    return Got::kNonsense;
  payload.resize(header.bytes);
  return receive_bytes(payload.data(), payload.size(), seconds);
}

std::string DecoderProcess::end() {
  if (socket_ >= 0) close(std::exchange(socket_, -1));
  const pid_t pid = std::exchange(pid_, 0);
  if (pid <= 0) return "";
  // Closing its socket first lets one that is ending say how. (An ended one keeps its number until
  // it is reaped.)
  int status = 0;
  pid_t reaped = waitpid(pid, &status, WNOHANG);
  for (int i = 0; reaped == 0 && i < 20; ++i) {
    timespec pause = {0, 5'000'000};
    nanosleep(&pause, nullptr);
    reaped = waitpid(pid, &status, WNOHANG);
  }
  if (reaped == 0) {
    kill(pid, SIGKILL);
    do reaped = waitpid(pid, &status, 0);
    while (reaped < 0 && errno == EINTR);
  }
  if (reaped != pid) return "ended";
  if (!WIFSIGNALED(status)) return "ended with status " + std::to_string(WEXITSTATUS(status));
  return "ended on signal " + std::to_string(WTERMSIG(status));
}

}  // namespace tandem
