// Whole generations with quantised weights on the device (the emulator), in f32 arithmetic: the
// tokens of a CPU's engine whose checkpoint has the same rounded weights in f32. The rounding is
// done here, plainly: nothing of the device's quantiser or products is used.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "models/load_model.h"
#include "tests/support/files/checkpoint_writer.h"
#include "tests/support/goldens/golden_engine.h"

namespace tandem::quantized_test {
namespace {

using nlohmann::json;

double e4m3_value(int code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  return exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
}

// The value of e4m3 that is nearest to x, of two the one with the even code.
double nearest_e4m3(double x) {
  int best = 0;
  for (int code = 1; code < 127; ++code) {
    const double old = std::abs(e4m3_value(best) - std::abs(x)),
                 now = std::abs(e4m3_value(code) - std::abs(x));
    if (now < old || (now == old && code % 2 == 0)) best = code;
  }
  return std::copysign(e4m3_value(best), x);
}

void round_row(std::vector<float>& row, Quantization q) {
  const float top = q == Quantization::kInt8 ? 127.0f : 448.0f;
  float largest = 0;
  for (const float x : row) largest = std::max(largest, std::abs(x));
  for (float& x : row) {
    const float scaled = x * (top / largest);
    x = static_cast<float>((largest / top) * (q == Quantization::kInt8
                                                  ? std::nearbyint(double{scaled})
                                                  : nearest_e4m3(scaled)));
  }
}

// Of a layer of the encoder or the decoder, without embeddings and norms.
bool is_linear(const HostTensor& t) {
  return t.shape.size() == 2 && t.name.find(".layers.") != std::string::npos;
}

class RoundedCheckpoint {
 public:
  RoundedCheckpoint(const std::filesystem::path& from, Quantization q)
      : directory_(std::filesystem::path(::testing::TempDir()) /
                   ("rounded_" + std::string(name_of(q)) + std::to_string(getpid()))) {
    std::filesystem::create_directories(directory_);
    for (const char* name : {"config.json", "generation_config.json", "tokenizer.json",
                             "tokenizer_config.json", "special_tokens_map.json"})
      if (std::filesystem::exists(from / name))
        std::filesystem::copy_file(from / name, directory_ / name,
                                   std::filesystem::copy_options::overwrite_existing);
    json header;
    std::string data;
    int rounded = 0;
    const Checkpoint checkpoint = Checkpoint::open(from);
    for (const auto& [name, t] : checkpoint.tensors()) {
      const Tensor values = to_float(t);
      const int64_t columns = t.shape.back(), rows = values.size() / columns;
      header[name] = {{"dtype", "F32"},
                      {"shape", t.shape},
                      {"data_offsets", {data.size(), data.size() + values.bytes()}}};
      for (int64_t i = 0; i < rows; ++i) {
        const float* first = values.data<float>() + i * columns;
        std::vector<float> row(first, first + columns);
        if (is_linear(t)) round_row(row, q), ++rounded;
        data.append(reinterpret_cast<const char*>(row.data()), row.size() * sizeof(float));
      }
    }
    EXPECT_GT(rounded, 0);
    std::ofstream(directory_ / "model.safetensors", std::ios::binary)
        << test::safetensors(header.dump(), data);
  }
  ~RoundedCheckpoint() { std::filesystem::remove_all(directory_); }
  RoundedCheckpoint(const RoundedCheckpoint&) = delete;
  RoundedCheckpoint& operator=(const RoundedCheckpoint&) = delete;

  const std::filesystem::path& directory() const { return directory_; }

 private:
  std::filesystem::path directory_;
};

std::map<std::string, json> generate(const EngineConfig& config, const std::vector<json>& cases) {
  LLMEngine engine(config);
  for (const json& c : cases) testing::add_case(engine, c);
  std::map<std::string, json> out;
  for (int i = 0; engine.has_unfinished_requests(); ++i) {
    if (i >= 100000) ADD_FAILURE() << "no progress";
    for (const auto& output : engine.step()) {
      if (!output.finished()) continue;
      for (const auto& o : output.outputs())
        out[output.request_id()].push_back(
            testing::Ids(o.token_ids().begin(), o.token_ids().end()));
    }
  }
  return out;
}

void expect_rounded_tokens(const std::string& checkpoint, Quantization q) {
  std::vector<json> cases;
  const std::vector<json> all = testing::generated_cases(checkpoint);
  for (size_t i = 0; i < all.size(); i += 5) cases.push_back(all[i]);
  EngineConfig config = testing::golden_config(checkpoint);
  const RoundedCheckpoint rounded(config.loading().model(), q);
  EngineConfig cpu = config;
  cpu.mutable_loading()->set_device("cpu");
  cpu.mutable_loading()->set_model(rounded.directory().string());
  const auto expected = generate(cpu, cases);
  cpu.mutable_loading()->set_model(config.loading().model());
  EXPECT_NE(generate(cpu, cases), expected) << "rounding changes no token: this tests nothing";

  config.mutable_loading()->set_device("cuda");
  config.mutable_cache()->set_num_gpu_blocks_override(2000);
  config.mutable_loading()->set_quantization(name_of(q));
  const auto got = generate(config, cases);
  ASSERT_EQ(got.size(), cases.size());
  for (const auto& [name, tokens] : expected) EXPECT_EQ(got.at(name), tokens) << name;
}

// What weights leave goes to the cache.
TEST(DeviceQuantized, LessMemory) {
  setenv("TANDEM_EMULATOR_MEMORY", "700000000", 1);
  std::vector<int> blocks;
  for (const Quantization q : {Quantization::kNone, Quantization::kInt8}) {
    EngineConfig config;
    config.mutable_loading()->set_model((testing::test_root() / "examples/demo-model").string());
    config.mutable_loading()->set_device("cuda");
    config.mutable_loading()->add_cudagraph_capture_sizes(0);  // nothing is recorded at start
    config.mutable_loading()->set_dtype(name_of(DType::kBF16));
    config.mutable_loading()->set_quantization(name_of(q));
    config.mutable_scheduling()->set_max_num_batched_tokens(64);
    const auto ctx = make_context(config, *asked_dtype(config), 1);
    if (ctx->backend().name().find("emulated") == std::string::npos)
      GTEST_SKIP() << "a GPU has memory for all blocks that are of use";
    const auto comm = make_local_communicator();
    Checkpoint checkpoint = Checkpoint::open(config.loading().model());
    const ModelConfig model_config = ModelConfig::load(config.loading().model());
    const auto model = load_model(model_config, checkpoint, {*ctx, *comm, *asked_dtype(config), q});
    blocks.push_back(
        cache_size_for(config, *ctx, model_config, model->kv_cache_spec()).num_device_blocks);
  }
  unsetenv("TANDEM_EMULATOR_MEMORY");
  EXPECT_GT(blocks[1], blocks[0]);
}

TEST(DeviceQuantized, Int8) { expect_rounded_tokens("bart-tiny", Quantization::kInt8); }
TEST(DeviceQuantized, Int8OddHeads) {
  expect_rounded_tokens("bart-odd-heads", Quantization::kInt8);
}
TEST(DeviceQuantized, Fp8) { expect_rounded_tokens("bart-tiny", Quantization::kFp8); }

}  // namespace
}  // namespace tandem::quantized_test
