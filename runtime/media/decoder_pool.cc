// Which decoders there are, who has them, and the thread that starts them.
#include "runtime/media/decoder_pool.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <deque>
#include <future>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/log/log.h"
#include "base/mutex.h"
#include "base/seconds_since.h"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;
using ProcessPtr = std::unique_ptr<DecoderProcess>;

struct Idle {
  ProcessPtr process;
  Clock::time_point since;
};

}  // namespace

struct DecoderPool::Impl {
  explicit Impl(Options options_) : options(std::move(options_)) {
    TANDEM_CHECK(wake >= 0, "no descriptor is left");
    // Signals are the other threads' to take.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    keeper = std::thread([this] { keep(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  ~Impl() {
    {
      const MutexLock lock(mutex);
      TANDEM_CHECK(busy == 0, "decoders are at work");
      ending = true;
    }
    call();
    keeper.join();
    close(wake);
  }

  void call() const {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wake, &one, sizeof one);
  }
  ProcessPtr take_idle() REQUIRES(mutex);
  void keep();
  void start_ordered();
  std::vector<ProcessPtr> ended();

  const Options options;
  const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  mutable Mutex mutex;
  CondVar freed;
  size_t busy GUARDED_BY(mutex) = 0;        // taken, or being started for somebody
  std::deque<Idle> idle GUARDED_BY(mutex);  // the last one was used last
  std::deque<std::promise<ProcessPtr>> orders GUARDED_BY(mutex);
  bool ending GUARDED_BY(mutex) = false;
  bool has_warned = false;  // the keeper's
  std::thread keeper;
};

// Null: none of them lives.
ProcessPtr DecoderPool::Impl::take_idle() {
  while (!idle.empty()) {
    ProcessPtr process = std::move(idle.back().process);
    idle.pop_back();
    pollfd news = {process->socket(), POLLIN, 0};
    if (poll(&news, 1, 0) == 0) return process;
  }
  return nullptr;
}

void DecoderPool::Impl::start_ordered() {
  for (;;) {
    std::promise<ProcessPtr> order;
    {
      const MutexLock lock(mutex);
      if (orders.empty()) return;
      order = std::move(orders.front());
      orders.pop_front();
    }
    try {
      ProcessPtr process =
          DecoderProcess::start(options.program.empty() ? options.find_program() : options.program);
      if (!process->unlocked().empty() && !std::exchange(has_warned, true))
        log_warning("the program that decodes files is not locked in: {}", process->unlocked());
      order.set_value(std::move(process));
    } catch (...) {
      order.set_exception(std::current_exception());
    }
  }
}

// Those that wait and have ended, say something unasked, or have waited for long.
std::vector<ProcessPtr> DecoderPool::Impl::ended() {
  std::vector<ProcessPtr> out;
  const MutexLock lock(mutex);
  for (Idle& i : idle) {
    pollfd news = {i.process->socket(), POLLIN, 0};
    if (ending || poll(&news, 1, 0) != 0 || seconds_since(i.since) > options.idle_seconds)
      out.push_back(std::move(i.process));
  }
  std::erase_if(idle, [](const Idle& i) { return i.process == nullptr; });
  return out;
}

void DecoderPool::Impl::keep() {
  for (;;) {
    start_ordered();
    ended().clear();
    std::vector<pollfd> sockets = {{wake, POLLIN, 0}};
    int wait = -1;  // milliseconds
    {
      const MutexLock lock(mutex);
      if (ending) return;
      if (!orders.empty()) continue;
      for (const Idle& i : idle) sockets.push_back({i.process->socket(), POLLIN, 0});
      if (!idle.empty())
        wait =
            1 + static_cast<int>(
                    1000 * std::max(options.idle_seconds - seconds_since(idle.front().since), 0.0));
    }
    poll(sockets.data(), sockets.size(), wait);
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = read(wake, &count, sizeof count);
  }
}

DecoderPool::DecoderPool(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}
DecoderPool::~DecoderPool() = default;

DecoderPool& DecoderPool::of_process() {
  // Never destroyed: threads may decode to the process's end, and decoders end with it.
  static DecoderPool& pool = *new DecoderPool({});
  return pool;
}

DecoderPool& DecoderPool::of_documents() {
  static DecoderPool& pool =
      *new DecoderPool({.program = {}, .most = 2, .find_program = page_decoder_program});
  return pool;
}

std::unique_ptr<DecoderProcess> DecoderPool::take() {
  std::future<ProcessPtr> started;
  {
    const MutexLock lock(impl_->mutex);
    while (impl_->busy >= impl_->options.most) impl_->freed.wait(impl_->mutex);
    ++impl_->busy;
    if (ProcessPtr process = impl_->take_idle()) return process;
    impl_->orders.emplace_back();
    started = impl_->orders.back().get_future();
  }
  impl_->call();
  try {
    return started.get();
  } catch (...) {
    give_back(nullptr);
    throw;
  }
}

void DecoderPool::give_back(std::unique_ptr<DecoderProcess> process) {
  {
    const MutexLock lock(impl_->mutex);
    --impl_->busy;
    if (process) impl_->idle.push_back({std::move(process), Clock::now()});
  }
  impl_->freed.notify_one();
  impl_->call();
}

size_t DecoderPool::num_idle() const {
  const MutexLock lock(impl_->mutex);
  return impl_->idle.size();
}

}  // namespace tandem
