// What `tandem bench` asks for: random prompts, or those of files.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "launcher/bench/api.h"
#include "launcher/cli.h"

namespace tandem::bench {

struct Dataset {
  std::string path;
  int input_len = 256, output_len = 64;
  double range_ratio = 0;  // lengths vary by ± this share
  int vocabulary = 1000;
  double audio_seconds = 10;
  int num_prompts = 100;
  uint64_t seed = 0;

  void add(CLI::App& app);  // all but the next three
  void add_num_prompts(CLI::App& app);
  void add_seed(CLI::App& app);
  void add_audio(CLI::App& app);
  // num_prompts of them. Throws InputError (--dataset-path).
  std::vector<Item> items(Api api, std::mt19937_64& random) const;

 private:
  int vary(int length, std::mt19937_64& random) const;
};

}  // namespace tandem::bench
