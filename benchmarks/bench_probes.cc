// What this machine can do at this moment, as one JSON object: operations a second of its product
// instructions in each type, and bytes a second of buffers of given sizes.
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "benchmarks/support/command_line.h"
#include "benchmarks/support/product_probes.h"

int main(int argc, char** argv) {
  using namespace tandem;
  bench::CommandLine app{"Prints what this machine can do at this moment, as one JSON object."};
  int threads = 2, tries = 5;
  std::vector<int64_t> megabytes = {256};
  app.add("--threads", threads, "Threads that compute at a time");
  app.add("--tries", tries, "The best of so many counts").range(1, 1000);
  app.add("--megabytes", megabytes, "Sizes of buffers to read, comma-separated")
      .list()
      .range(1, 65536);
  if (const auto status = app.parse(argc, argv)) return *status;
  Context ctx(threads);
  nlohmann::ordered_json out = {{"isa", name_of(cpu_isa())}, {"threads", ctx.threads()}};
  const auto in_thousand_millions = [](double rate) { return std::round(rate * 1e-7) / 100; };
  for (const auto& [name, type] :
       {std::pair{"float32", DType::kF32}, {"bfloat16", DType::kBF16}, {"int8", DType::kI8}})
    out["gflops"][name] = in_thousand_millions(bench::product_rate(ctx, type, tries));
  for (const int64_t size : megabytes)
    out["gbytes"][std::to_string(size)] =
        in_thousand_millions(bench::read_rate(ctx, size << 20, tries));
  std::printf("%s\n", json_text(out).c_str());
}
