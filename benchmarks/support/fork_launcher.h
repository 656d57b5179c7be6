// Ranks as processes without a program of their own: forks of this one, made before it has other
// threads, which wait for the address of the engine in a pipe.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "actors/group_launcher.h"
#include "actors/worker_process.h"

namespace tandem::bench {

// One replica, one generation.
class ForkLauncher final : public actors::GroupLauncher {
 public:
  using MakeWorker = std::function<std::shared_ptr<Worker>()>;

  ForkLauncher(int size, const MakeWorker& make_worker) {
    for (int rank = 0; rank < size; ++rank) {
      int ends[2];
      if (pipe(ends) != 0) throw std::runtime_error("pipe");
      const pid_t pid = fork();
      if (pid < 0) throw std::runtime_error("fork");
      if (pid == 0) {
        close(ends[1]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        run_rank(rank, read_line(ends[0]), make_worker);
      }
      close(ends[0]);
      ranks_.push_back({pid, ends[1]});
    }
  }
  ~ForkLauncher() override {
    kill_all();
    if (waiter_.joinable()) {
      waiter_.join();
    } else {
      wait_for_all();
    }
  }

  void open(const actors::WorkerEndpoint& endpoint, Exited exited) override {
    line_ = endpoint.address + " " + endpoint.credentials.encode();
    exited_ = std::move(exited);
  }
  void launch(int replica, uint64_t generation, int size) override {
    if (waiter_.joinable() || static_cast<int>(ranks_.size()) != size)
      throw std::logic_error("this launcher starts one group of its size");
    const std::string line = std::to_string(generation) + " " + line_ + "\n";
    for (const Rank& rank : ranks_)
      if (write(rank.pipe, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
        throw std::runtime_error("write");
    waiter_ = std::thread([this, replica, generation] {
      wait_for_all();
      exited_(replica, generation, "its processes have ended");
    });
  }
  void stop(int, uint64_t, const std::vector<int64_t>&) override { kill_all(); }

 private:
  struct Rank {
    pid_t pid;
    int pipe;
  };

  static std::string read_line(int fd) {
    std::string line;
    for (char c = 0; read(fd, &c, 1) == 1 && c != '\n';) line += c;
    return line;
  }
  [[noreturn]] static void run_rank(int rank, const std::string& line,
                                    const MakeWorker& make_worker) {
    const size_t a = line.find(' '), b = line.find(' ', a + 1);
    if (b == std::string::npos) _exit(0);  // never launched
    actors::WorkerProcessOptions options;
    options.generation = std::stoull(line.substr(0, a));
    options.endpoint = {line.substr(a + 1, b - a - 1),
                        actors::Credentials::decode(line.substr(b + 1))};
    options.rank = rank;
    options.peer_timeout = 60;
    try {
      actors::run_worker_process(options, make_worker());
    } catch (const std::exception& e) {
      std::fprintf(stderr, "rank %d: %s\n", rank, e.what());
    }
    _exit(0);
  }
  void kill_all() {
    const std::lock_guard lock(mutex_);
    for (const Rank& rank : ranks_)
      if (rank.pid > 0) kill(rank.pid, SIGKILL);
  }
  void wait_for_all() {
    for (Rank& rank : ranks_) {
      siginfo_t info;
      waitid(P_PID, static_cast<id_t>(rank.pid), &info, WEXITED | WNOWAIT);
      const std::lock_guard lock(mutex_);  // nobody kills a process that has ended
      waitpid(std::exchange(rank.pid, 0), nullptr, 0);
      close(rank.pipe);
    }
  }

  std::mutex mutex_;  // of the pids
  std::vector<Rank> ranks_;
  std::string line_;
  Exited exited_;
  std::thread waiter_;
};

}  // namespace tandem::bench
