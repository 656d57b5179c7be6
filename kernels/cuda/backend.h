// A CUDA device as a DeviceBackend: one stream, memory, recorded steps, cuBLASLt.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <array>
#include <chrono>
#include <functional>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "kernels/core/device_backend.h"
#include "kernels/core/scratch_arena.h"
#include "kernels/cuda/host/launch_stream.h"
#include "kernels/cuda/linear/direct_tiles.h"

namespace tandem::cuda {

class GemmCache;
class StepMemory;
class UploadRing;

class CudaBackend final : public DeviceBackend {
 public:
  // Throws InputError (kResource) if the device or the host lacks memory for the minimum, and frees
  // what it has allocated.
  explicit CudaBackend(int index);
  ~CudaBackend() override;

  Device device() const override { return Device::kCuda; }
  std::string name() const override;
  const OpTable& ops() const override;
  DeviceMemory memory() const override;
  Tensor allocate(const Shape& shape, DType dtype) override;
  Tensor allocate_host(const Shape& shape, DType dtype) override;
  Tensor scratch(const Shape& shape, DType dtype) override;
  void begin_step() override;
  void expect_rows(int64_t rows) override { rows_ = rows; }
  void copy_in(const Tensor& host, const Tensor& device) override;
  void load(const Tensor& device, ThreadPool& pool, const ReadPart& read) override;
  void end_loading() override;
  void copy_out(const Tensor& device, const Tensor& host) override;
  void copy_matrix(const Tensor& from, const Tensor& to) override;
  void synchronize() override;
  std::shared_ptr<void> watch(Check check) override {
    const auto at = checks_.insert(checks_.end(), std::move(check));
    return {nullptr, [this, at](void*) { checks_.erase(at); }};
  }
  void tune_products(const std::string& folder,
                     std::function<void(const std::string&)> warn) override;
  uint64_t mark() override;
  bool reached(uint64_t mark) override;
  void wait(uint64_t mark) override;
  double seconds_between(uint64_t from, uint64_t to) override;
  bool attention_tiles(DType dtype, int head_dim) const override;
  int most_best_rows(const PackedWeight& weight) const override;
  bool f8_pages() const override { return capability_ >= 89; }
  bool record(uint64_t key, const std::function<void()>& step) override;
  void replay(uint64_t key) override;
  void forget_recordings() override;
  void forget_recordings(std::span<const uint64_t> keys) override;
  size_t nodes_recorded() const override { return nodes_recorded_; }
  // For the end of collectives, which recordings hold. Does not wait: a running recording is freed
  // when it ends. replay() throws from then on.
  void drop_recordings();

  cudaStream_t stream() const { return stream_; }
  // The stream for kernels. It has dependent launches from compute capability 9.0 on, in steps of
  // few rows (dependent_rows_wanted() at construction).
  LaunchStream launches() const { return {stream_, rows_ <= most_dependent_rows_}; }
  int index() const { return index_; }
  bool recording() const { return recording_; }
  GemmCache& gemms() { return *gemms_; }
  // Counts the finished blocks of a launch; 0 between launches.
  int32_t* ticket() const { return ticket_; }
  int capability() const { return capability_; }
  // The most rows of a product like this that direct_tiles computes, rather than cuBLASLt: as
  // measured, or TANDEM_DIRECT_ROWS at construction.
  int64_t most_direct_rows(const WeightProduct& p) const {
    return most_direct_rows_.value_or(default_direct_rows(p));
  }
  // The most rows, from 9 on, of a product that cluster_tiles computes rather than direct_tiles or
  // cuBLASLt (TANDEM_CLUSTER_ROWS at construction).
  int64_t most_cluster_rows() const { return most_cluster_rows_; }
  // The least rows of a product that wide_tiles computes rather than cuBLASLt
  // (TANDEM_WIDE_TILES_ROWS at construction).
  int64_t least_wide_rows() const { return least_wide_rows_; }
  // The most rows of a step that ops::decoder_step takes (TANDEM_STEP_KERNEL_ROWS at construction),
  // and what its launches share. REQUIRES: of step_memory(): more than 0.
  int64_t most_step_rows() const { return most_step_rows_; }
  StepMemory& step_memory() { return *step_memory_; }
  int multiprocessors() const { return multiprocessors_; }
  // The most bytes of shared memory of a block.
  size_t shared_limit() const { return shared_limit_; }
  // How many blocks with `shared` bytes run at once, up to `most` on a multiprocessor.
  int64_t blocks_at_once(size_t shared, int most) const;

 private:
  // Nothing is opened yet.
  struct Unopened {};
  CudaBackend(int index, Unopened);
  // Page-locked memory for copies to the device; an event tells when it is free.
  struct Staging {
    void* data = nullptr;
    cudaEvent_t sent = nullptr;
  };
  void add_segment(size_t at_least);
  cudaEvent_t event_of(uint64_t mark) const;
  void check_all(std::chrono::nanoseconds waited) const {
    for (const Check& check : checks_) check(waited);
  }
  // Polls done(), and calls the checks in between.
  void wait_until(const std::function<bool()>& done);
  void wait_for(cudaEvent_t event);

  int index_;
  int capability_ = 0;  // 10 * major + minor
  static constexpr int64_t kAnyRows = std::numeric_limits<int64_t>::max();
  int64_t rows_ = kAnyRows;  // of the step; kAnyRows: nobody said
  int64_t most_dependent_rows_ = 0;
  int most_best_rows_ = 0;
  std::optional<int> most_direct_rows_;
  int64_t most_cluster_rows_ = 0, most_step_rows_ = 0, least_wide_rows_ = kAnyRows;
  int multiprocessors_ = 0;
  size_t cache_bytes_ = 0;  // L2
  size_t shared_limit_ = 0, shared_of_multiprocessor_ = 0, shared_of_system_ = 0;
  std::string product_;
  cudaStream_t stream_ = nullptr;
  std::vector<Staging> staging_;
  size_t next_staging_ = 0;
  std::unique_ptr<UploadRing> uploads_;  // from the first load() to end_loading()
  std::shared_ptr<ScratchArena> arena_ = std::make_shared<ScratchArena>();
  std::vector<void*> segments_;  // of the arena
  size_t scratch_bytes_ = 0;     // theirs
  bool recording_ = false, dropped_ = false;
  size_t nodes_recorded_ = 0;
  using Recording =
      std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, cudaError_t (*)(cudaGraphExec_t)>;
  std::unordered_map<uint64_t, Recording> recordings_;
  std::list<Check> checks_;
  std::array<cudaEvent_t, kMarksKept> marks_{};
  uint64_t num_marks_ = 0;
  // The mark that reached() is asked for, and since when.
  uint64_t asked_for_ = ~uint64_t{0};
  std::chrono::steady_clock::time_point asked_since_;
  std::unique_ptr<GemmCache> gemms_;
  int32_t* ticket_ = nullptr;
  std::unique_ptr<StepMemory> step_memory_;
};

}  // namespace tandem::cuda
