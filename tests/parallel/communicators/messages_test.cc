// Messages from rank to rank, groups within a group, and all the ways in which a message can fail
// to come.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "parallel/communicators/round_communicator.h"
#include "parallel/communicators/shared_memory_communicator.h"
#include "parallel/communicators/shared_memory_layout.h"
#include "parallel/communicators/subgroup.h"
#include "tests/support/ranks/rank_threads.h"

namespace tandem::messages_test {
namespace {

using std::chrono::milliseconds;
using testing::run_ranks;

// What rank `from` sends as its message i.
Tensor message_of(int from, int i, int64_t count) {
  Tensor x({count}, DType::kF32);
  std::mt19937 random(static_cast<unsigned>(from * 1000 + i));
  for (int64_t k = 0; k < count; ++k) x.data<float>()[k] = static_cast<float>(random() % 4096);
  return x;
}

void expect_same(const Tensor& got, const Tensor& want) {
  if (got.bytes() != want.bytes() ||
      (want.bytes() > 0 && std::memcmp(got.raw(), want.raw(), want.bytes()) != 0))
    throw std::runtime_error("wrong bytes");
}

template <class F>
std::string error_of(const F& f) {
  try {
    f();
  } catch (const CommunicatorError& e) {
    return e.what();
  }
  return "";
}

CommunicatorOptions with_timeout(int ms) {
  CommunicatorOptions options;
  options.timeout = milliseconds(ms);
  return options;
}

TEST(Messages, ComeInOrderAndWhole) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const int64_t sizes[] = {0, 1, 17, 255, 256, 257, 511, 5000, 100'003};
  struct Message {
    int from, to;
    int64_t count;
  };
  for (const int ranks : {2, 3, 5}) {
    std::vector<Message> messages;
    for (int i = 0; i < 60; ++i) {
      const int from = static_cast<int>(random() % static_cast<unsigned>(ranks));
      const int by = 1 + static_cast<int>(random() % static_cast<unsigned>(ranks - 1));
      messages.push_back({from, (from + by) % ranks, sizes[random() % std::size(sizes)]});
    }
    CommunicatorOptions options = with_timeout(60'000);
    options.chunk_bytes = 1024;
    // Collectives between them do not get mixed up with them.
    const auto errors = run_ranks(ranks, options, [&](Communicator& comm) {
      for (int i = 0; i < static_cast<int>(messages.size()); ++i) {
        const auto [from, to, count] = messages[static_cast<size_t>(i)];
        if (comm.rank() == from) comm.send(message_of(from, i, count), to);
        if (comm.rank() == to) {
          const Tensor got({count}, DType::kF32);
          comm.receive(got, from);
          expect_same(got, message_of(from, i, count));
        }
        if (i % 7 == 0) comm.barrier();
      }
    });
    for (const std::string& e : errors) EXPECT_EQ(e, "") << ranks << " ranks";
  }
}

TEST(Messages, SoManyPiecesDoNotWaitForTheReceiverOneMoreDoes) {
  auto comms = make_thread_communicators(2, with_timeout(100));
  const Tensor small = message_of(0, 0, 8);
  for (uint32_t i = 0; i < kPiecesBetween; ++i) comms[0]->send(small, 1);
  EXPECT_EQ(error_of([&] { comms[0]->send(small, 1); }),
            "send on rank 0 of 2: timed out after 0.1 s waiting for rank 1");
  const Tensor got({8}, DType::kF32);
  EXPECT_EQ(error_of([&] { comms[1]->receive(got, 0); }),
            "receive on rank 1 of 2: aborted by rank 0");
}

TEST(Messages, ThatNeverComeAreToldWithTheSender) {
  auto comms = make_thread_communicators(3, with_timeout(100));
  const Tensor x({8}, DType::kF32);
  EXPECT_EQ(error_of([&] { comms[1]->receive(x, 2); }),
            "receive on rank 1 of 3: timed out after 0.1 s waiting for rank 2");
  // The group has ended for all.
  EXPECT_EQ(error_of([&] { comms[0]->send(x, 1); }), "send on rank 0 of 3: aborted by rank 1");
  EXPECT_EQ(error_of([&] { comms[2]->barrier(); }), "barrier on rank 2 of 3: aborted by rank 1");
}

TEST(Messages, AbortEndsWhoWaits) {
  auto comms = make_thread_communicators(3);
  std::string error;
  std::thread waiting([&] {
    const Tensor x({8}, DType::kF32);
    error = error_of([&] { comms[1]->receive(x, 0); });
  });
  std::this_thread::sleep_for(milliseconds(20));
  comms[2]->abort();
  waiting.join();
  EXPECT_EQ(error, "receive on rank 1 of 3: aborted by rank 2");
}

TEST(Messages, ARankThatLeavesIsToldAtOnceBehindWhatItSent) {
  const auto errors = run_ranks(2, {}, [&](Communicator& comm) {
    if (comm.rank() == 0) return comm.send(message_of(0, 0, 9), 1);
    std::this_thread::sleep_for(milliseconds(20));
    const Tensor x({9}, DType::kF32);
    comm.receive(x, 0);
    expect_same(x, message_of(0, 0, 9));
    comm.receive(x, 0);
  });
  EXPECT_EQ(errors[0], "");
  EXPECT_EQ(errors[1], "receive on rank 1 of 2: rank 0 has left the group");
}

TEST(Messages, OfAnotherLengthAreToldWithBoth) {
  auto comms = make_thread_communicators(2);
  comms[0]->send(message_of(0, 0, 4), 1);
  const Tensor x({5}, DType::kF32);
  EXPECT_EQ(error_of([&] { comms[1]->receive(x, 0); }),
            "receive on rank 1 of 2: rank 0 sends 16 bytes, this rank expects 20");
}

TEST(Messages, ADeadProcessIsNoticed) {
  const auto region = SharedMemoryRegion::create_shared(2, 4096);
  const pid_t parent = getpid();
  region->join(0);
  const pid_t child = fork();
  if (child == 0) {
    const auto mine = SharedMemoryRegion::open(parent, region->fd(), 2, 4096);
    mine->join(1);
    make_shared_memory_communicator(mine, 1).release()->send(message_of(1, 0, 3000), 0);
    _exit(0);  // without leaving the group
  }
  region->wait_until_all_joined(milliseconds(10'000));
  const auto comm = make_shared_memory_communicator(region, 0);
  const Tensor x({3000}, DType::kF32);
  comm->receive(x, 1);
  expect_same(x, message_of(1, 0, 3000));
  EXPECT_EQ(error_of([&] { comm->receive(x, 1); }),
            "receive on rank 0 of 2: rank 1's process died");
  waitpid(child, nullptr, 0);
}

// --- Groups within a group -----------------------------------------------------------------------

// What every collective gives in a group of `count` ranks with the inputs of ranks [first, ...).
void check_collectives(Communicator& comm, int first) {
  const int count = comm.size(), me = comm.rank();
  for (int i = 0; const int64_t n : {1, 17, 300, 9000, 100'003}) {
    Tensor sum = message_of(first, ++i, n);
    const Tensor all({count * n}, DType::kF32), got({count * n}, DType::kF32);
    for (int r = 0; r < count; ++r) {
      const Tensor part = message_of(first + r, i, n);
      std::memcpy(all.data<float>() + r * n, part.raw(), part.bytes());
      for (int64_t k = 0; r > 0 && k < n; ++k) sum.data<float>()[k] += part.data<float>()[k];
    }
    const Tensor x = message_of(first + me, i, n);
    comm.all_gather(x, got);
    expect_same(got, all);
    comm.all_reduce(x);
    expect_same(x, sum);
    const Tensor same = message_of(first + me, i, n);
    comm.broadcast(same, count - 1);
    expect_same(same, message_of(first + count - 1, i, n));
    const Tensor to_all = message_of(first + me, i, n * count), from_all({n * count}, DType::kF32);
    comm.all_to_all(to_all, from_all);
    for (int r = 0; r < count; ++r) {
      const Tensor theirs = message_of(first + r, i, n * count);
      expect_same(from_all.rows(r * n, (r + 1) * n), theirs.rows(me * n, (me + 1) * n));
    }
    comm.barrier();
  }
}

TEST(Subgroup, DoesWhatAGroupDoes) {
  for (const auto& [ranks, of_each] : {std::pair{4, 2}, {6, 3}, {8, 4}, {3, 1}}) {
    for (const size_t chunk : {size_t{1024}, size_t{1} << 18}) {
      CommunicatorOptions options = with_timeout(60'000);
      options.chunk_bytes = chunk;
      auto comms = make_thread_communicators(ranks, options);
      std::vector<std::string> errors(comms.size());
      std::vector<std::thread> threads;
      for (size_t r = 0; r < comms.size(); ++r)
        threads.emplace_back([&, r, each = of_each] {
          const std::shared_ptr<Communicator> group = std::move(comms[r]);
          const int first = static_cast<int>(r) / each * each;
          errors[r] = error_of([&] {
            const auto comm = make_subgroup(group, first, each);
            ASSERT_EQ(comm->rank(), static_cast<int>(r) - first);
            ASSERT_EQ(comm->size(), each);
            EXPECT_NO_THROW(check_collectives(*comm, first));
            group->barrier();
          });
        });
      for (std::thread& t : threads) t.join();
      for (const std::string& e : errors) EXPECT_EQ(e, "") << ranks << " in groups of " << of_each;
    }
  }
}

TEST(Subgroup, EndsWithTheGroup) {
  auto comms = make_thread_communicators(4);
  std::vector<std::shared_ptr<Communicator>> groups;
  for (auto& comm : comms) groups.push_back(std::move(comm));
  const auto mine = make_subgroup(groups[0], 0, 2), other = make_subgroup(groups[3], 2, 2);
  mine->abort();
  EXPECT_EQ(error_of([&] { other->barrier(); }), "send on rank 3 of 4: aborted by rank 0");
}

}  // namespace
}  // namespace tandem::messages_test
