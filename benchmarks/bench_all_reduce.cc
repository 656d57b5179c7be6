// Times sums over the GPUs of this host, by NCCL alone and with the one-shot kernel for small ones:
// each rank is a thread, calls are recorded as those of a step are.
//
//   bench_all_reduce [--ranks 2] [--bytes 2048,16384,...] [--calls 20] [--repeat 30]
//
// One line of JSON for each size. Status 77 where there are not enough GPUs.
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "benchmarks/support/command_line.h"
#include "kernels/core/context.h"
#include "kernels/core/plugin.h"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  int ranks = 0;  // 0: a GPU each
  std::vector<int64_t> bytes{2048, 8192, 32768, 65536, 131072, 262144, 524288, 1048576, 4194304};
  int calls = 20, repeat = 30;
};

struct Measured {
  std::string transport;
  std::vector<double> microseconds;  // of a call, for each size
};

// One rank: of every size a recording of some calls, replayed. The fastest repetition counts.
void run_rank(const Options& o, const std::string& id, int rank, std::barrier<>& together,
              Measured& out) {
  Context ctx(1, cuda_plugin()->make_backend(rank), DType::kBF16);
  const auto group = cuda_plugin()->make_communicator(ctx.backend(), id, rank, o.ranks,
                                                      /*timeout_seconds=*/60, /*sums=*/true);
  if (group == nullptr) throw std::runtime_error("the plugin was built without NCCL");
  out.transport = group->transport();
  uint64_t key = 0;
  for (const int64_t bytes : o.bytes) {
    const Tensor x = ctx.backend().allocate({bytes / 2}, DType::kBF16);
    const auto step = [&] {
      for (int i = 0; i < o.calls; ++i) group->all_reduce(x);
    };
    step();
    ctx.backend().synchronize();
    if (!ctx.backend().record(++key, step)) throw std::runtime_error("a step is not recorded");
    double best = 0;
    for (int i = 0; i < o.repeat; ++i) {
      together.arrive_and_wait();
      const auto start = Clock::now();
      ctx.backend().replay(key);
      ctx.backend().synchronize();
      const double time = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
      if (i == 0 || time < best) best = time;
    }
    out.microseconds.push_back(best / o.calls);
  }
  together.arrive_and_wait();  // nobody leaves the group before all are done
}

Measured measure(const Options& o, bool one_shot) {
  setenv("TANDEM_ONE_SHOT_ALL_REDUCE", one_shot ? "1" : "0", 1);
  const std::string id = cuda_plugin()->make_group_id();
  std::barrier together(o.ranks);
  std::vector<Measured> out(static_cast<size_t>(o.ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < o.ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        run_rank(o, id, rank, together, out[static_cast<size_t>(rank)]);
      } catch (const std::exception& e) {
        std::fprintf(stderr, "bench_all_reduce: rank %d: %s\n", rank, e.what());
        std::_Exit(1);  // the others wait for this one
      }
    });
  for (std::thread& thread : threads) thread.join();
  // A sum is over when it is on all ranks.
  for (const Measured& each : out)
    for (size_t i = 0; i < o.bytes.size(); ++i)
      out[0].microseconds[i] = std::max(out[0].microseconds[i], each.microseconds[i]);
  return out[0];
}

int run(Options o) {
  const int devices = cuda_plugin() == nullptr ? 0 : cuda_plugin()->device_count();
  if (o.ranks == 0) o.ranks = std::min(devices, 8);
  if (o.ranks < 2 || devices < o.ranks) {
    std::fprintf(stderr, "nothing was measured: there are %d GPUs\n", devices);
    return 77;
  }
  const Measured nccl = measure(o, false), one_shot = measure(o, true);
  for (size_t i = 0; i < o.bytes.size(); ++i) {
    const nlohmann::json row = {{"ranks", o.ranks},
                                {"bytes", o.bytes[i]},
                                {"nccl_us", nccl.microseconds[i]},
                                {"one_shot_us", one_shot.microseconds[i]},
                                {"transport", one_shot.transport}};
    std::printf("%s\n", json_text(row).c_str());
  }
  return 0;
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  tandem::Options o;
  tandem::bench::CommandLine app(
      "Times sums over the GPUs of this host, by NCCL and with the one-shot kernel.");
  app.add("--ranks", o.ranks, "GPUs; 0: all, up to 8").range(0, 64);
  app.add("--bytes", o.bytes, "sizes").list().range(2, 1 << 30);
  app.add("--calls", o.calls, "in a recorded step").range(1, 10000);
  app.add("--repeat", o.repeat, "replays; the fastest counts").range(1, 10000);
  if (const auto status = app.parse(argc, argv)) return *status;
  try {
    return tandem::run(o);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_all_reduce: %s\n", e.what());
    return 1;
  }
}
