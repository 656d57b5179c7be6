// Joining and leaving an MPI job, and the bootstrap of groups (mpi_session.h).
#include "parallel/communicators/mpi_session.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "parallel/communicators/mpi_internal.h"
#include "parallel/communicators/round_communicator.h"
#include "parallel/communicators/shared_memory_communicator.h"

namespace tandem {
namespace {

constexpr std::chrono::microseconds kPause{50};
constexpr size_t kChunk = size_t{4} << 20;  // of a broadcast

using Text = std::array<char, 512>;  // a text of fixed size, cut where it is longer

Text text_of(const std::string& s) {
  Text out{};
  std::memcpy(out.data(), s.data(), std::min(s.size(), out.size() - 1));
  return out;
}

// Equal for two processes exactly if each can open the other's /proc/PID: same boot of the same
// machine, same pid namespace, same user.
std::string place() {
  char name[256] = "", space[64] = "";
  ::gethostname(name, sizeof name - 1);
  if (::readlink("/proc/self/ns/pid", space, sizeof space - 1) < 0) space[0] = '\0';
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return std::string(name) + " " + boot + " " + space + " " + std::to_string(::geteuid());
}

}  // namespace

struct MpiSession::Impl {
  mpi::Handle world = 0;  // a copy: nobody else's traffic
  int rank = 0, size = 1;
  std::chrono::milliseconds timeout{0};
  bool abandoned = false;
  std::shared_ptr<std::atomic<bool>> broken = std::make_shared<std::atomic<bool>>(false);

  // `buffers` is what the request may write to.
  void finish(mpi::Handle& request, const char* call, const std::shared_ptr<void>& buffers) {
    bool done = false;
    try {
      done = mpi::wait(request, timeout, kPause, [] {});
    } catch (...) {
      fail(buffers);
      throw;
    }
    if (done) return;
    fail(buffers);
    throw CommunicatorError(std::string(call) + " on rank " + std::to_string(rank) + " of " +
                            std::to_string(size) + ": timed out after " + seconds_text(timeout) +
                            " waiting for the other ranks");
  }
  void fail(const std::shared_ptr<void>& buffers) {
    *broken = true;
    mpi::keep_for_ever(buffers);
  }

  void barrier() {
    mpi::Handle request = mpi::calls().no_request;
    mpi::check(mpi::calls().ibarrier(world, &request), "MPI_Ibarrier");
    finish(request, "barrier", nullptr);
  }

  void broadcast_chunk(std::byte* data, size_t bytes, int root) {
    const auto buffer = std::make_shared<std::vector<std::byte>>(data, data + bytes);
    mpi::Handle request = mpi::calls().no_request;
    mpi::check(mpi::calls().ibcast(buffer->data(), static_cast<int>(bytes), root, world, &request),
               "MPI_Ibcast");
    finish(request, "broadcast", buffer);
    std::memcpy(data, buffer->data(), bytes);
  }

  // One record of each rank.
  template <class T>
  std::vector<T> gather(const T& mine) {
    struct Buffers {
      T mine;
      std::vector<T> all;
    };
    const auto buffers = std::make_shared<Buffers>();
    buffers->mine = mine;
    buffers->all.resize(static_cast<size_t>(size));
    mpi::Handle request = mpi::calls().no_request;
    mpi::check(
        mpi::calls().iallgather(&buffers->mine, sizeof(T), buffers->all.data(), world, &request),
        "MPI_Iallgather");
    finish(request, "all_gather", buffers);
    return buffers->all;
  }

  mpi::Handle copy(mpi::Handle from) {
    const auto to = std::make_shared<mpi::Handle>(mpi::calls().no_comm);
    mpi::Handle request = mpi::calls().no_request;
    mpi::check(mpi::calls().comm_idup(from, to.get(), &request), "MPI_Comm_idup");
    finish(request, "making a group", to);
    mpi::check(mpi::calls().comm_return_errors(*to), "MPI_Comm_set_errhandler");
    return *to;
  }

  bool on_one_host() {
    const std::vector<Text> places = gather(text_of(place()));
    return std::all_of(places.begin(), places.end(), [&](const Text& p) { return p == places[0]; });
  }

  // Nothing where any rank has failed; then `why` says so, on all ranks alike.
  std::unique_ptr<Communicator> share_memory(const CommunicatorOptions& options, std::string& why) {
    struct Offer {
      int32_t pid, fd;
    };
    std::shared_ptr<SharedMemoryRegion> region;
    std::string error;
    const auto attempt = [&](auto&& action) {
      try {
        if (error.empty()) action();
      } catch (const CommunicatorError& e) {
        error = e.what();
      }
    };
    if (rank == 0)
      attempt([&] { region = SharedMemoryRegion::create_shared(size, options.chunk_bytes); });
    const Offer offer = gather(Offer{::getpid(), region ? region->fd() : -1})[0];
    if (rank != 0)
      attempt([&] {
        region = SharedMemoryRegion::open(offer.pid, offer.fd, size, options.chunk_bytes);
      });
    if (region) region->join(rank);
    // All have joined, or all know that one has not.
    const std::vector<Text> errors = gather(text_of(error));
    for (int r = 0; r < size; ++r) {
      if (errors[static_cast<size_t>(r)][0] == '\0') continue;
      why = "rank " + std::to_string(r) + ": " + errors[static_cast<size_t>(r)].data();
      return nullptr;
    }
    region->close_fd();
    return make_shared_memory_communicator(region, rank, options);
  }

