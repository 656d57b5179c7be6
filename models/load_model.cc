#include "models/load_model.h"

#include <set>
#include <string>

#include "base/check.h"
#include "base/error.h"
#include "base/printable.h"
#include "models/family.h"

namespace tandem {
namespace {

constexpr size_t kBytesBetweenDrops = size_t{64} << 20;

// Passes look-ups on. A layer reads a tensor when it has found it, so a look-up reports the bytes
// of those before it, and lets the system read ahead. What layers have copied need not stay in
// memory twice, so mapped pages are dropped on the way.
class ReportingSource final : public WeightSource {
 public:
  ReportingSource(Checkpoint& checkpoint, const LoadProgress& progress)
      : checkpoint_(checkpoint), progress_(progress), total_(checkpoint.bytes()) {}

  const HostTensor* find(const std::string& name) override {
    const HostTensor* t = checkpoint_.find(name);
    if (t == nullptr || !seen_.insert(name).second) return t;
    if (progress_) progress_(done_, total_);
    if (done_ - dropped_ >= kBytesBetweenDrops) {
      checkpoint_.drop_pages();
      dropped_ = done_;
    }
    checkpoint_.read_ahead(*t);
    done_ += t->bytes;
    return t;
  }
  void skip(const std::string& beginning) override { checkpoint_.skip(beginning); }
  std::string location() const override { return checkpoint_.location(); }
  void end() const {
    if (progress_) progress_(done_, total_);
  }

 private:
  Checkpoint& checkpoint_;
  const LoadProgress& progress_;
  size_t total_, done_ = 0, dropped_ = 0;
  std::set<std::string> seen_;
};

}  // namespace

std::unique_ptr<Model> load_model(const ModelConfig& config, Checkpoint& checkpoint,
                                  const Build& build, const LoadProgress& progress) {
  const ModelFamily& family = find_family(config);
  TANDEM_CHECK_EQ(family.encoder_input == EncoderInput::kFrames,
                  family.limits(config).frames.has_value());
  ReportingSource source(checkpoint, progress);
  auto model = family.make(config, Weights(source), build);
  build.ctx.end_loading();
  const auto unread = checkpoint.unread();
  if (!unread.empty()) {
    std::string names;
    for (size_t i = 0; i < unread.size() && i < 8; ++i)
      names += (i ? ", " : "") + printable(unread[i]);
    if (unread.size() > 8) names += ", …";
    throw invalid_model(checkpoint.location(), std::to_string(unread.size()) + " tensor(s) that " +
                                                   printable(config.architecture) +
                                                   " does not have: " + names);
  }
  checkpoint.drop_pages();
  source.end();
  return model;
}

}  // namespace tandem
