#include "actors/worker_process.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <system_error>
#include <thread>

#include "actors/network/network.h"
#include "actors/network/process_limits.h"
#include "actors/network/system_config.h"
#include "actors/spawn.h"
#include "base/error.h"
#include "base/signal_stack.h"
#include "runtime/engine/supervisor_core.h"

namespace tandem::actors {
namespace {

using namespace std::chrono_literals;

constexpr int kSupervisorLost = 75;  // EX_TEMPFAIL

int crash_fd = -1;

// A crash is recorded on whichever thread it happens, with a stack that is full too.
class SignalStacks final : public caf::thread_hook {
 public:
  void init(caf::actor_system&) override {}
  void thread_started() override { use_signal_stack(); }
  void thread_terminates() override {}
};

extern "C" void write_crash(int signal) {
  char text[] = "signal 00\n";
  text[7] = static_cast<char>('0' + signal / 10);
  text[8] = static_cast<char>('0' + signal % 10);
  if (crash_fd >= 0) [[maybe_unused]]
    const auto n = write(crash_fd, text, sizeof(text) - 1);
  ::signal(signal, SIG_DFL);
  raise(signal);
}

// Ends the process when the supervisor is gone: the worker's own thread may be blocked. The order
// to stop may have come just before; then the worker ends, and with it this actor.
caf::behavior watch_supervisor(caf::event_based_actor* self, ReportHandle supervisor) {
  self->monitor(supervisor);
  self->set_down_handler([self](caf::down_msg&) { self->delayed_send(self, 1s, Tick{}); });
  return {[](const Tick&) { _exit(kSupervisorLost); }};
}

ReportHandle find_supervisor(caf::actor_system& system, const WorkerProcessOptions& options) {
  const auto [host, port] = parse_address(options.endpoint.address);
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(options.connect_timeout);
  while (true) {
    try {
      return connect<ReportHandle>(system, host, port, 10s);
    } catch (const InputError&) {
      if (std::chrono::steady_clock::now() >= deadline) throw;
    }
    std::this_thread::sleep_for(50ms);
  }
}

}  // namespace

proto::WorkerHello hello_of_this_process() {
  proto::WorkerHello hello;
  hello.set_protocol_version(kProtocolVersion);
  hello.set_pid(getpid());
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  char link[64] = {};  // processes of other pid namespaces are not on this host
  if (readlink("/proc/self/ns/pid", link, sizeof(link) - 1) > 0) id += link;
  hello.set_host_id(id);
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  hello.set_hostname(name);
  return hello;
}

void record_crashes_in(const std::string& file) {
  crash_fd = open(file.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (crash_fd < 0) return;
  use_signal_stack();
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL}) {
    struct sigaction action = {};
    action.sa_handler = write_crash;
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER | SA_ONSTACK);
    sigaction(signal, &action, nullptr);
  }
}

int read_crash_record(const std::string& file) {
  std::ifstream in(file);
  std::string word;
  int signal = 0;
  if (!(in >> word >> signal) || word != "signal") return 0;
  return signal;
}

bool run_worker_process(const WorkerProcessOptions& options, std::shared_ptr<Worker> worker) {
  SystemOptions system_options;
  system_options.threads = 1;
  system_options.peer_timeout = options.peer_timeout;
  SystemConfig config(system_options, &options.endpoint.credentials);
  config.add_thread_hook<SignalStacks>();
  caf::actor_system system(config);
  if (!options.crash_record.empty()) record_crashes_in(options.crash_record);
  const ReportHandle supervisor = find_supervisor(system, options);
  const auto watcher = system.spawn(watch_supervisor, supervisor);
  const auto again = std::make_shared<std::atomic<bool>>(false);
  WorkerHandle handle;
  try {
    handle = spawn_worker(
        system, supervisor,
        {options.replica, options.generation, options.rank, options.crash_record, again},
        std::move(worker));
  } catch (const std::system_error& e) {
    // No thread for it. CAF counts it all the same: its system would wait for its end for ever.
    end_for_want(want_of_resources(e));
  }
  {
    caf::scoped_actor self(system);
    self->wait_for(handle);
  }
  caf::anon_send_exit(watcher, caf::exit_reason::user_shutdown);
  return *again;
}

}  // namespace tandem::actors
