#include "models/load_model.h"

#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/strings/printable.h"
#include "models/family.h"
#include "models/tied_tensors.h"

namespace tandem {
namespace {

constexpr size_t kBytesBetweenDrops = size_t{64} << 20;

// Passes look-ups on, of names with or without `base` in front. A layer reads a tensor when it has
// found it, so a look-up reports the bytes of those before it, and lets the system read ahead. What
// layers have copied need not stay in memory twice, so mapped pages are dropped on the way.
class ReportingSource final : public WeightSource {
 public:
  ReportingSource(Checkpoint& checkpoint, const std::string& base, const LoadProgress& progress)
      : checkpoint_(checkpoint),
        base_(base + "."),
        progress_(progress),
        total_(checkpoint.bytes()) {}

  const HostTensor* find(const std::string& name) override {
    const HostTensor* t = checkpoint_.find(name);
    if (t == nullptr && name.starts_with(base_)) t = checkpoint_.find(name.substr(base_.size()));
    if (t == nullptr) t = checkpoint_.find(base_ + name);
    if (t == nullptr || !seen_.insert(t->name).second) return t;
    if (progress_) progress_(done_, total_);
    if (done_ - dropped_ >= kBytesBetweenDrops) {
      checkpoint_.drop_pages();
      dropped_ = done_;
    }
    checkpoint_.read_ahead(*t);
    done_ += t->bytes;
    return t;
  }
  void skip(const std::string& beginning) override {
    checkpoint_.skip(beginning);
    checkpoint_.skip(base_ + beginning);
    if (beginning.starts_with(base_)) checkpoint_.skip(beginning.substr(base_.size()));
  }
  std::string location() const override { return checkpoint_.location(); }
  void end() const {
    if (progress_) progress_(total_, total_);
  }

 private:
  Checkpoint& checkpoint_;
  std::string base_;  // with its dot
  const LoadProgress& progress_;
  size_t total_, done_ = 0, dropped_ = 0;
  std::set<std::string> seen_;
};

}  // namespace

std::unique_ptr<Model> load_model(const ModelConfig& config, Checkpoint& checkpoint,
                                  const Build& build, const LoadProgress& progress) {
  const ModelFamily& family = find_family(config);
  TANDEM_CHECK_EQ(family.encoder_input == EncoderInput::kFrames,
                  !family.limits(config).reads_ids());
  ReportingSource source(checkpoint, family.base, progress);
  auto model = family.make(config, Weights(source), build);
  for (const LayerRange& range : {build.encoder_layers, build.decoder_layers})
    if (range != LayerRange()) source.skip("");  // the other ranks read the rest
  build.ctx.end_loading();
  checkpoint.drop_pages();
  source.end();
  return model;
}

std::vector<std::string> load_warnings(const ModelConfig& config, const Checkpoint& checkpoint) {
  constexpr size_t kNamed = 4;
  std::vector<std::string> lines;
  std::error_code error;
  if (std::filesystem::exists(config.directory / "adapter_config.json", error))
    lines.push_back(checkpoint.location() +
                    ": the adapter (adapter_config.json) is not applied; requests ask for it if "
                    "--lora-modules gives it a name");
  for (std::string& line : untied_warnings(config, checkpoint)) lines.push_back(std::move(line));
  const auto unread = checkpoint.unread();
  if (unread.empty()) return lines;
  std::string names;
  for (size_t i = 0; i < unread.size() && i < kNamed; ++i)
    names += (i ? ", " : "") + printable(unread[i]);
  if (unread.size() > kNamed) names += ", …";
  lines.push_back(checkpoint.location() + ": " + std::to_string(unread.size()) +
                  " tensor(s) that " + printable(config.architecture) +
                  " does not have are ignored: " + names);
  return lines;
}

}  // namespace tandem
