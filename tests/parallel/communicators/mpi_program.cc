// Run by ctest as `mpirun -n N CASE`: groups of processes over both transports. Rank 0 prints
// "every rank passed CASE" when that is so; what is wrong goes to standard error. (No exit status:
// a job whose MPI group was aborted ends without MPI_Finalize, which mpirun calls a failure.)
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <iostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "parallel/communicators/mpi_session.h"
#include "parallel/communicators/subgroup.h"

namespace tandem {
namespace {

using std::chrono::milliseconds;

void expect(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

std::string error_of(const std::function<void()>& statement) {
  try {
    statement();
  } catch (const CommunicatorError& e) {
    return e.what();
  }
  throw std::runtime_error("no CommunicatorError");
}

Tensor input_of(int call, int rank, int64_t count) {
  std::mt19937 rng(static_cast<unsigned>(call * 100 + rank));
  std::uniform_real_distribution<float> uniform(-1e3f, 1e3f);
  Tensor x({count}, DType::kF32);
  for (int64_t i = 0; i < count; ++i) x.data<float>()[i] = uniform(rng);
  return x;
}

bool equal(const Tensor& a, const Tensor& b) {
  return a.bytes() == b.bytes() && (a.bytes() == 0 || !std::memcmp(a.raw(), b.raw(), a.bytes()));
}

void check_collectives(Communicator& comm) {
  const int ranks = comm.size();
  int call = 0;
  for (const int64_t count : {0, 1, 15, 1000, 8193, 70001}) {
    Tensor sum = input_of(++call, 0, count), all({ranks * count}, DType::kF32);
    if (count > 0) std::memcpy(all.raw(), sum.raw(), sum.bytes());
    for (int r = 1; r < ranks; ++r) {
      const Tensor part = input_of(call, r, count);
      for (int64_t i = 0; i < count; ++i) {
        sum.data<float>()[i] += part.data<float>()[i];
        all.data<float>()[r * count + i] = part.data<float>()[i];
      }
    }
    Tensor x = input_of(call, comm.rank(), count), gathered({ranks * count}, DType::kF32);
    comm.all_gather(x, gathered);
    expect(equal(gathered, all), "all_gather of " + std::to_string(count));
    Tensor sent({ranks * count}, DType::kF32), received({ranks * count}, DType::kF32);
    for (int64_t i = 0; i < ranks * count; ++i)
      sent.data<float>()[i] =
          static_cast<float>(comm.rank()) + 0.5f * static_cast<float>(i / count);
    comm.all_to_all(sent, received);
    for (int64_t i = 0; i < ranks * count; ++i)
      expect(received.data<float>()[i] ==
                 static_cast<float>(i / count) + 0.5f * static_cast<float>(comm.rank()),
             "all_to_all of " + std::to_string(count));
    comm.all_reduce(x);
    expect(equal(x, sum), "all_reduce of " + std::to_string(count));
    for (int root = 0; root < ranks; ++root) {
      Tensor y = input_of(call, comm.rank(), count);
      comm.broadcast(y, root);
      expect(equal(y, input_of(call, root, count)), "broadcast of " + std::to_string(count));
    }
    comm.barrier();
  }
}

// Round and round: two small ones under way at once, large ones in turn. Then within a group of
// two.
void check_messages(const std::shared_ptr<Communicator>& comm) {
  const int ranks = comm->size(), me = comm->rank();
  const int to = (me + 1) % ranks, from = (me + ranks - 1) % ranks;
  const auto receive = [&](int i, int64_t count) {
    const Tensor x({count}, DType::kF32);
    comm->receive(x, from);
    expect(equal(x, input_of(i, from, count)), "message of " + std::to_string(count));
  };
  for (const int64_t count : {0, 1, 1000}) {
    for (const int i : {0, 1}) comm->send(input_of(i, me, count), to);
    for (const int i : {0, 1}) receive(i, count);
  }
  if (me > 0) receive(2, 70001);
  comm->send(input_of(2, me, 70001), to);
  if (me == 0) receive(2, 70001);
  if (me < 2) {
    const auto pair = make_subgroup(comm, 0, 2);
    check_collectives(*pair);
  }
  comm->barrier();
}

// Rank 0 aborts while the others wait; afterwards nothing works any more, anywhere.
void check_abort(Communicator& comm) {
  comm.barrier();
  if (comm.rank() == 0) {
    std::this_thread::sleep_for(milliseconds(50));
    comm.abort();
  } else {
    const std::string error = error_of([&] { comm.barrier(); });
    // A peer that saw it first may have passed it on.
    expect(error.find("aborted by rank ") != std::string::npos, error);
  }
  error_of([&] { comm.barrier(); });
}

void check_late_rank(Communicator& comm) {
  comm.barrier();
  if (comm.rank() == 1) {
    std::this_thread::sleep_for(milliseconds(1500));
    return;
  }
  const std::string error = error_of([&] { comm.barrier(); });
  expect(error.find("timed out after 0.5 s waiting for ") != std::string::npos ||
             error.find("aborted by rank ") != std::string::npos,
         error);
}

void check_session(MpiSession& session) {
  for (const size_t size : {size_t{0}, size_t{5}, size_t{9} << 20}) {
    std::string bytes = session.rank() == 1 ? std::string(size, 'x') : "mine";
    session.broadcast(bytes, 1);
    expect(bytes == std::string(size, 'x'), "broadcast of bytes");
  }
  std::string huge(session.rank() == 0 ? MpiSession::kMaxBroadcastBytes + 1 : 0, 'y');
  error_of([&] { session.broadcast(huge, 0); });
  session.barrier();
}

void check_case(MpiSession& session, const std::string& what) {
  expect(session.size() > 1, "one rank only");
  check_session(session);
  CommunicatorOptions options;
  options.chunk_bytes = 60'000;
  const bool shared = what.find("shared") != std::string::npos;
  if (shared) options.transport = CommunicatorOptions::Transport::kSharedMemory;
  if (!shared) options.transport = CommunicatorOptions::Transport::kMpi;
  const std::shared_ptr<Communicator> comm = session.make_communicator(options);
  expect(comm->transport() == std::string(shared ? "shared memory" : "MPI"), comm->transport());
  check_collectives(*comm);
  check_messages(comm);
  if (what.find("abort") != std::string::npos) check_abort(*comm);
  if (what.find("late") != std::string::npos) {
    options.timeout = milliseconds(500);
    check_late_rank(*session.make_communicator(options));
  }
}

// Of groups of two, the first one's second rank does not come: the first gives up in time, although
// MPI's own call would wait. MPI cannot be left in order after that.
[[noreturn]] void run_late_group() {
  using Clock = std::chrono::steady_clock;
  MpiSession session(milliseconds(4000));
  expect(session.size() == 4, "four ranks");
  session.barrier();
  if (session.rank() != 0) {
    if (session.rank() >= 2) session.make_communicator({}, 2)->barrier();
    std::this_thread::sleep_for(std::chrono::seconds(30));  // mpirun ends it sooner
    std::_Exit(1);
  }
  const auto start = Clock::now();
  const std::string error = error_of([&] { session.make_communicator({}, 2); });
  expect(error.find("MPI_Comm_create_group") != std::string::npos &&
             error.find("timed out after 4 s") != std::string::npos,
         error);
  expect(Clock::now() - start < std::chrono::seconds(20), "in time");
  std::cout << "every rank passed group-late" << std::endl;
  std::_Exit(0);
}

void run(const std::string& what) {
  expect(MpiSession::launched_by_mpi(), "launched_by_mpi");
  if (what == "group-late") run_late_group();
  MpiSession session(std::chrono::minutes(1));
  try {
    check_case(session, what);
  } catch (...) {
    session.abandon();
    throw;
  }
  session.barrier();  // every rank has come here
  if (session.rank() == 0) std::cout << "every rank passed " << what << std::endl;
  session.barrier();
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  try {
    tandem::run(argc > 1 ? argv[1] : "");
    return 0;
  } catch (const std::exception& e) {
    std::cerr << "mpi_program " << (argc > 1 ? argv[1] : "") << ": " << e.what() << std::endl;
    return 1;
  }
}
