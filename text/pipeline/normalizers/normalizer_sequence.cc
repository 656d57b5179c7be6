// Normalizers one after the other.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/pipeline/normalizers/normalizer_steps.h"

namespace tandem {
namespace {

// A file whose normalizer makes more bytes than these of a text wants to exhaust us.
constexpr size_t kMaxGrowth = 16, kMaxMore = size_t{1} << 20;

class NormalizerSequence final : public Normalizer {
 public:
  NormalizerSequence(std::vector<std::unique_ptr<Normalizer>> steps, std::string file)
      : steps_(std::move(steps)), file_(std::move(file)) {}
  std::string normalize(std::string_view text) const override {
    std::string out(text);
    for (const auto& step : steps_) {
      out = step->normalize(out);
      check_normalized_size(file_, text.size(), out.size());
    }
    return out;
  }
  void align(AlignedText& text) const override {
    const size_t before = text.text().size();
    for (const auto& step : steps_) {
      step->align(text);
      check_normalized_size(file_, before, text.text().size());
    }
  }
  bool transforms() const override {
    return std::any_of(steps_.begin(), steps_.end(),
                       [](const auto& step) { return step->transforms(); });
  }
  bool misaligns(bool behind, bool parts) const override {
    bool out = false;
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
      out = out || (*step)->misaligns(behind, parts);
      behind = behind || (*step)->transforms();
    }
    return out;
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> steps_;
  std::string file_;
};

}  // namespace

void check_normalized_size(const std::string& file, size_t before, size_t after) {
  if (after > kMaxGrowth * before + kMaxMore)
    throw invalid_model(file, "normalizer: makes too much of a text");
}

std::unique_ptr<Normalizer> make_normalizer_sequence(std::vector<std::unique_ptr<Normalizer>> steps,
                                                     std::string file) {
  return std::make_unique<NormalizerSequence>(std::move(steps), std::move(file));
}

}  // namespace tandem
