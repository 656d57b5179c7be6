// What Open MPI's mpirun (4.1 and 5) needs to be told, and where it must not be trusted.

#include "launcher/cluster/mpi_launcher.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/error.h"
#include "base/log/log.h"

namespace tandem::launcher {
namespace {

std::string find_mpirun() {
  const char* path = getenv("PATH");
  std::string paths = path ? path : "/usr/bin:/bin";
  for (size_t at = 0; at <= paths.size();) {
    const size_t end = std::min(paths.find(':', at), paths.size());
    const std::string file = paths.substr(at, end - at) + "/mpirun";
    if (access(file.c_str(), X_OK) == 0) return file;
    at = end + 1;
  }
  throw InputError(ErrorKind::kNotSupported,
                   "mpirun: not found in PATH (Debian: openmpi-bin); on one host "
                   "--distributed-executor-backend processes needs none");
}

// Where the kernel does not tell, it has.
bool has_children(pid_t pid) {
  std::error_code failed;
  bool told = false;
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task", failed)) {
    std::ifstream in(task.path() / "children");
    told = told || in.is_open();
    pid_t child = 0;
    if (in >> child) return true;
  }
  return !told;
}

// Open MPI's mpirun may wait for ever for a rank that died while it was being started.
class HasLostItsRanks {
 public:
  bool operator()(pid_t mpirun) {
    constexpr std::chrono::seconds kLongestAlone(1), kLongestStart(20);
    const auto time = Clock::now();
    if (has_children(mpirun)) {
      had_ranks_ = true;
      alone_since_ = time;
    }
    if (time - alone_since_ <= (had_ranks_ ? kLongestAlone : kLongestStart)) return false;
    log_debug("mpirun {} has no ranks: ending it", mpirun);
    return true;
  }

 private:
  using Clock = std::chrono::steady_clock;
  bool had_ranks_ = false;
  Clock::time_point alone_since_ = Clock::now();
};

}  // namespace

MpiLauncher::MpiLauncher(WorkerCommand worker, std::string hostfile)
    : worker_(std::move(worker)), hostfile_(std::move(hostfile)) {}

void MpiLauncher::open(const actors::WorkerEndpoint& endpoint, Exited exited) {
  mpirun_ = find_mpirun();  // here, where it still is the user's error, not a fault
  log_warning(
      "mpirun listens on every address of its hosts, and whoever reaches its ports can run "
      "programs as this user: they must be closed to others (docs/cluster.md, section 6){}",
      hostfile_.empty() ? "; --distributed-executor-backend processes does without it" : "");
  exited_ = std::move(exited);
  environment_ = worker_environment(endpoint);
  // On one host MPI's part of the ranks needs no ports. Tensors do not travel through it.
  if (hostfile_.empty())
    for (const char* setting :
         {"OMPI_MCA_pml=ob1", "OMPI_MCA_btl=self,vader", "OMPI_MCA_shmem=mmap",
          "OMPI_MCA_btl_vader_single_copy_mechanism=none", "OMPI_MCA_mpi_yield_when_idle=0"})
      environment_.push_back(setting);
  children_ = std::make_unique<ChildProcesses>(
      [this](const ChildProcesses::Key& key, const std::string& how) {
        std::error_code ignored;
        std::filesystem::remove_all(scratch(key), ignored);
        exited_(key.first, key.second, how);
      });
}

std::string MpiLauncher::scratch(const ChildProcesses::Key& key) const {
  return directory_.path().string() + "/" + std::to_string(key.first) + "." +
         std::to_string(key.second);
}

std::vector<std::string> MpiLauncher::command_line(int replica, uint64_t generation,
                                                   int size) const {
  std::vector<std::string> line{mpirun_, "--oversubscribe", "--bind-to", "none"};
  if (geteuid() == 0) line.push_back("--allow-run-as-root");
  if (!hostfile_.empty())
    line.insert(line.end(), {"--hostfile", hostfile_, "-x", kEndpointVariable});
  line.insert(line.end(), {"-n", std::to_string(size)});
  const auto worker = worker_.line(replica, generation);
  line.insert(line.end(), worker.begin(), worker.end());
  line.push_back("--mpi");
  if (hostfile_.empty()) line.insert(line.end(), {"--crash-directory", directory_.path().string()});
  return line;
}

void MpiLauncher::launch(int replica, uint64_t generation, int size) {
  const std::string files = scratch({replica, generation});
  std::error_code failed;
  std::filesystem::create_directories(files, failed);
  if (failed) return exited_(replica, generation, files + ": " + failed.message());
  ChildProgram program{"mpirun", command_line(replica, generation, size), environment_, nullptr};
  std::erase_if(program.environment,
                [](const std::string& entry) { return entry.rfind("TMPDIR=", 0) == 0; });
  program.environment.push_back("TMPDIR=" + files);
  if (hostfile_.empty()) {
    // Not in /dev/shm, where they would stay if a rank was killed.
    for (const char* component : {"vader", "sm"})
      program.environment.push_back(std::string("OMPI_MCA_btl_") + component +
                                    "_backing_directory=" + files);
    program.is_stuck = HasLostItsRanks();
  }
  children_->start({replica, generation}, {std::move(program)});
}

// Ranks first: mpirun would take its time to end them.
void MpiLauncher::stop(int replica, uint64_t generation, const std::vector<int64_t>& pids) {
  for (const int64_t pid : pids)
    if (pid > 1) kill(static_cast<pid_t>(pid), SIGKILL);
  // With remote hosts mpirun has to tell them; their ranks end anyway when the engine lets go.
  children_->end({replica, generation}, hostfile_.empty() ? SIGKILL : SIGTERM);
}

}  // namespace tandem::launcher
