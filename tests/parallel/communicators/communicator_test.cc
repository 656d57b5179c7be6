// Groups of threads against a model of what collectives do, and all the ways in which a collective
// can fail to end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "parallel/communicators/shared_memory_communicator.h"
#include "parallel/communicators/shared_memory_layout.h"
#include "tests/support/ranks/rank_threads.h"

namespace tandem {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using testing::run_ranks;

uint64_t test_seed() {
  const char* given = std::getenv("TANDEM_SEED");
  return given ? std::strtoull(given, nullptr, 10) : 11;
}

// Rank r's input of call i; every rank can compute everybody's.
std::vector<float> input_of(uint64_t seed, int call, int rank, size_t count) {
  std::mt19937_64 rng(seed + static_cast<uint64_t>(call) * 1000 + static_cast<uint64_t>(rank));
  std::uniform_real_distribution<float> uniform(-1e3f, 1e3f);
  std::vector<float> out(count);
  for (float& x : out) x = uniform(rng);
  return out;
}

Tensor tensor_of(const std::vector<float>& values) {
  Tensor t({static_cast<int64_t>(values.size())}, DType::kF32);
  if (!values.empty()) std::memcpy(t.raw(), values.data(), values.size() * sizeof(float));
  return t;
}

struct Call {
  enum Kind { kReduce, kGather, kToAll, kBroadcast, kBarrier } kind;
  size_t count;
  int root;
};

std::vector<Call> random_calls(uint64_t seed, int ranks, int calls) {
  std::mt19937_64 rng(seed);
  // Elements; chunks of the tests have 256 to 40,000 floats.
  const size_t sizes[] = {0, 1, 2, 15, 16, 17, 63, 64, 1000, 8191, 8193, 30001, 100003};
  std::vector<Call> out;
  for (int i = 0; i < calls; ++i)
    out.push_back({static_cast<Call::Kind>(rng() % 5), sizes[rng() % std::size(sizes)],
                   static_cast<int>(rng() % static_cast<uint64_t>(ranks))});
  return out;
}

std::vector<float> expected_of(const Call& call, uint64_t seed, int i, int rank, int ranks) {
  if (call.kind == Call::kBroadcast) return input_of(seed, i, call.root, call.count);
  if (call.kind == Call::kToAll) {
    std::vector<float> out;
    for (int r = 0; r < ranks; ++r) {
      const auto x = input_of(seed, i, r, call.count * static_cast<size_t>(ranks));
      const auto part = x.begin() + static_cast<long>(call.count) * rank;
      out.insert(out.end(), part, part + static_cast<long>(call.count));
    }
    return out;
  }
  std::vector<float> out = input_of(seed, i, 0, call.count);
  for (int r = 1; r < ranks; ++r) {
    const auto part = input_of(seed, i, r, call.count);
    if (call.kind == Call::kGather) {
      out.insert(out.end(), part.begin(), part.end());
    } else {
      for (size_t k = 0; k < out.size(); ++k) out[k] += part[k];
    }
  }
  return out;
}

Tensor run_call(Communicator& comm, const Call& call, uint64_t seed, int i) {
  const size_t parts = call.kind == Call::kToAll ? static_cast<size_t>(comm.size()) : 1;
  const Tensor x = tensor_of(input_of(seed, i, comm.rank(), call.count * parts));
  if (call.kind == Call::kReduce) comm.all_reduce(x);
  if (call.kind == Call::kBroadcast) comm.broadcast(x, call.root);
  if (call.kind != Call::kGather && call.kind != Call::kToAll) return x;
  Tensor out({call.kind == Call::kGather ? comm.size() * x.dim(0) : x.dim(0)}, DType::kF32);
  call.kind == Call::kGather ? comm.all_gather(x, out) : comm.all_to_all(x, out);
  return out;
}

class Group : public ::testing::TestWithParam<int> {};

TEST_P(Group, DoesWhatTheModelDoesBitForBitOnEveryRank) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE("TANDEM_SEED=" + std::to_string(seed));
  const int ranks = GetParam();
  for (const size_t chunk : {size_t{1024}, size_t{4000}, size_t{160'000}}) {
    CommunicatorOptions options;
    options.chunk_bytes = chunk;
    const auto calls = random_calls(seed + chunk, ranks, chunk == 1024 ? 24 : 60);
    std::atomic<int> wrong{0};
    const auto errors = run_ranks(ranks, options, [&](Communicator& comm) {
      for (int i = 0; i < static_cast<int>(calls.size()); ++i) {
        const Call& call = calls[static_cast<size_t>(i)];
        if (call.kind == Call::kBarrier) {
          comm.barrier();
          continue;
        }
        const Tensor got = run_call(comm, call, seed, i);
        const auto want = expected_of(call, seed, i, comm.rank(), ranks);
        const size_t bytes = want.size() * sizeof(float);
        if (got.bytes() != bytes || (bytes && std::memcmp(got.raw(), want.data(), bytes) != 0))
          ++wrong;
      }
    });
    for (const auto& e : errors) EXPECT_EQ(e, "");
    EXPECT_EQ(wrong, 0) << "chunks of " << chunk;
  }
}

TEST_P(Group, GathersOtherTypesAndInPlace) {
  const int ranks = GetParam();
  const auto errors = run_ranks(ranks, {}, [&](Communicator& comm) {
    Tensor ids({3}, DType::kI32), all({3 * ranks}, DType::kI32);
    for (int i = 0; i < 3; ++i) ids.data<int32_t>()[i] = 10 * comm.rank() + i;
    comm.all_gather(ids, all);
    Tensor bytes({int64_t{ranks}}, DType::kU8);
    bytes.data<uint8_t>()[comm.rank()] = static_cast<uint8_t>(comm.rank() + 1);
    comm.all_gather(bytes.rows(comm.rank(), comm.rank() + 1), bytes);
    for (int r = 0; r < ranks; ++r) {
      if (all.data<int32_t>()[3 * r + 2] != 10 * r + 2) throw std::runtime_error("ids");
      if (bytes.data<uint8_t>()[r] != r + 1) throw std::runtime_error("bytes");
    }
  });
  for (const auto& e : errors) EXPECT_EQ(e, "");
}

TEST(Communicator, CountsCallsBytesAndTime) {
  const auto errors = run_ranks(2, {}, [](Communicator& comm) {
    Tensor x = Tensor::zeros({100}, DType::kF32);
    comm.all_reduce(x);
    comm.barrier();
    const CommunicatorStats stats = comm.stats();
    if (stats.calls != 2 || stats.bytes != 400) throw std::runtime_error("wrong counts");
    if (stats.time <= std::chrono::nanoseconds(0)) throw std::runtime_error("no time");
  });
  for (const auto& e : errors) EXPECT_EQ(e, "");
}

// After a barrier every rank sees what every other did before it.
TEST_P(Group, BarrierHoldsUntilAllAreThere) {
  const int ranks = GetParam();
  std::atomic<int> arrived{0};
  const auto errors = run_ranks(ranks, {}, [&](Communicator& comm) {
    for (int round = 1; round <= 50; ++round) {
      ++arrived;
      comm.barrier();
      if (arrived < round * ranks) throw std::runtime_error("passed a barrier alone");
      comm.barrier();
    }
  });
  for (const auto& e : errors) EXPECT_EQ(e, "");
}

INSTANTIATE_TEST_SUITE_P(Ranks, Group, ::testing::Range(1, 7));

// --- Calls that cannot end -----------------------------------------------------------------------

TEST(Communicator, AbortEndsBlockedAndLaterCallsOnAllRanks) {
  auto comms = make_thread_communicators(3);
  std::vector<std::string> errors(3);
  std::vector<std::thread> threads;
  std::atomic<int> ready{0};
  for (size_t r : {size_t{0}, size_t{1}})
    threads.emplace_back([&, r] {
      Tensor x = Tensor::zeros({8}, DType::kF32);
      try {
        ++ready;
        comms[r]->all_reduce(x);
      } catch (const CommunicatorError& e) {
        errors[r] = e.what();
      }
    });
  while (ready < 2) std::this_thread::yield();
  std::this_thread::sleep_for(milliseconds(20));
  comms[2]->abort();  // not from the thread of a rank
  for (auto& t : threads) t.join();
  for (size_t r : {size_t{0}, size_t{1}}) {
    EXPECT_EQ(errors[r], "all_reduce on rank " + std::to_string(r) + " of 3: aborted by rank 2");
  }
  Tensor nothing({0}, DType::kF32);
  for (auto& comm : comms) {
    EXPECT_THROW(comm->barrier(), CommunicatorError);
    EXPECT_THROW(comm->all_reduce(nothing), CommunicatorError);
  }
}

TEST(Communicator, RankThatNeverComesIsNamedAndTheGroupEnds) {
  CommunicatorOptions options;
  options.timeout = milliseconds(300);
  auto comms = make_thread_communicators(3, options);
  std::string error;
  std::thread other([&] {
    try {
      comms[1]->barrier();
    } catch (const CommunicatorError& e) {
      error = e.what();
    }
  });
  other.join();
  EXPECT_EQ(error, "barrier on rank 1 of 3: timed out after 0.3 s waiting for rank 0");
  // Those who come late do not wait in vain.
  EXPECT_THROW(comms[0]->barrier(), CommunicatorError);
  EXPECT_THROW(comms[2]->barrier(), CommunicatorError);
}

TEST(Communicator, RankThatLeavesFailsTheOthersAtOnce) {
  const auto errors = run_ranks(3, {}, [&](Communicator& comm) {
    comm.barrier();
    if (comm.rank() == 1) throw std::runtime_error("enough");
    comm.barrier();
  });
  EXPECT_EQ(errors[1], "enough");
  for (size_t r : {size_t{0}, size_t{2}}) {
    // Who hears it first aborts the group.
    const bool told = errors[r].find("rank 1 has left the group") != std::string::npos ||
                      errors[r].find("aborted by rank") != std::string::npos;
    EXPECT_TRUE(told) << errors[r];
  }
}

TEST(Communicator, LeavingAfterTheLastCallHarmsNobody) {
  for (int i = 0; i < 200; ++i) {
    const auto errors = run_ranks(4, {}, [](Communicator& comm) { comm.barrier(); });
    for (const auto& e : errors) ASSERT_EQ(e, "");
  }
}

TEST(Communicator, RanksThatMakeDifferentCallsAreTold) {
  const auto errors = run_ranks(2, {}, [&](Communicator& comm) {
    Tensor x = Tensor::zeros({comm.rank() == 0 ? 4 : 5}, DType::kF32);
    comm.all_reduce(x);
  });
  const std::string both = errors[0] + "; " + errors[1];
  EXPECT_FALSE(errors[0].empty() || errors[1].empty());
  EXPECT_NE(both.find("is in all_reduce of "), std::string::npos) << both;
}

// --- Processes -----------------------------------------------------------------------------------

// Runs body in a child process, which ends without any destructor.
template <class Body>
pid_t in_child(Body&& body) {
  const pid_t pid = fork();
  if (pid == 0) {
    int status = 1;
    try {
      status = body();
    } catch (const std::exception& e) {
      const std::string text = std::string(e.what()) + "\n";
      (void)!write(2, text.data(), text.size());
    }
    _exit(status);
  }
  return pid;
}
int status_of(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
void wait_until_joined(const SharedMemoryRegion& region, int rank) {
  while (region.rank(rank).state.load() == detail::kAbsent)
    std::this_thread::sleep_for(milliseconds(1));
}

TEST(SharedMemoryRegion, TwoProcessesReduce) {
  const auto region = SharedMemoryRegion::create_shared(2, 4096);
  const pid_t parent = getpid();
  region->join(0);
  const pid_t child = in_child([&] {
    const auto mine = SharedMemoryRegion::open(parent, region->fd(), 2, 4096);
    mine->join(1);
    const auto comm = make_shared_memory_communicator(mine, 1);
    Tensor x = tensor_of(input_of(1, 0, 1, 5000));
    comm->all_reduce(x);
    return x.data<float>()[4999] == input_of(1, 0, 0, 5000)[4999] + input_of(1, 0, 1, 5000)[4999]
               ? 0
               : 2;
  });
  wait_until_joined(*region, 1);
  region->close_fd();
  const auto comm = make_shared_memory_communicator(region, 0);
  Tensor x = tensor_of(input_of(1, 0, 0, 5000));
  comm->all_reduce(x);
  EXPECT_EQ(x.data<float>()[17], input_of(1, 0, 0, 5000)[17] + input_of(1, 0, 1, 5000)[17]);
  EXPECT_EQ(status_of(child), 0);
}

TEST(SharedMemoryRegion, DeathOfAProcessIsNoticedBeforeItIsReaped) {
  const auto region = SharedMemoryRegion::create_shared(2, 4096);
  const pid_t parent = getpid();
  region->join(0);
  const pid_t child = in_child([&] {
    const auto mine = SharedMemoryRegion::open(parent, region->fd(), 2, 4096);
    mine->join(1);
    const auto comm = make_shared_memory_communicator(mine, 1);
    comm->barrier();
    _exit(0);  // without leaving the group
    return 0;
  });
  wait_until_joined(*region, 1);
  const auto comm = make_shared_memory_communicator(region, 0);
  comm->barrier();
  std::string error;
  try {
    comm->barrier();
  } catch (const CommunicatorError& e) {
    error = e.what();
  }
  EXPECT_EQ(error, "barrier on rank 0 of 2: rank 1's process died");
  EXPECT_EQ(status_of(child), 0);
}

std::string open_error(int fd, int ranks, size_t chunk) {
  try {
    SharedMemoryRegion::open(getpid(), fd, ranks, chunk);
  } catch (const CommunicatorError& e) {
    return e.what();
  }
  return "";
}

TEST(SharedMemoryRegion, WhatIsNotTheRegionIsAnError) {
  const auto region = SharedMemoryRegion::create_shared(3, 4096);
  EXPECT_EQ(open_error(region->fd(), 3, 4096), "");
  EXPECT_THAT(open_error(region->fd(), 2, 4096), HasSubstr("a region of 2 ranks has"));
  EXPECT_THAT(open_error(region->fd(), 3, 8192), HasSubstr("bytes, a region of"));
  EXPECT_THAT(open_error(9999, 3, 4096), HasSubstr("No such file"));
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_THAT(open_error(ends[0], 3, 4096), HasSubstr("has 0 bytes"));
  close(ends[0]);
  close(ends[1]);
}

// Of the right size, and otherwise wrong.
TEST(SharedMemoryRegion, HeaderIsChecked) {
  const auto region = SharedMemoryRegion::create_shared(3, 4096);
  detail::RegionHeader& header = region->header();
  const auto fd = region->fd();
  header.magic ^= 1;
  EXPECT_THAT(open_error(fd, 3, 4096), HasSubstr("magic is"));
  header.magic ^= 1;
  header.version = 77;
  EXPECT_THAT(open_error(fd, 3, 4096), HasSubstr("version is 77, expected 3"));
  header.version = detail::kRegionVersion;
  header.ranks = 4;
  EXPECT_THAT(open_error(fd, 3, 4096), HasSubstr("number of ranks is 4, expected 3"));

  struct stat info {};
  ASSERT_EQ(fstat(fd, &info), 0);
  const int unsealed = memfd_create("x", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(unsealed, info.st_size), 0);
  EXPECT_THAT(open_error(unsealed, 3, 4096), HasSubstr("not a memfd of fixed size"));
  close(unsealed);
}

TEST(SharedMemoryRegion, CommunicatorNeedsAllRanks) {
  const auto region = SharedMemoryRegion::create_private(2, 64);
  region->join(0);
  EXPECT_THROW(make_shared_memory_communicator(region, 0), CommunicatorError);
}

}  // namespace
}  // namespace tandem
