// How the ranks of a one-shot all-reduce find out whether they can have one, and get at each
// other's memory: by its address where they are threads of a process, else through handles.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <random>
#include <string>

#include "kernels/cuda/collective/one_shot_all_reduce.h"
#include "kernels/cuda/collective/one_shot_region.h"
#include "kernels/cuda/device.cuh"

namespace tandem::cuda {

// Freed when no rank of the process uses it any more. Other processes do not say when they are
// done, and must not lose it: what they were given stays until this process ends.
class SharedRegion {
 public:
  SharedRegion() {
    void* data = nullptr;
    if (cudaMalloc(&data, kRegionBytes) != cudaSuccess) cudaGetLastError();
    data_ = static_cast<std::byte*>(data);
  }
  ~SharedRegion() {
    if (!given_away_) cudaFree(data_);
  }
  SharedRegion(const SharedRegion&) = delete;
  SharedRegion& operator=(const SharedRegion&) = delete;
  std::byte* data() const { return data_; }  // null where the device had no memory
  void give_away() { given_away_ = true; }

 private:
  std::byte* data_ = nullptr;
  std::atomic<bool> given_away_{false};
};

namespace {

constexpr size_t kTrialBytes = kRegionData / 4;

// The regions of this process, by number, for the ranks that are its threads.
struct Regions {
  std::mutex mutex;
  uint64_t last = 0;
  std::map<uint64_t, std::weak_ptr<SharedRegion>> all;

  uint64_t add(const std::shared_ptr<SharedRegion>& region) {
    const std::lock_guard lock(mutex);
    std::erase_if(all, [](const auto& entry) { return entry.second.expired(); });
    all[++last] = region;
    return last;
  }
  std::shared_ptr<SharedRegion> find(uint64_t number) {
    const std::lock_guard lock(mutex);
    const auto found = all.find(number);
    return found == all.end() ? nullptr : found->second.lock();
  }
};

Regions& regions() {
  static auto* all = new Regions;
  return *all;
}

// Of the host that runs, not of a container in it.
uint64_t host_number() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return boot.empty() ? 0 : std::hash<std::string>()(boot);
}

bool all_agree(const OneShotAllReduce::Exchange& exchange, bool mine) {
  const std::byte word{mine};
  return std::ranges::all_of(exchange({&word, 1}), [](std::byte b) { return b == std::byte{1}; });
}

}  // namespace

struct OneShotAllReduce::Info {
  Place place;
  uint64_t region = 0;  // its number in the process
  cudaIpcMemHandle_t handle{};
  unsigned char device[16] = {};
  int32_t multiprocessors = 0;
  int32_t able = 0;
};

OneShotAllReduce::Place OneShotAllReduce::here() {
  static const uint64_t process = [] {
    std::random_device random;
    return uint64_t{random()} << 32 | random();
  }();
  return {host_number(), process};
}

OneShotAllReduce::OneShotAllReduce(CudaBackend& backend, int rank, int ranks) : backend_(backend) {
  group_.rank = rank;
  group_.ranks = ranks;
}

OneShotAllReduce::~OneShotAllReduce() {
  cudaSetDevice(backend_.index());
  abort();
  cudaStreamSynchronize(backend_.stream());
  for (void* memory : opened_) cudaIpcCloseMemHandle(memory);
  if (host_words_ != nullptr) cudaFreeHost(host_words_);
  cudaGetLastError();
}

void OneShotAllReduce::abort() {
  if (host_words_ != nullptr)
    std::atomic_ref<uint32_t>(host_words_[0]).store(1, std::memory_order_release);
}

bool OneShotAllReduce::failed() const {
  return std::atomic_ref<uint32_t>(host_words_[1]).load(std::memory_order_acquire) != 0;
}

// This rank's region, words and device. info.able stays 0 if something is not to be had.
void OneShotAllReduce::open_own(Info& info) {
  cudaDeviceProp properties{};
  void* words = nullptr;
  auto region = std::make_shared<SharedRegion>();
  if (region->data() == nullptr || group_.ranks > OneShotGroup::kMaxRanks ||
      cudaGetDeviceProperties(&properties, backend_.index()) != cudaSuccess ||
      cudaHostAlloc(&words, 2 * sizeof(uint32_t), cudaHostAllocMapped | cudaHostAllocPortable) !=
          cudaSuccess)
    return static_cast<void>(cudaGetLastError());
  host_words_ = static_cast<uint32_t*>(words);
  std::memset(host_words_, 0, 2 * sizeof(uint32_t));
  void* there = nullptr;
  if (cudaHostGetDevicePointer(&there, words, 0) != cudaSuccess ||
      cudaMemsetAsync(region->data(), 0, kRegionBytes, backend_.stream()) != cudaSuccess ||
      cudaStreamSynchronize(backend_.stream()) != cudaSuccess)
    return static_cast<void>(cudaGetLastError());
  group_.aborted = static_cast<uint32_t*>(there);
  group_.failed = group_.aborted + 1;
  group_.epochs = own_words(region->data());
  group_.dead = group_.epochs + kOneShotBlocks;
  static_assert(sizeof(properties.uuid) == sizeof(info.device));
  std::memcpy(info.device, &properties.uuid, sizeof(info.device));
  info.multiprocessors = properties.multiProcessorCount;
  info.region = regions().add(region);
  // Not every system gives handles; threads of a process need none.
  if (cudaIpcGetMemHandle(&info.handle, region->data()) != cudaSuccess) {
    cudaGetLastError();
    info.handle = {};
  }
  regions_.push_back(std::move(region));
  info.able = 1;
}

