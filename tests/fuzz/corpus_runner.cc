// Runs a libFuzzer-style harness without libFuzzer (GCC): every file of the corpus directories
// given, then mutations of them by a seeded generator. TANDEM_FUZZ_RUNS and TANDEM_FUZZ_SEED
// override. An input that ends the process is left in the file TANDEM_FUZZ_CRASH ("fuzz_crash").
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/support/sanitized.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;

// What the harness is given now.
const uint8_t* current = nullptr;
size_t current_size = 0;
const char* crash_file = "fuzz_crash";

void run(const Bytes& input) {
  current = input.data();
  current_size = input.size();
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

// (Only calls that a signal handler may make.)
void keep_input(int signal) {
  const int file = ::open(crash_file, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
  if (file >= 0 && ::write(file, current, current_size) >= 0) ::close(file);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

long from_environment(const char* name, long otherwise) {
  const char* value = std::getenv(name);
  return value ? std::atol(value) : otherwise;
}

Bytes mutate(const std::vector<Bytes>& corpus, std::mt19937_64& rng) {
  auto pick = [&](size_t n) { return n ? rng() % n : 0; };
  Bytes input = corpus.empty() ? Bytes(pick(64)) : corpus[pick(corpus.size())];
  for (size_t i = 0, n = 1 + pick(6); i < n; ++i) {
    const size_t at = pick(input.size() + 1);
    switch (pick(6)) {
      case 0:  // flip a bit
        if (at < input.size()) input[at] ^= static_cast<uint8_t>(1u << pick(8));
        break;
      case 1:  // overwrite with an interesting byte
        if (at < input.size()) {
          static constexpr uint8_t kBytes[] = {0,   1,   0x7f, 0x80, 0xff, '"',
                                               '{', '[', '0',  '9',  ' '};
          input[at] = kBytes[pick(std::size(kBytes))];
        }
        break;
      case 2: input.resize(at); break;  // truncate
      case 3:
        input.insert(input.begin() + static_cast<long>(at), static_cast<uint8_t>(rng()));
        break;
      case 4:  // remove a range
        input.erase(input.begin() + static_cast<long>(at),
                    input.begin() + static_cast<long>(std::min(input.size(), at + pick(16))));
        break;
      case 5: {  // splice a piece of another input
        if (corpus.empty()) break;
        const Bytes& other = corpus[pick(corpus.size())];
        const size_t from = pick(other.size()), length = std::min(other.size() - from, pick(32));
        input.insert(input.begin() + static_cast<long>(at), other.begin() + static_cast<long>(from),
                     other.begin() + static_cast<long>(from + length));
        break;
      }
    }
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<Bytes> corpus;
  for (int i = 1; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) continue;
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i]))
      if (entry.is_regular_file()) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const auto& file : files) {
      std::ifstream in(file, std::ios::binary);
      corpus.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    }
  }
  if (const char* file = std::getenv("TANDEM_FUZZ_CRASH")) crash_file = file;
  if (!tandem::testing_support::kSanitized)  // else signals are the sanitizer's
    for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE}) std::signal(signal, keep_input);
  for (const Bytes& input : corpus) run(input);
  const long runs = from_environment("TANDEM_FUZZ_RUNS", 20000);
  const auto seed = static_cast<uint64_t>(from_environment("TANDEM_FUZZ_SEED", 1));
  std::mt19937_64 rng(seed);
  for (long i = 0; i < runs; ++i) {
    run(mutate(corpus, rng));
  }
  std::printf("%zu files, %ld mutations (seed %llu): no crash\n", corpus.size(), runs,
              static_cast<unsigned long long>(seed));
  return 0;
}
