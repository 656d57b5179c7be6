#include "runtime/media/sound/voice/voice_network.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>

#include "base/check.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "models/checkpoint/checkpoint.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kContext = 64;  // samples before a window that it sees too
constexpr int64_t kFourier = 256, kHop = 128, kBins = kFourier / 2 + 1;
constexpr int64_t kFrames = (kContext + VoiceNetwork::kWindow + kContext - kFourier) / kHop + 1;
constexpr int64_t kCells = 128, kGates = 4 * kCells;
constexpr int kWidth = 3;             // frames of a convolution
constexpr int64_t kMostWindows = 64;  // at once: 2 s of sound

struct ConvolutionSize {
  int64_t in, out;
  int stride;
};
constexpr ConvolutionSize kConvolutions[] = {
    {kBins, 128, 1}, {128, 64, 2}, {64, 64, 2}, {64, kCells, 1}};

class Tensors {
 public:
  explicit Tensors(const fs::path& file) : file_(file.string()), mapped_(MappedFile::open(file)) {
    for (HostTensor& t : read_safetensors(mapped_->data(), mapped_->size(), file_, mapped_))
      tensors_[t.name] = std::move(t);
  }

  const HostTensor& get(const std::string& name, const Shape& shape) const {
    const auto it = tensors_.find(name);
    if (it == tensors_.end())
      throw invalid_model(file_, "tensor " + name + " is missing: this is not Silero's network");
    const HostTensor& t = it->second;
    if (t.shape != shape || t.dtype != DType::kF32 || !t.foreign_dtype.empty())
      throw invalid_model(file_, "tensor " + name + " is " + t.dtype_name() + " " +
                                     to_string(t.shape) + " instead of float32 " +
                                     to_string(shape));
    return t;
  }
  PackedWeight weight(Context& ctx, const std::string& name, const Shape& shape) const {
    const int64_t columns = shape[1] * (shape.size() > 2 ? shape[2] : 1);
    const MatrixView view{get(name, shape).data, DType::kF32, shape[0], columns, columns};
    return PackedWeight(ctx, {&view, 1}, DType::kF32);
  }
  Tensor vector(const std::string& name, const Shape& shape) const {
    const HostTensor& t = get(name, shape);
    return to_float(t).reshape({shape[0] * (shape.size() > 1 ? shape[1] : 1)});
  }

 private:
  std::string file_;
  std::shared_ptr<MappedFile> mapped_;
  std::map<std::string, HostTensor> tensors_;
};

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

// indptr of sequences of equal lengths.
Tensor starts_of(int64_t sequences, int64_t length) {
  const Tensor out({sequences + 1}, DType::kI32);
  for (int64_t i = 0; i <= sequences; ++i)
    out.data<int32_t>()[i] = static_cast<int32_t>(i * length);
  return out;
}

}  // namespace

std::shared_ptr<const VoiceWeights> VoiceWeights::load(const fs::path& file) {
  const Tensors tensors(file);
  Context ctx(1);
  auto out = std::make_shared<VoiceWeights>();
  out->spectrum_.weight = tensors.weight(ctx, "stft_conv.weight", {2 * kBins, 1, kFourier});
  for (int i = 0; i < 4; ++i) {
    const std::string name = "conv" + std::to_string(i + 1);
    const auto& size = kConvolutions[i];
    out->convolutions_[i] = {tensors.weight(ctx, name + ".weight", {size.out, size.in, kWidth}),
                             tensors.vector(name + ".bias", {size.out})};
  }
  const std::string lstm = "lstm_cell.";
  out->input_ = {tensors.weight(ctx, lstm + "weight_ih", {kGates, kCells}),
                 tensors.vector(lstm + "bias_ih", {kGates})};
  out->hidden_ = {tensors.weight(ctx, lstm + "weight_hh", {kGates, kCells}),
                  tensors.vector(lstm + "bias_hh", {kGates})};
  out->head_ = tensors.vector("final_conv.weight", {1, kCells, 1});
  out->head_bias_ = tensors.vector("final_conv.bias", {1}).data<float>()[0];
  return out;
}

std::optional<fs::path> VoiceWeights::find_installed() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  std::vector<fs::path> roots;
  if (const auto venv = variable("VIRTUAL_ENV"); !venv.empty()) roots.emplace_back(venv);
  // (The wheel's interpreter.)
  if (const auto python = variable("TANDEM_PYTHON"); !python.empty())
    roots.push_back(fs::path(python).parent_path().parent_path());
  if (const auto home = variable("HOME"); !home.empty()) roots.push_back(fs::path(home) / ".local");
  roots.insert(roots.end(), {"/usr/local", "/usr"});
  const fs::path inside = fs::path("silero_vad") / "data" / "silero_vad_16k.safetensors";
  for (const fs::path& root : roots) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(root / "lib", error)) {
      if (!entry.path().filename().string().starts_with("python3")) continue;
      for (const char* packages : {"site-packages", "dist-packages"})
        if (fs::path file = entry.path() / packages / inside; fs::exists(file, error)) return file;
    }
  }
  return std::nullopt;
}

