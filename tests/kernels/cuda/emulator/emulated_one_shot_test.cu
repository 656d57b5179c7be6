// Sums over devices that read each other: ranks as threads, each with a device of its own, some of
// which stand for processes; every type and size, many rounds, recorded steps; ranks that are
// missing, and groups that cannot have it.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <barrier>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cuda/collective/one_shot_all_reduce.h"
#include "parallel/communicators/nccl_communicator.h"
#include "tests/kernels/cuda/device_matrix.h"
#include "tests/support/variable.h"

namespace tandem::cuda {
namespace {

using testing::from_type;
using testing::kActivations;
using testing::Random;
using testing::to_type;
using testing::Variable;

// What the host's group does for ranks.
class Meeting {
 public:
  explicit Meeting(int ranks) : parts_(static_cast<size_t>(ranks)), barrier_(ranks) {}
  std::vector<std::byte> exchange(int rank, std::span<const std::byte> mine) {
    parts_[static_cast<size_t>(rank)].assign(mine.begin(), mine.end());
    barrier_.arrive_and_wait();
    std::vector<std::byte> all;
    for (const auto& part : parts_) all.insert(all.end(), part.begin(), part.end());
    barrier_.arrive_and_wait();
    return all;
  }

 private:
  std::vector<std::vector<std::byte>> parts_;
  std::barrier<> barrier_;
};

struct Setting {
  int ranks = 2;
  bool processes = false;  // every rank is one
  bool one_device = false;
  int unwilling = -1;
  int other_host = -1;
  std::chrono::nanoseconds timeout = std::chrono::seconds(60);
};
using Body = std::function<void(int rank, Context& ctx, OneShotAllReduce* group)>;

void with_groups(const Setting& s, const Body& body) {
  const Variable devices("TANDEM_EMULATOR_DEVICES", std::to_string(s.ranks));
  Meeting meeting(s.ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < s.ranks; ++rank)
    threads.emplace_back([&, rank] {
      auto backend = std::make_unique<CudaBackend>(s.one_device ? 0 : rank);
      CudaBackend& cuda = *backend;
      Context ctx(1, std::move(backend), DType::kF32);
      const OneShotAllReduce::Place place{rank == s.other_host ? 8u : 7u,
                                          s.processes ? static_cast<uint64_t>(rank) : 1u};
      const auto group = OneShotAllReduce::make(
          cuda, rank, s.ranks, place, rank != s.unwilling, s.timeout,
          [&](std::span<const std::byte> mine) { return meeting.exchange(rank, mine); });
      body(rank, ctx, group.get());
    });
  for (std::thread& thread : threads) thread.join();
}

// Small integers and quarters: exact in every type.
std::vector<float> part_of(int rank, int64_t n, int64_t round) {
  std::vector<float> out(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i)
    out[static_cast<size_t>(i)] =
        static_cast<float>((i * 7 + round * 5 + rank * 3) % 33) / 4.0f - 4.0f;
  return out;
}
std::vector<float> sum_of(int ranks, int64_t n, int64_t round) {
  std::vector<float> out(static_cast<size_t>(n));
  for (int r = 0; r < ranks; ++r) {
    const std::vector<float> part = part_of(r, n, round);
    for (size_t i = 0; i < out.size(); ++i) out[i] += part[i];
  }
  return out;
}

std::vector<float> values_of(Context& ctx, const Tensor& t) {
  const Tensor here = ctx.on_host(t);
  return from_type({static_cast<const std::byte*>(here.raw()), here.bytes()}, here.dtype());
}

// A tensor of n elements with something on both sides; `offset` elements past an aligned address.
class Placed {
 public:
  Placed(Context& ctx, const std::vector<float>& values, DType dtype, int64_t offset)
      : ctx_(ctx), offset_(offset), size_(static_cast<int64_t>(values.size())) {
    std::vector<float> all(static_cast<size_t>(offset), 9.0f);
    all.insert(all.end(), values.begin(), values.end());
    all.resize(all.size() + 3, 9.0f);
    std::vector<std::byte> bytes = to_type(all, dtype);
    whole_ = testing::to_device(
        ctx, Tensor::borrow(bytes.data(), {static_cast<int64_t>(all.size())}, dtype));
  }
  Tensor tensor() const { return whole_.rows(offset_, offset_ + size_); }
  std::vector<float> values() const {
    std::vector<float> all = values_of(ctx_, whole_);
    for (size_t i = 0; i < all.size(); ++i)
      if (i < static_cast<size_t>(offset_) || i >= static_cast<size_t>(offset_ + size_)) {
        EXPECT_EQ(all[i], 9.0f) << "written beside the tensor";
      }
    return {all.begin() + offset_, all.begin() + offset_ + size_};
  }

