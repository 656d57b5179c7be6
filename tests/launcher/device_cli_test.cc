// --device as users meet it: what is missing is said, a CPU works with the plugin beside it, and
// the plugin (on the emulator) gives the CPU's tokens, also with several ranks.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/goldens/goldens.h"
#include "tests/support/processes/process.h"
#include "tests/support/variable.h"

namespace tandem::device_cli_test {
namespace {

using testing::ProcessResult;
using testing::Variable;

ProcessResult generate(std::vector<std::string> flags) {
  std::vector<std::string> args{
      TANDEM_BINARY,       "generate", "--model",        testing::golden_dir("bart-tiny").string(),
      "--max-new-tokens",  "8",        "--max-num-seqs", "2",
      "A few words of it."};
  args.insert(args.end() - 1, flags.begin(), flags.end());
  return testing::run_process(args, {});
}

// Without recorded steps: the emulator takes longer to record them than to answer.
ProcessResult generate_eagerly(std::vector<std::string> flags) {
  flags.push_back("--enforce-eager");
  return generate(std::move(flags));
}

void expect_problem(const ProcessResult& r, const std::vector<std::string>& words) {
  EXPECT_EQ(r.status, 2) << r.err;
  EXPECT_EQ(r.out, "");
  for (const std::string& word : words) EXPECT_NE(r.err.find(word), std::string::npos) << r.err;
}

TEST(DeviceCli, BadNames) {
  for (const char* name : {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", ""})
    expect_problem(generate({"--device", name}), {"device"});
  expect_problem(generate({"--device", "cpu", "--dtype", "float16"}), {"--dtype", "float16"});
  expect_problem(generate({"--gpu-memory-utilization", "1.5"}), {"--gpu-memory-utilization"});
  expect_problem(generate({"--kv-cache-dtype", "int4"}),
                 {"--kv-cache-dtype", "int4", "int8", "fp8"});
  expect_problem(generate({"--device", "cpu", "--kv-cache-dtype", "fp8"}),
                 {"--kv-cache-dtype", "8.9"});
}

TEST(DeviceCli, WhatIsMissingIsSaid) {
  const Variable none("TANDEM_CUDA_PLUGIN", "/nonexistent/libtandem_cuda.so");
  expect_problem(generate({"--device", "cuda"}), {"device", "cuda", "libtandem_cuda.so"});
  const Variable other("TANDEM_CUDA_PLUGIN", TANDEM_BINARY);
  expect_problem(generate({"--device", "cuda"}), {"device", "does not load"});
}

// With the real plugin beside the program, if the build has one.
TEST(DeviceCli, AMachineWithoutAGpu) {
  if (std::filesystem::exists("/dev/nvidia0")) GTEST_SKIP() << "there is a GPU";
  const ProcessResult cpu = generate({"--device", "cpu"});
  ASSERT_EQ(cpu.status, 0) << cpu.err;
  const ProcessResult automatic = generate({"--device", "auto"});
  EXPECT_EQ(automatic.status, 0) << automatic.err;
  EXPECT_EQ(automatic.out, cpu.out);
  expect_problem(generate({"--device", "cuda"}), {"device"});
}

TEST(DeviceCli, TheCpusTokens) {
  const std::string cpu = generate({"--device", "cpu", "--dtype", "float32"}).out;
  ASSERT_FALSE(cpu.empty());
  const Variable plugin("TANDEM_CUDA_PLUGIN", EMULATED_CUDA_PLUGIN);
  const std::vector<std::vector<std::string>> settings{
      {"--device", "cuda"},
      {"--device", "auto", "--enforce-eager"},
      {"--device", "cuda:0", "--tensor-parallel-size", "2", "--distributed-executor-backend",
       "threads"}};
  for (std::vector<std::string> flags : settings) {
    flags.insert(flags.end(), {"--dtype", "float32"});
    const ProcessResult r = generate(flags);
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_EQ(r.out, cpu) << flags[1];
  }
  for (const char* dtype : {"bfloat16", "float16"})
    EXPECT_EQ(generate_eagerly({"--device", "cuda", "--dtype", dtype}).status, 0) << dtype;
  // Drafts change nothing.
  const ProcessResult drafted =
      generate({"--device", "cuda", "--dtype", "float32", "--num-speculative-tokens", "3"});
  EXPECT_EQ(drafted.out, cpu) << drafted.err;
  // 8-bit keys and values, alone and on two ranks.
  for (const char* pages : {"fp8_e4m3", "int8"}) {
    for (const char* dtype : {"float32", "bfloat16", "float16"}) {
      const ProcessResult r =
          generate_eagerly({"--device", "cuda", "--dtype", dtype, "--kv-cache-dtype", pages});
      EXPECT_EQ(r.status, 0) << dtype << " " << pages << r.err;
    }
    const ProcessResult one = generate({"--device", "cuda", "--dtype", "float32",
                                        "--kv-cache-dtype", pages, "--enforce-eager"}),
                        two = generate({"--device", "cuda:0", "--dtype", "float32",
                                        "--kv-cache-dtype", pages, "--tensor-parallel-size", "2",
                                        "--distributed-executor-backend", "threads"});
    EXPECT_EQ(two.status, 0) << two.err;
    EXPECT_EQ(one.out, two.out) << pages;
    EXPECT_FALSE(one.out.empty());
  }
  expect_problem(generate({"--device", "cuda:1"}), {"device", "cuda:1"});
  // Steps are recorded first, and it is said.
  const ProcessResult recorded = generate({"--device", "cuda", "--cudagraph-capture-sizes", "1,2",
                                           "--log-level", "info"}),
                      none = generate({"--device", "cuda", "--cudagraph-capture-sizes", "0",
                                       "--log-level", "info"});
  EXPECT_NE(recorded.err.find("recorded 4 steps of decoding, of 1 to 2 sequences"),
            std::string::npos)
      << recorded.err;
  EXPECT_EQ(none.err.find("steps of decoding"), std::string::npos) << none.err;
  EXPECT_EQ(none.out, recorded.out);
  expect_problem(generate({"--cudagraph-capture-sizes", "-1"}),
                 {"--cudagraph-capture-sizes", "-1"});
  // Types of integers are how weights are stored.
  for (const char* type : {"int8", "int4"}) {
    const ProcessResult stored = generate_eagerly({"--device", "cuda", "--dtype", type}),
                        same = generate_eagerly(
                            {"--device", "cuda", "--dtype", "bfloat16", "--quantization", type});
    EXPECT_EQ(stored.status, 0) << stored.err;
    EXPECT_EQ(stored.out, same.out) << type;
  }
  expect_problem(generate({"--device", "cuda", "--dtype", "int8", "--quantization", "int4"}),
                 {"--quantization", "int4 does not go with --dtype int8"});
}

// fp8 needs a device that converts, int8 works on all.
TEST(DeviceCli, KeysAndValuesIn8BitsByCapability) {
  const auto on = [](const char* device, const char* dtype) {
    return generate({"--device", device, "--dtype", dtype, "--kv-cache-dtype", "int8"});
  };
  const std::string cpu = on("cpu", "float32").out;
  ASSERT_FALSE(cpu.empty());
  const Variable plugin("TANDEM_CUDA_PLUGIN", EMULATED_CUDA_PLUGIN);
  const Variable turing("TANDEM_EMULATOR_CAPABILITY", "7.5");
  EXPECT_EQ(on("cuda", "float32").out, cpu);
  EXPECT_EQ(on("cuda", "float16").status, 0);
  for (const char* capability : {"7.5", "8.6"}) {
    const Variable device("TANDEM_EMULATOR_CAPABILITY", capability);
    expect_problem(generate({"--device", "cuda", "--kv-cache-dtype", "fp8"}),
                   {"--kv-cache-dtype", "8.9", capability, "int8"});
  }
}

// Layers split over devices, and encoders on devices of their own. Beams and sampling, too. (The
// emulated NCCL knows the threads of one process.)
TEST(DeviceCli, StagesAndEncoderRanksHaveTheCpusTokens) {
  const std::vector<std::vector<std::string>> requests{
      {}, {"--num-beams", "2"}, {"--do-sample", "--seed", "7", "--top-k", "20"}};
  std::vector<std::string> expected;
  for (std::vector<std::string> flags : requests) {
    flags.insert(flags.end(), {"--device", "cpu", "--dtype", "float32"});
    expected.push_back(generate(flags).out);
    ASSERT_FALSE(expected.back().empty());
  }
  const Variable plugin("TANDEM_CUDA_PLUGIN", EMULATED_CUDA_PLUGIN);
  const Variable devices("TANDEM_EMULATOR_DEVICES", "4");
  // Each with one kind of request at least, and each kind by stages and by encoders' ranks.
  struct Layout {
    std::vector<std::string> flags;
    std::vector<size_t> requests;
  };
  const std::vector<Layout> layouts{
      {{"--pp", "2"}, {0, 2}},
      {{"--pp", "3", "--distributed-executor-backend", "threads"}, {1}},
      {{"--pp", "2", "--tp", "2", "--distributed-executor-backend", "threads"}, {0}},
      {{"--encoder-ranks", "1"}, {0}},
      {{"--encoder-ranks", "2", "--tp", "2", "--distributed-executor-backend", "threads"}, {1}},
      {{"--encoder-ranks", "1", "--pp", "2", "--distributed-executor-backend", "threads"}, {2}}};
  for (const Layout& layout : layouts) {
    for (const size_t i : layout.requests) {
      std::vector<std::string> flags = layout.flags;
      const bool threads = flags.back() == "threads";
      const Variable by_host("TANDEM_STAGES_BY_HOST", threads ? "0" : "1");
      flags.insert(flags.end(), requests[i].begin(), requests[i].end());
      flags.insert(flags.end(), {"--device", "cuda", "--dtype", "float32"});
      const bool first = i == layout.requests.front();
      const ProcessResult r = first ? generate(flags) : generate_eagerly(flags);
      EXPECT_EQ(r.status, 0) << r.err;
      EXPECT_EQ(r.out, expected[i]) << flags[0] << " " << flags[1] << ", request " << i;
    }
  }
  for (const char* dtype : {"bfloat16", "float16", "fp8", "int8"}) {
    std::vector<std::string> one{"--device", "cuda"};
    const bool pages = dtype == std::string("fp8") || dtype == std::string("int8");
    one.insert(one.end(), {pages ? "--kv-cache-dtype" : "--dtype", dtype});
    const std::string expected_of_type = generate_eagerly(one).out;
    ASSERT_FALSE(expected_of_type.empty());
    for (const char* split : {"--pp", "--encoder-ranks"}) {
      std::vector<std::string> two = one;
      two.insert(two.end(), {split, split == std::string("--pp") ? "2" : "1",
                             "--distributed-executor-backend", "threads"});
      EXPECT_EQ(generate_eagerly(two).out, expected_of_type) << dtype << ", " << split;
    }
  }
}

// With one device the encoders' ranks share it, each on a stream of its own, in one process.
TEST(DeviceCli, EncodersBesideTheDecodersOnOneDevice) {
  const std::vector<std::string> beams{"--num-beams", "2", "--dtype", "float32"};
  std::vector<std::string> on_cpu = beams;
  on_cpu.insert(on_cpu.end(), {"--device", "cpu"});
  const std::string expected = generate(on_cpu).out;
  ASSERT_FALSE(expected.empty());
  const Variable plugin("TANDEM_CUDA_PLUGIN", EMULATED_CUDA_PLUGIN);
  const Variable devices("TANDEM_EMULATOR_DEVICES", "1");
  for (const auto& [device, ranks] : {std::pair("cuda", "1"), {"auto", "2"}, {"cuda:0", "1"}}) {
    std::vector<std::string> flags = beams;
    flags.insert(flags.end(),
                 {"--device", device, "--encoder-ranks", ranks, "--log-level", "info"});
    const ProcessResult r = generate(flags);
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_EQ(r.out, expected) << device;
    EXPECT_NE(r.err.find("rank 0 shares its device with"), std::string::npos) << r.err;
  }
}

// In one process too.
TEST(DeviceCli, TheLogIsAsItIsAskedFor) {
  expect_problem(generate({"--device", "cpu", "--log-level", "loud"}), {"--log-level", "loud"});
  const Variable plugin("TANDEM_CUDA_PLUGIN", EMULATED_CUDA_PLUGIN);
  const std::vector<std::string> eager{"--device", "cuda", "--enforce-eager"};
  const auto err_of = [&](std::vector<std::string> flags) {
    flags.insert(flags.end(), eager.begin(), eager.end());
    const ProcessResult r = generate(flags);
    EXPECT_EQ(r.status, 0) << r.err;
    return r.err;
  };
  EXPECT_NE(err_of({}).find("info    [engine] rank 0 computes on"), std::string::npos);
  EXPECT_EQ(err_of({"--log-level", "error"}), "");
  EXPECT_NE(err_of({"--log-format", "json"}).find("{\""), std::string::npos);
}

// Keys and values in int8, alone and on two ranks.
TEST(DeviceCli, Int8KeysAndValuesOfACpu) {
  for (const char* dtype : {"float32", "bfloat16", "int8", "int4"}) {
    const std::vector<std::string> flags{"--device",         "cpu", "--dtype", dtype,
                                         "--kv-cache-dtype", "int8"};
    std::vector<std::string> split = flags;
    split.insert(split.end(),
                 {"--tensor-parallel-size", "2", "--distributed-executor-backend", "threads"});
    const ProcessResult one = generate(flags), two = generate(split);
    EXPECT_EQ(one.status, 0) << one.err;
    EXPECT_EQ(two.status, 0) << two.err;
    EXPECT_FALSE(one.out.empty());
    // (Weights in int8 and int4 have other scales on each rank, and so may have other tokens.)
    if (dtype == std::string("float32")) {
      EXPECT_EQ(two.out, one.out);
    }
  }
}

TEST(DeviceCli, QuantizationOfACpu) {
  const auto cpu = [](std::vector<std::string> flags) {
    flags.insert(flags.end(), {"--device", "cpu"});
    return generate(flags);
  };
  for (const char* type : {"int8", "int4"}) {
    const std::string out = cpu({"--dtype", type}).out;
    ASSERT_FALSE(out.empty());
    EXPECT_EQ(cpu({"--quantization", type}).out, out);
    EXPECT_EQ(cpu({"--quantization", type, "--dtype", "bfloat16"}).out, out);
    EXPECT_EQ(cpu({"--quantization", type, "--dtype", type}).out, out);
    expect_problem(cpu({"--quantization", type, "--dtype", "float32"}), {"--dtype", "float32"});
  }
  expect_problem(cpu({"--quantization", "int8", "--dtype", "int4"}), {"--dtype", "int4", "int8"});
  EXPECT_EQ(cpu({"--quantization", "none"}).out, cpu({}).out);
  expect_problem(cpu({"--quantization", "fp8"}), {"--quantization", "fp8", "GPU"});
  for (const char* name : {"int7", "awq", ""})
    expect_problem(cpu({"--quantization", name}), {"--quantization", "none, int8, int4, fp8"});
}

TEST(DeviceCli, QuantizationOfADevice) {
  const Variable plugin("TANDEM_CUDA_PLUGIN", EMULATED_CUDA_PLUGIN);
  for (const char* name : {"int8", "int4", "fp8"})
    for (const char* dtype : {"float32", "bfloat16"}) {
      const ProcessResult r =
          generate_eagerly({"--device", "cuda", "--quantization", name, "--dtype", dtype});
      EXPECT_EQ(r.status, 0) << name << " " << dtype << r.err;
      EXPECT_FALSE(r.out.empty()) << name;
    }
  const ProcessResult ranks =
      generate({"--device", "cuda:0", "--quantization", "int4", "--dtype", "float16",
                "--tensor-parallel-size", "2", "--distributed-executor-backend", "threads"});
  EXPECT_EQ(ranks.status, 0) << ranks.err;
  EXPECT_FALSE(ranks.out.empty());
  expect_problem(generate({"--device", "cuda", "--dtype", "int8", "--quantization", "fp8"}),
                 {"--quantization", "fp8 does not go with --dtype int8"});
}

}  // namespace
}  // namespace tandem::device_cli_test