bool OneShotAllReduce::open_peer(const Info& mine, const Info& peer, size_t rank) {
  int count = 0, index = -1, reachable = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return false;
  for (int i = 0; i < count && index < 0; ++i) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, i) == cudaSuccess &&
        std::memcmp(&properties.uuid, peer.device, sizeof(peer.device)) == 0)
      index = i;
  }
  if (index < 0 || cudaDeviceCanAccessPeer(&reachable, backend_.index(), index) != cudaSuccess ||
      reachable == 0)
    return false;
  if (peer.place.process == mine.place.process) {
    const cudaError_t enabled = cudaDeviceEnablePeerAccess(index, 0);
    if (enabled != cudaSuccess && enabled != cudaErrorPeerAccessAlreadyEnabled) return false;
    cudaGetLastError();
    auto region = regions().find(peer.region);
    if (region == nullptr) return false;
    group_.regions[rank] = region->data();
    regions_.push_back(std::move(region));
    return true;
  }
  void* memory = nullptr;
  regions_[0]->give_away();
  if (cudaIpcOpenMemHandle(&memory, peer.handle, cudaIpcMemLazyEnablePeerAccess) != cudaSuccess)
    return false;
  opened_.push_back(memory);
  group_.regions[rank] = static_cast<std::byte*>(memory);
  return true;
}

bool OneShotAllReduce::open_peers(const std::vector<Info>& all) {
  const auto own = static_cast<size_t>(group_.rank);
  max_blocks_ = kOneShotBlocks;
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r].able == 0 || all[r].place.host == 0 || all[r].place.host != all[own].place.host)
      return false;
    for (size_t other = 0; other < r; ++other)
      if (std::memcmp(all[r].device, all[other].device, sizeof(all[r].device)) == 0) return false;
    max_blocks_ = std::min(max_blocks_, std::max(1, all[r].multiprocessors));
  }
  group_.regions[own] = regions_[0]->data();
  for (size_t r = 0; r < all.size(); ++r) {
    if (r == own || open_peer(all[own], all[r], r)) continue;
    cudaGetLastError();
    return false;
  }
  return true;
}

std::unique_ptr<OneShotAllReduce> OneShotAllReduce::make(CudaBackend& backend, int rank, int ranks,
                                                         const Place& place, bool wanted,
                                                         std::chrono::nanoseconds timeout,
                                                         const Exchange& exchange) {
  constexpr std::chrono::nanoseconds kMostOfATrial = std::chrono::seconds(10);
  TANDEM_CUDA_CHECK(cudaSetDevice(backend.index()));
  std::unique_ptr<OneShotAllReduce> out(new OneShotAllReduce(backend, rank, ranks));
  Info info;
  info.place = place;
  if (wanted) out->open_own(info);
  // Once for all sums of the trial, and before any of them: while a kernel waits for this rank, a
  // device whose memory others reach may give none and take none back.
  const Tensor room = backend.allocate({static_cast<int64_t>(kTrialBytes)}, DType::kU8);
  const std::vector<std::byte> bytes =
      exchange({reinterpret_cast<const std::byte*>(&info), sizeof(info)});
  TANDEM_CHECK_EQ(bytes.size(), sizeof(info) * static_cast<size_t>(ranks));
  std::vector<Info> all(static_cast<size_t>(ranks));
  std::memcpy(static_cast<void*>(all.data()), bytes.data(), bytes.size());
  // The second word also says that everybody has what it needs of those who give up.
  if (!all_agree(exchange, out->open_peers(all))) return nullptr;
  if (!all_agree(exchange, out->try_out(room, std::min(timeout, kMostOfATrial)))) return nullptr;
  out->group_.timeout = static_cast<uint64_t>(timeout.count());
  return out;
}

// Sums of each type and of several sizes, right on this rank. There are machines whose devices say
// that they read each other, and read something else. (It also loads the kernels.)
bool OneShotAllReduce::try_out(const Tensor& room, std::chrono::nanoseconds timeout) {
  group_.timeout = static_cast<uint64_t>(timeout.count());
  const bool f32 = try_type<float>(room, DType::kF32), f16 = try_type<__half>(room, DType::kF16),
             bf16 = try_type<__nv_bfloat16>(room, DType::kBF16);
  return f32 && f16 && bf16 && !failed();
}

template <class T>
bool OneShotAllReduce::try_type(const Tensor& room, DType dtype) {
  bool right = true;
  const int64_t most = static_cast<int64_t>(kTrialBytes / sizeof(T));
  for (const int64_t n : {int64_t{1}, int64_t{1003}, most, most - 5}) {
    std::vector<T> values(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i)  // exact in every type, and so are the sums
      values[static_cast<size_t>(i)] = T(static_cast<float>((i % 3 + 1) * (group_.rank + 1)));
    const Tensor there = Tensor::borrow(room.raw(), {n}, dtype);
    if (!takes(there)) continue;  // a device of few multiprocessors
    const size_t bytes = there.bytes();
    TANDEM_CUDA_CHECK(cudaMemcpyAsync(there.raw(), values.data(), bytes, cudaMemcpyHostToDevice,
                                      backend_.stream()));
    run(there);
    TANDEM_CUDA_CHECK(cudaMemcpyAsync(values.data(), there.raw(), bytes, cudaMemcpyDeviceToHost,
                                      backend_.stream()));
    TANDEM_CUDA_CHECK(cudaStreamSynchronize(backend_.stream()));
    const auto of_ranks = static_cast<float>(group_.ranks * (group_.ranks + 1) / 2);
    for (int64_t i = 0; i < n; ++i)
      right = right && static_cast<float>(values[static_cast<size_t>(i)]) ==
                           static_cast<float>(i % 3 + 1) * of_ranks;
  }
  return right;
}

}  // namespace tandem::cuda
