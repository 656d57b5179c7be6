#include "runtime/media/sound/voice/voice_network.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/support/media/voice_weights.h"

namespace tandem::voice_network_test {
namespace {

using testing::VoiceTensors;

constexpr int64_t kWindow = VoiceNetwork::kWindow;

std::vector<float> random_samples(unsigned seed, int64_t count) {
  std::mt19937 random(seed);
  std::normal_distribution<float> value(0, 0.3f);
  std::vector<float> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(value(random));
  return out;
}

// Loops in double precision, a window after the other.
class NaiveNetwork {
 public:
  explicit NaiveNetwork(const VoiceTensors& tensors) : tensors_(tensors) {}

  double next(const std::vector<double>& window) {
    std::vector<double> heard = context_;
    heard.insert(heard.end(), window.begin(), window.end());
    for (size_t i = 0; i < 64; ++i) heard.push_back(heard[574 - i]);
    context_.assign(window.end() - 64, window.end());
    Frames x;
    for (size_t at = 0; at + 256 <= heard.size(); at += 128) x.push_back(spectrum(heard, at));
    for (int layer = 1; layer <= 4; ++layer)
      x = convolved(x, "conv" + std::to_string(layer), layer == 2 || layer == 3 ? 2 : 1);
    EXPECT_EQ(x.size(), 1u);
    return recurred(x[0]);
  }

 private:
  using Frames = std::vector<std::vector<double>>;

  double at(const std::string& name, size_t i) const { return tensors_.at(name).values[i]; }

  std::vector<double> spectrum(const std::vector<double>& heard, size_t from) const {
    std::vector<double> out;
    for (size_t bin = 0; bin < 129; ++bin) {
      double real = 0, imaginary = 0;
      for (size_t i = 0; i < 256; ++i) {
        real += at("stft_conv.weight", bin * 256 + i) * heard[from + i];
        imaginary += at("stft_conv.weight", (129 + bin) * 256 + i) * heard[from + i];
      }
      out.push_back(std::hypot(real, imaginary));
    }
    return out;
  }
  Frames convolved(const Frames& x, const std::string& name, size_t stride) const {
    const auto& shape = tensors_.at(name + ".weight").shape;
    const auto outs = static_cast<size_t>(shape[0]), ins = static_cast<size_t>(shape[1]);
    Frames out;
    for (size_t middle = 0; middle < x.size(); middle += stride) {
      auto& row = out.emplace_back();
      for (size_t o = 0; o < outs; ++o) {
        double sum = at(name + ".bias", o);
        for (size_t i = 0; i < ins; ++i)
          for (size_t k = 0; k < 3; ++k)
            if (middle + k >= 1 && middle + k - 1 < x.size())
              sum += at(name + ".weight", (o * ins + i) * 3 + k) * x[middle + k - 1][i];
        row.push_back(std::max(sum, 0.0));
      }
    }
    return out;
  }
  double recurred(const std::vector<double>& x) {
    std::vector<double> gates;
    for (size_t g = 0; g < 512; ++g) {
      double sum = at("lstm_cell.bias_ih", g) + at("lstm_cell.bias_hh", g);
      for (size_t i = 0; i < 128; ++i)
        sum += at("lstm_cell.weight_ih", g * 128 + i) * x[i] +
               at("lstm_cell.weight_hh", g * 128 + i) * hidden_[i];
      gates.push_back(sum);
    }
    const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
    double out = at("final_conv.bias", 0);
    for (size_t c = 0; c < 128; ++c) {
      cells_[c] =
          sigmoid(gates[128 + c]) * cells_[c] + sigmoid(gates[c]) * std::tanh(gates[256 + c]);
      hidden_[c] = sigmoid(gates[384 + c]) * std::tanh(cells_[c]);
      out += at("final_conv.weight", c) * std::max(hidden_[c], 0.0);
    }
    return sigmoid(out);
  }

  const VoiceTensors& tensors_;
  std::vector<double> context_ = std::vector<double>(64), hidden_ = std::vector<double>(128),
                      cells_ = std::vector<double>(128);
};

TEST(VoiceNetwork, ComputesWhatPlainLoopsDo) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  const VoiceTensors tensors = testing::random_voice_tensors(seed);
  const test::TempDir folder;
  VoiceNetwork network(VoiceWeights::load(write_voice_file(folder, tensors)));
  NaiveNetwork naive(tensors);
  const std::vector<float> samples = random_samples(seed + 1, 21 * kWindow);
  std::vector<float> got;
  network.add(samples, got);
  ASSERT_EQ(got.size(), 21u);
  for (size_t w = 0; w < got.size(); ++w) {
    const auto from = samples.begin() + static_cast<int64_t>(w) * kWindow;
    EXPECT_NEAR(got[w], naive.next({from, from + kWindow}), 2e-5) << w;
  }
}

// However the windows come, the probabilities are the same bits.
TEST(VoiceNetwork, PiecesDoNotMatter) {
  const test::TempDir folder;
  const auto weights =
      VoiceWeights::load(write_voice_file(folder, testing::random_voice_tensors(3)));
  const std::vector<float> samples = random_samples(4, 150 * kWindow);
  std::vector<float> whole, parts;
  VoiceNetwork(weights).add(samples, whole);
  VoiceNetwork network(weights);
  for (size_t at = 0, step = 1; at < samples.size(); ++step) {
    const size_t count = std::min(step * kWindow, samples.size() - at);
    network.add(std::span(samples).subspan(at, count), parts);
    at += count;
  }
  EXPECT_EQ(whole, parts);
}

std::string error_of(const VoiceTensors& tensors) {
  const test::TempDir folder;
  try {
    VoiceWeights::load(write_voice_file(folder, tensors));
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(VoiceWeightsErrors, NameTheTensor) {
  VoiceTensors tensors = testing::random_voice_tensors(1);
  tensors.erase("conv3.bias");
  EXPECT_NE(error_of(tensors).find("conv3.bias is missing"), std::string::npos);
  tensors = testing::random_voice_tensors(1);
  tensors["conv3.bias"].shape = {8, 8};
  EXPECT_NE(error_of(tensors).find("conv3.bias"), std::string::npos);
  EXPECT_THROW(VoiceWeights::load("/nowhere"), InputError);
}

TEST(VoiceWeights, AreFoundInAPythonEnvironment) {
  const test::TempDir folder;
  const auto data = folder / "lib/python3.11/site-packages/silero_vad/data";
  std::filesystem::create_directories(data);
  const char* given = std::getenv("VIRTUAL_ENV");
  const std::string before = given == nullptr ? "" : given;
  ::setenv("VIRTUAL_ENV", folder.path().c_str(), 1);
  const auto nothing = VoiceWeights::find_installed();
  std::filesystem::rename(write_voice_file(folder, testing::random_voice_tensors(1)),
                          data / "silero_vad_16k.safetensors");
  EXPECT_NE(nothing, data / "silero_vad_16k.safetensors");
  EXPECT_EQ(VoiceWeights::find_installed(), data / "silero_vad_16k.safetensors");
  ::setenv("VIRTUAL_ENV", before.c_str(), 1);
}

}  // namespace
}  // namespace tandem::voice_network_test