  std::unique_ptr<Communicator> make_communicator(const CommunicatorOptions& options) {
    using Transport = CommunicatorOptions::Transport;
    if (options.transport != Transport::kMpi) {
      std::string why = "the ranks are not on one host";
      if (on_one_host())
        if (auto comm = share_memory(options, why)) return comm;
      if (options.transport == Transport::kSharedMemory)
        throw CommunicatorError("no communicator through shared memory: " + why);
    }
    return mpi::make_communicator(copy(world), options, broken);
  }

  // MPI has no call for it that does not block: it blocks a thread of its own, which is left behind
  // (and the group with it) where the deadline comes first.
  mpi::Handle of_group(mpi::Handle group, int tag) const {
    struct Made {
      int code;
      mpi::Handle comm;
    };
    std::promise<Made> promise;
    std::future<Made> made = promise.get_future();
    std::thread([promise = std::move(promise), of = world, group, tag]() mutable {
      mpi::Handle comm = mpi::calls().no_comm;
      const int code = mpi::calls().comm_create_group(of, group, tag, &comm);
      promise.set_value({code, comm});
    }).detach();
    if (made.wait_for(timeout) != std::future_status::ready) {
      *broken = true;
      throw CommunicatorError("MPI_Comm_create_group: rank " + std::to_string(rank) +
                              " of the group timed out after " + seconds_text(timeout) +
                              " waiting for the other ranks");
    }
    const Made result = made.get();
    mpi::check(result.code, "MPI_Comm_create_group");
    return result.comm;
  }

  // A communicator of ranks [first, first + count) of the world, made by them alone.
  mpi::Handle consecutive(int first, int count) const {
    mpi::Handle all = 0, some = 0;
    mpi::check(mpi::calls().comm_group(world, &all), "MPI_Comm_group");
    mpi::check(mpi::calls().group_range(all, first, count, &some), "MPI_Group_range_incl");
    mpi::calls().group_free(&all);
    const mpi::Handle out = of_group(some, first);
    mpi::calls().group_free(&some);
    mpi::check(mpi::calls().comm_return_errors(out), "MPI_Comm_set_errhandler");
    return out;
  }
};

bool MpiSession::launched_by_mpi() {
  // Set by OpenMPI's mpirun, by Hydra and srun --mpi=pmi2, and by PMIx (srun --mpi=pmix).
  const char* const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"};
  return std::any_of(std::begin(names), std::end(names), [](const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr && *value != '\0';
  });
}

MpiSession::MpiSession(std::chrono::milliseconds timeout) : impl_(std::make_unique<Impl>()) {
  const mpi::Calls& calls = mpi::calls();
  int initialized = 0, for_all_threads = 0;
  calls.initialized(&initialized);
  if (initialized) throw CommunicatorError("MPI is in use already: one session per process");
  mpi::check(calls.init_thread(&for_all_threads), "MPI_Init_thread");
  impl_->timeout = timeout;
  mpi::check(calls.comm_return_errors(calls.world), "MPI_Comm_set_errhandler");
  mpi::check(calls.comm_rank(calls.world, &impl_->rank), "MPI_Comm_rank");
  mpi::check(calls.comm_size(calls.world, &impl_->size), "MPI_Comm_size");
  if (!for_all_threads)
    throw CommunicatorError("this MPI does not support threads (MPI_THREAD_MULTIPLE)");
  impl_->world = impl_->copy(calls.world);
}

MpiSession::~MpiSession() {
  if (impl_->abandoned || *impl_->broken) return;
  try {
    // MPI_Finalize waits without a deadline; so all are called here first.
    impl_->barrier();
  } catch (const CommunicatorError&) {
    return;
  }
  mpi::calls().comm_free(&impl_->world);
  mpi::calls().finalize();
}

void MpiSession::abandon() { impl_->abandoned = true; }
int MpiSession::rank() const { return impl_->rank; }
int MpiSession::size() const { return impl_->size; }
void MpiSession::barrier() { impl_->barrier(); }

void MpiSession::broadcast(std::string& bytes, int root) {
  TANDEM_CHECK(root >= 0 && root < size());
  uint64_t count = bytes.size();
  impl_->broadcast_chunk(reinterpret_cast<std::byte*>(&count), sizeof count, root);
  if (count > kMaxBroadcastBytes)
    throw CommunicatorError("broadcast of " + std::to_string(count) + " bytes: at most " +
                            std::to_string(kMaxBroadcastBytes) + " are possible");
  bytes.resize(count);
  auto* data = reinterpret_cast<std::byte*>(bytes.data());
  for (size_t i = 0; i < count; i += kChunk)
    impl_->broadcast_chunk(data + i, std::min<size_t>(kChunk, count - i), root);
}

std::unique_ptr<Communicator> MpiSession::make_communicator(const CommunicatorOptions& options,
                                                            int group_size) {
  if (group_size == 0) group_size = size();
  TANDEM_CHECK(group_size > 0 && size() % group_size == 0);
  if (group_size == 1) return make_local_communicator();
  if (group_size == size()) return impl_->make_communicator(options);
  Impl group;
  group.rank = rank() % group_size;
  group.size = group_size;
  group.timeout = impl_->timeout;
  group.broken = impl_->broken;
  group.world = impl_->consecutive(rank() - group.rank, group_size);
  auto comm = group.make_communicator(options);
  mpi::calls().comm_free(&group.world);
  return comm;
}

}  // namespace tandem
