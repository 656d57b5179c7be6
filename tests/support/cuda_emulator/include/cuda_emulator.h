// Runs CUDA kernels thread by thread on the CPU, so that tests compare them with references on
// machines without a GPU. The .cu files are compiled by g++ with this folder's headers in front
// (tandem_emulated_cuda in CMakeLists.txt).
//
// Every thread of a block is a fiber of the OS thread that launches. Blocks run one after another;
// their order, and which fiber goes next, are shuffled by TANDEM_EMULATOR_SEED, so that missing
// barriers show. Shared memory holds 0xFF (NaN) when a block starts. A kernel that can never go on
// ends the process, with the place of each thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <typeinfo>
#include <utility>

#include "vector_types.h"

struct CUstream_st;
using cudaStream_t = CUstream_st*;

#define __host__
#define __device__
#define __global__
#define __constant__
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))
// One for all fibers of the OS thread. The tag marks its symbol for the poison (shared_memory.cc).
#define __shared__ static thread_local __attribute__((abi_tag("cuda_shared")))

// Of the thread that runs: written by the scheduler only.
inline constinit thread_local uint3 threadIdx{0, 0, 0};
inline constinit thread_local uint3 blockIdx{0, 0, 0};
inline constinit thread_local dim3 blockDim{1, 1, 1};
inline constinit thread_local dim3 gridDim{1, 1, 1};
constexpr int warpSize = 32;

namespace cuda_emulator {

constexpr unsigned kWarp = 32;

struct Kernel {
  dim3 grid, block;
  unsigned cluster = 1;      // blocks side by side in x that read each other's shared memory
  bool cooperative = false;  // all blocks run at the same time
  size_t shared = 0;
  const char* type = "";  // of the closure, mangled: names the function that launches
  std::function<void()> thread;
};

// Queues on the stream; a wrong configuration is left in cudaGetLastError.
void launch_kernel(Kernel kernel, cudaStream_t stream);
// Runs now, in this OS thread.
void run_kernel(const Kernel& kernel);

// The arguments are evaluated and copied when the kernel is launched, as on hardware.
template <class F, class... Args>
void launch(dim3 grid, dim3 block, unsigned cluster, bool cooperative, size_t shared,
            cudaStream_t stream, F kernel, Args... args) {
  launch_kernel(
      {grid, block, cluster, cooperative, shared, typeid(F).name(), [=] { kernel(args...); }},
      stream);
}

// What kernels begin with; a thread that meets others before, or ends without, ends the process.
void wait_for_earlier_kernels();

// What a run starts from: TANDEM_EMULATOR_SEED, 1 by default, until a test sets another one.
void set_seed(uint64_t seed);

// --- what kernels call; outside of a kernel they end the process ---

// The dynamic shared memory, 128-byte aligned.
unsigned char* dynamic_shared();

// Waits for all threads of the block that have not ended; gives the sum, `and` and `or` of all
// values. `name` stands in messages; threads that meet at one barrier come by the same name.
struct BlockVotes {
  int count, all, any;
};
BlockVotes block_barrier(const char* name, int value);

// The lanes of a warp that meet: data[lane] is null for lanes that do not take part.
struct WarpMeeting {
  unsigned mask;  // of those that take part
  void* data[kWarp];
};
// Waits for all lanes of `mask` that have not ended; then `act` runs once for all of them, and all
// go on.
void warp_meet(const char* name, unsigned mask, void* data, void (*act)(WarpMeeting&));

unsigned lane();
// Lets others run, always or at random times: where threads see each other's writes.
void yield();
void maybe_yield();
// For a thread that waits for another device: lets others run, of other OS threads too.
void spin();

// To page-locked memory: there when something waits for what the stream has done so far.
void store_late(int32_t* at, int32_t value);

// Copies that have been issued and not awaited (cp.async), of the thread that runs.
void async_copy(void* to, const void* from, size_t size, bool zero);
void async_commit();
void async_wait(unsigned groups_left);

// Of blocks that wait for each other (grid.h): whether the word, which grows, is the value at
// least; adds to it.
bool grid_reached(uint32_t* at, uint32_t value);
void grid_add(uint32_t* at, uint32_t value);

// Waits for all threads of all blocks of the cluster (cluster.h).
void cluster_barrier();
// Where `own`, a place in the dynamic shared memory, is in block `rank` of the cluster. Good until
// the next cluster_barrier(), which that block must come to.
const void* in_block_of_cluster(const void* own, size_t bytes, unsigned rank);

// Barriers in shared memory count arrivals and bytes (mbarrier), and copies bring the bytes
// (cp.async.bulk). bulk_copies.h lists their mistakes.
void make_copy_barrier(const uint64_t* at, unsigned arrivals);
void copy_barriers_made();
void arrive_at_copies(const uint64_t* at, uint64_t bytes);
void wait_for_copies(const uint64_t* at, unsigned parity);
void bulk_copy(void* to, const void* from, size_t bytes, const uint64_t* at);

// A matrix of 16-bit elements, of which boxes of 64 columns come as tiles, their rows swizzled by
// 128 bytes, with zeros outside of the matrix (cp.async.bulk.tensor).
struct TensorMatrix {
  const unsigned char* first;
  int64_t rows, columns, pitch;
  int box_rows;
};
void tensor_copy(void* tile, const TensorMatrix& matrix, int row, int column, const uint64_t* at);

// The address of a place in the dynamic shared memory, as instructions have it.
size_t shared_address(const void* at);

// Products of warp groups (wgmma; warp_groups.h lists their mistakes): sums, which are columns / 2,
// descriptors of the tiles.
struct GroupProduct {
  float* sums;
  uint64_t a, b;
  bool add, bf16;
  int columns;
  bool is_same(const GroupProduct& o) const {
    return a == o.a && b == o.b && add == o.add && bf16 == o.bf16 && columns == o.columns;
  }
};
void group_fence();
void group_multiply(GroupProduct product);
void group_commit();
void group_wait(unsigned left);
// What the thread has stored in shared memory is there for products (fence.proxy.async).
void stores_before_async();

// Says where it is (kernel, block, thread) and aborts.
[[noreturn]] void fail(const char* what);

}  // namespace cuda_emulator
