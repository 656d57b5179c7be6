// Writes a random BART of the usual sizes as a checkpoint directory (support/random_bart.h). Speed
// does not depend on the values, so benchmarks need no download.
//
//   make_random_bart --out DIR [--size tiny|base|large] [--seed N]
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>

#include "benchmarks/support/command_line.h"
#include "benchmarks/support/random_bart.h"

using namespace tandem::bench;

int main(int argc, char** argv) {
  CommandLine app("Writes a random BART checkpoint for benchmarks.");
  std::string out, size_name = "base";
  uint64_t seed = 1;
  app.add("--out", out, "Directory to make").required();
  app.add("--size", size_name, "tiny, base or large");
  app.add("--seed", seed, "Seed of the weights");
  if (const auto status = app.parse(argc, argv)) return *status;
  try {
    const int64_t parameters = random_bart::write(out, random_bart::size_of(size_name), seed);
    std::printf("%s: BART %s, %.1f million parameters, seed %llu\n", out.c_str(), size_name.c_str(),
                static_cast<double>(parameters) / 1e6, static_cast<unsigned long long>(seed));
  } catch (const std::exception& error) {
    std::cerr << "make_random_bart: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
