// Normalizers one after the other.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/pipeline/normalizers/normalizer_steps.h"

namespace tandem {
namespace {

class NormalizerSequence final : public Normalizer {
 public:
  explicit NormalizerSequence(std::vector<std::unique_ptr<Normalizer>> steps)
      : steps_(std::move(steps)) {}
  std::string normalize(std::string_view text, GrowthBudget& budget) const override {
    std::string out(text);
    for (const auto& step : steps_) {
      const size_t before = out.size();
      out = step->normalize(out, budget);
      budget.spend(before, out.size());
    }
    return out;
  }
  void align(AlignedText& text, GrowthBudget& budget) const override {
    for (const auto& step : steps_) {
      const size_t before = text.text().size();
      step->align(text, budget);
      budget.spend(before, text.text().size());
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
};

}  // namespace

std::unique_ptr<Normalizer> make_normalizer_sequence(
    std::vector<std::unique_ptr<Normalizer>> steps) {
  return std::make_unique<NormalizerSequence>(std::move(steps));
}

}  // namespace tandem