VoiceNetwork::VoiceNetwork(std::shared_ptr<const VoiceWeights> weights)
    : weights_(std::move(weights)),
      ctx_(1),
      last_(static_cast<size_t>(kContext)),
      state_(static_cast<size_t>(kCells)),
      hidden_(Tensor::zeros({1, kCells}, DType::kF32)) {}

void VoiceNetwork::add(std::span<const float> samples, std::vector<float>& out) {
  TANDEM_CHECK_EQ(std::ssize(samples) % kWindow, 0);
  while (!samples.empty()) {
    const size_t count = std::min(samples.size(), static_cast<size_t>(kMostWindows * kWindow));
    const int64_t windows = static_cast<int64_t>(count) / kWindow;
    Tensor x = spectra(samples.first(count));
    for (int layer = 0; layer < 4; ++layer) x = convolve(layer, x, windows);
    recur(x, out);
    samples = samples.subspan(count);
  }
}

// The absolute values of a short-time Fourier transform: [windows * kFrames, kBins].
Tensor VoiceNetwork::spectra(std::span<const float> samples) {
  const int64_t windows = std::ssize(samples) / kWindow, rows = windows * kFrames;
  const Tensor frames = ctx_.make({rows, kFourier});
  std::vector<float> heard(static_cast<size_t>(kContext + kWindow + kContext));
  for (int64_t w = 0; w < windows; ++w) {
    const auto window = samples.subspan(static_cast<size_t>(w * kWindow), kWindow);
    const auto behind = std::copy(window.begin(), window.end(),
                                  std::copy(last_.begin(), last_.end(), heard.begin()));
    // Its end is mirrored, without the last sample.
    std::copy_n(std::make_reverse_iterator(behind - 1), kContext, behind);
    std::copy(window.end() - kContext, window.end(), last_.begin());
    for (int64_t f = 0; f < kFrames; ++f)
      std::copy_n(heard.begin() + f * kHop, kFourier, frames.row<float>(w * kFrames + f));
  }
  const Tensor parts = ctx_.make({rows, 2 * kBins}), out = ctx_.make({rows, kBins});
  ops::linear(ctx_, {&weights_->spectrum_.weight, frames, {}, Activation::kNone, parts});
  for (int64_t r = 0; r < rows; ++r) {
    const float *real = parts.row<float>(r), *imaginary = real + kBins;
    float* to = out.row<float>(r);
    for (int64_t b = 0; b < kBins; ++b)
      to[b] = std::sqrt(real[b] * real[b] + imaginary[b] * imaginary[b]);
  }
  return out;
}

// Each window's frames by themselves.
Tensor VoiceNetwork::convolve(int layer, const Tensor& x, int64_t windows) {
  const auto& size = kConvolutions[layer];
  const int64_t before = x.dim(0) / windows, behind = (before - 1) / size.stride + 1;
  const Tensor seen = ctx_.make({windows * behind, size.in * kWidth});
  ops::conv_windows(ctx_, {x, starts_of(windows, before), starts_of(windows, behind), kWidth,
                           size.stride, 1, seen});
  const Tensor out = ctx_.make({windows * behind, size.out});
  const auto& of_layer = weights_->convolutions_[layer];
  ops::linear(ctx_, {&of_layer.weight, seen, of_layer.bias, Activation::kRelu, out});
  return out;
}

// x: [windows, kCells].
void VoiceNetwork::recur(const Tensor& x, std::vector<float>& out) {
  const Tensor inputs = ctx_.make({x.dim(0), kGates}), gates = ctx_.make({1, kGates});
  ops::linear(ctx_,
              {&weights_->input_.weight, x, weights_->input_.bias, Activation::kNone, inputs});
  float* hidden = hidden_.data<float>();
  const float* head = weights_->head_.data<float>();
  for (int64_t w = 0; w < x.dim(0); ++w) {
    ops::linear(ctx_, {&weights_->hidden_.weight, hidden_, weights_->hidden_.bias,
                       Activation::kNone, gates});
    const float *a = inputs.row<float>(w), *b = gates.data<float>();
    const auto gate = [&](int64_t which, int64_t cell) {
      return a[which * kCells + cell] + b[which * kCells + cell];
    };
    float sum = weights_->head_bias_;
    for (int64_t c = 0; c < kCells; ++c) {
      float& cell = state_[static_cast<size_t>(c)];
      cell = sigmoid(gate(1, c)) * cell + sigmoid(gate(0, c)) * std::tanh(gate(2, c));
      hidden[c] = sigmoid(gate(3, c)) * std::tanh(cell);
      sum += head[c] * std::max(hidden[c], 0.0f);
    }
    out.push_back(sigmoid(sum));
  }
}

}  // namespace tandem
