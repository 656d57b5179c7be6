// Runs a program to its end, with input, and collects what it writes.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace tandem::testing {

struct ProcessResult {
  int status = -1;  // exit status; 128 + n for signal n
  std::string out, err;
};

inline ProcessResult run_process(const std::vector<std::string>& command,
                                 const std::string& input = {}, int timeout_seconds = 120) {
  int in[2], out[2], err[2];
  if (pipe(in) != 0 || pipe(out) != 0 || pipe(err) != 0) throw std::runtime_error("pipe failed");
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    dup2(in[0], 0);
    dup2(out[1], 1);
    dup2(err[1], 2);
    for (int fd : {in[0], in[1], out[0], out[1], err[0], err[1]}) close(fd);
    execv(argv[0], argv.data());
    _exit(127);
  }
  signal(SIGPIPE, SIG_IGN);
  close(in[0]);
  close(out[1]);
  close(err[1]);
  fcntl(in[1], F_SETFL, O_NONBLOCK);
  ProcessResult result;
  size_t written = 0;
  if (input.empty()) {
    close(in[1]);
    in[1] = -1;
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(timeout_seconds);
  while (out[0] >= 0 || err[0] >= 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      kill(child, SIGKILL);
      break;
    }
    std::array<pollfd, 3> fds{{{out[0], POLLIN, 0}, {err[0], POLLIN, 0}, {in[1], POLLOUT, 0}}};
    poll(fds.data(), fds.size(), 200);
    const auto drain = [](int& fd, const pollfd& p, std::string& to) {
      if (fd < 0 || p.revents == 0) return;
      char buffer[65536];
      const ssize_t n = read(fd, buffer, sizeof(buffer));
      if (n > 0) {
        to.append(buffer, static_cast<size_t>(n));
      } else if (n == 0 || errno != EAGAIN) {
        close(fd);
        fd = -1;
      }
    };
    drain(out[0], fds[0], result.out);
    drain(err[0], fds[1], result.err);
    if (in[1] >= 0 && fds[2].revents != 0) {
      const ssize_t n = write(in[1], input.data() + written, input.size() - written);
      if (n > 0) written += static_cast<size_t>(n);
      if ((n < 0 && errno != EAGAIN) || written == input.size()) {
        close(in[1]);
        in[1] = -1;
      }
    }
  }
  for (int fd : {in[1], out[0], err[0]})
    if (fd >= 0) close(fd);
  int status = 0;
  waitpid(child, &status, 0);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace tandem::testing
