// What this machine can do at this moment, as one JSON object: operations a second of its product
// instructions in each type, and bytes a second of buffers of given sizes.
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/support/product_probes.h"

int main(int argc, char** argv) {
  using namespace tandem;
  CLI::App app{"Prints what this machine can do at this moment, as one JSON object."};
  int threads = 2, tries = 5;
  std::vector<int64_t> megabytes = {256};
  app.add_option("--threads", threads, "Threads that compute at a time")->capture_default_str();
  app.add_option("--tries", tries, "The best of so many counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--megabytes", megabytes, "Sizes of buffers to read, comma-separated")
      ->delimiter(',')
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  Context ctx(threads);
  nlohmann::ordered_json out = {{"isa", name_of(cpu_isa())}, {"threads", ctx.threads()}};
  const auto in_thousand_millions = [](double rate) { return std::round(rate * 1e-7) / 100; };
  for (const auto& [name, type] :
       {std::pair{"float32", DType::kF32}, {"bfloat16", DType::kBF16}, {"int8", DType::kI8}})
    out["gflops"][name] = in_thousand_millions(bench::product_rate(ctx, type, tries));
  for (const int64_t size : megabytes)
    out["gbytes"][std::to_string(size)] =
        in_thousand_millions(bench::read_rate(ctx, size << 20, tries));
  std::printf("%s\n", out.dump().c_str());
}