 private:
  Context& ctx_;
  int64_t offset_, size_;
  Tensor whole_;
};

TEST(OneShotAllReduce, SumsOfAllTypesAndSizes) {
  for (const int ranks : {2, 3, 8})
    with_groups({.ranks = ranks, .processes = ranks != 2}, [&](int rank, Context& ctx,
                                                               OneShotAllReduce* group) {
      ASSERT_NE(group, nullptr);
      int64_t round = 0;
      for (const DType dtype : kActivations) {
        const auto most = static_cast<int64_t>((ranks <= 4 ? 524288 : 262144) / size_of(dtype));
        for (const int64_t n : {int64_t{1}, int64_t{2}, int64_t{7}, int64_t{255}, int64_t{4099},
                                most / 2 + 1, most - 1, most}) {
          const int64_t offset = round % 4 == 3 ? 1 : 0;
          const Placed x(ctx, part_of(rank, n, round), dtype, offset);
          ASSERT_TRUE(group->takes(x.tensor())) << n;
          group->run(x.tensor());
          ASSERT_TRUE(x.values() == sum_of(ranks, n, round))
              << n << " of " << name_of(dtype) << ", " << ranks << " ranks";
          ++round;
        }
        EXPECT_FALSE(group->takes(ctx.backend().allocate({most + 1}, dtype)));
      }
      EXPECT_FALSE(group->takes(ctx.backend().allocate({4}, DType::kI32)));
      EXPECT_FALSE(group->failed());
    });
}

// Sums that round: in the order of ranks, in f32, on all of them.
TEST(OneShotAllReduce, TheSameBitsEverywhere) {
  for (const DType dtype : kActivations) {
    const int ranks = 4;
    const int64_t n = 1001;
    Random random;
    std::vector<std::vector<float>> parts;
    for (int r = 0; r < ranks; ++r) {
      const Tensor t = random.matrix(1, n);
      const std::vector<float> raw(t.data<float>(), t.data<float>() + n);
      parts.push_back(from_type(to_type(raw, dtype), dtype));
    }
    std::vector<float> want = parts[0];
    for (int r = 1; r < ranks; ++r)
      for (size_t i = 0; i < want.size(); ++i) want[i] += parts[static_cast<size_t>(r)][i];
    want = from_type(to_type(want, dtype), dtype);
    with_groups({.ranks = ranks}, [&](int rank, Context& ctx, OneShotAllReduce* group) {
      ASSERT_NE(group, nullptr);
      const Placed x(ctx, parts[static_cast<size_t>(rank)], dtype, 0);
      group->run(x.tensor());
      EXPECT_TRUE(x.values() == want) << name_of(dtype);
    });
  }
}

// Calls of other sizes on each other's heels, without a wait in between, ranks out of step.
TEST(OneShotAllReduce, ManyRoundsWithDelays) {
  Random seeds;
  const int seed = seeds.integer(0, 1 << 30);
  for (const int ranks : {2, 4})
    with_groups({.ranks = ranks}, [&](int rank, Context& ctx, OneShotAllReduce* group) {
      ASSERT_NE(group, nullptr);
      std::mt19937 same(static_cast<unsigned>(seed)), own(static_cast<unsigned>(seed + rank + 1));
      std::vector<std::unique_ptr<Placed>> tensors;
      std::vector<int64_t> sizes;
      for (int round = 0; round < 150; ++round) {
        const int64_t n = 1 + static_cast<int64_t>(same() % (same() % 4 == 0 ? 30000u : 600u));
        sizes.push_back(n);
        tensors.push_back(
            std::make_unique<Placed>(ctx, part_of(rank, n, round), DType::kBF16, round % 3));
        if (own() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(own() % 800));
        group->run(tensors.back()->tensor());
      }
      for (size_t i = 0; i < sizes.size(); ++i)
        ASSERT_TRUE(tensors[i]->values() == sum_of(ranks, sizes[i], static_cast<int64_t>(i))) << i;
    });
}

TEST(OneShotAllReduce, RecordedStepsCountOn) {
  with_groups({.ranks = 2}, [&](int rank, Context& ctx, OneShotAllReduce* group) {
    ASSERT_NE(group, nullptr);
    const Placed x(ctx, part_of(rank, 5000, 1), DType::kF32, 0),
        y(ctx, part_of(rank, 77, 2), DType::kF16, 0);
    ASSERT_TRUE(ctx.backend().record(1, [&] {
      group->run(x.tensor());
      group->run(y.tensor());
      group->run(x.tensor());
    }));
    std::vector<float> want_x = sum_of(2, 5000, 1), want_y = sum_of(2, 77, 2);
    const auto twice = [](std::vector<float>& values, float by) {
      for (float& v : values) v *= by;
    };
    ctx.backend().replay(1);
    twice(want_x, 2);
    EXPECT_TRUE(x.values() == want_x);
    EXPECT_TRUE(y.values() == want_y);
    group->run(y.tensor());  // between replays
    twice(want_y, 2);
    ctx.backend().replay(1);
    twice(want_x, 4);
    twice(want_y, 2);
    EXPECT_TRUE(x.values() == want_x);
    EXPECT_TRUE(y.values() == want_y);
  });
}

TEST(OneShotAllReduce, AllCanOrNoneDoes) {
  const auto expect_none = [](const Setting& s) {
    std::atomic<int> without{0};
    with_groups(s, [&](int, Context&, OneShotAllReduce* group) { without += group == nullptr; });
    EXPECT_EQ(without, s.ranks);
  };
  expect_none({.ranks = 3, .unwilling = 1});
  expect_none({.ranks = 3, .other_host = 2});
  expect_none({.ranks = 2, .one_device = true});
  expect_none({.ranks = 9});
  const Variable peers("TANDEM_EMULATOR_PEERS", "0");
  expect_none({.ranks = 2});
}

TEST(OneShotAllReduce, AMissingRankEndsWithAnAbort) {
  for (const bool processes : {false, true}) {
    std::atomic<bool> ended{false};
    with_groups({.ranks = 3, .processes = processes},
                [&](int rank, Context& ctx, OneShotAllReduce* group) {
                  ASSERT_NE(group, nullptr);
                  if (rank == 2) {  // is not coming
                    while (!ended) std::this_thread::yield();
                    return;
                  }
                  std::thread other([&] {
                    std::this_thread::sleep_for(std::chrono::milliseconds(20));
                    group->abort();
                  });
                  const Placed x(ctx, part_of(rank, 3000, 0), DType::kF32, 0);
                  group->run(x.tensor());
                  ctx.backend().synchronize();
                  EXPECT_TRUE(group->failed());
                  group->run(x.tensor());  // does not wait any more
                  other.join();
                  if (rank == 0) ended = true;
                });
  }
}

TEST(OneShotAllReduce, AMissingRankEndsWithTheClock) {
  std::atomic<bool> ended{false};
  with_groups({.ranks = 2, .timeout = std::chrono::milliseconds(300)},
              [&](int rank, Context& ctx, OneShotAllReduce* group) {
                ASSERT_NE(group, nullptr);
                if (rank == 1) {
                  while (!ended) std::this_thread::yield();
                  return;
                }
                const Placed x(ctx, part_of(rank, 100, 0), DType::kF32, 0);
                group->run(x.tensor());
                EXPECT_TRUE(group->failed());
                ended = true;
              });
}

// Through the communicator that models use: small sums by the kernel, others by NCCL.
struct Joined {
  Context ctx;
  std::unique_ptr<DeviceCommunicator> comm;
};

void with_communicators(int ranks, double timeout,
                        const std::function<void(int, Context&, DeviceCommunicator&)>& body) {
  const Variable devices("TANDEM_EMULATOR_DEVICES", std::to_string(ranks));
  const std::string id = make_nccl_id();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      Context ctx(1, std::make_unique<CudaBackend>(rank), DType::kF32);
      const auto comm =
          make_nccl_communicator(ctx.backend(), id, rank, ranks, timeout, /*sums=*/true);
      body(rank, ctx, *comm);
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(OneShotAllReduce, BesideNccl) {
  for (const bool wanted : {true, false}) {
    std::optional<Variable> off;
    if (!wanted) off.emplace("TANDEM_ONE_SHOT_ALL_REDUCE", "0");
    with_communicators(2, 60, [&](int rank, Context& ctx, DeviceCommunicator& comm) {
      EXPECT_EQ(comm.transport(), std::string(wanted ? "NCCL, small sums in one step" : "NCCL"));
      for (const int64_t n : {5, 4000, 131072, 6, 131073}) {
        const Placed x(ctx, part_of(rank, n, n), DType::kF32, 0);
        comm.all_reduce(x.tensor());
        EXPECT_TRUE(x.values() == sum_of(2, n, n)) << n;
      }
    });
  }
}

TEST(OneShotAllReduce, TheCommunicatorTellsOfAMissingRank) {
  for (const bool aborted : {true, false}) {
    std::atomic<bool> ended{false};
    with_communicators(2, aborted ? 60 : 0.5,
                       [&](int rank, Context& ctx, DeviceCommunicator& comm) {
                         if (rank == 1) {
                           while (!ended) std::this_thread::yield();
                           return;
                         }
                         std::thread other([&] {
                           std::this_thread::sleep_for(std::chrono::milliseconds(20));
                           if (aborted) comm.abort();
                         });
                         const Placed x(ctx, part_of(rank, 64, 0), DType::kF32, 0);
                         const auto wait = [&] {
                           comm.all_reduce(x.tensor());
                           ctx.backend().synchronize();
                           comm.check(std::chrono::nanoseconds(0));
                         };
                         EXPECT_THROW(wait(), std::runtime_error);
                         EXPECT_THROW(wait(), std::runtime_error);
                         other.join();
                         ended = true;
                       });
  }
}

}  // namespace
}  // namespace tandem::cuda
