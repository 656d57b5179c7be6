// Answers of a worker that cannot be trusted.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "runtime/protocol/tandem.pb.h"
#include "tests/support/simulation/simulated_keys.h"

namespace tandem::testing_support {

enum class Lie { kStep, kMissing, kTwice, kUnknown, kToken, kDrafts, kReady };
inline constexpr std::initializer_list<Lie> kLies = {
    Lie::kStep, Lie::kMissing, Lie::kTwice, Lie::kUnknown, Lie::kToken, Lie::kDrafts, Lie::kReady};

// All of the sequence that comes last.
inline void remove_last(google::protobuf::RepeatedPtrField<proto::SequenceOutput>& samples) {
  const int64_t seq_id = samples.rbegin()->seq_id();
  while (!samples.empty() && samples.rbegin()->seq_id() == seq_id) samples.RemoveLast();
}

// False: the step has nothing that this lie could be about.
inline bool falsify(proto::StepOutput& output, Lie lie) {
  for (auto& group : *output.mutable_outputs()) {
    const bool pooled = group.has_embedding() && lie == Lie::kMissing;
    if (lie != Lie::kStep && group.samples().empty() && !pooled) continue;
    switch (lie) {
      case Lie::kStep: output.set_step(output.step() + 1); break;
      case Lie::kMissing:
        if (pooled)
          group.clear_embedding();
        else
          remove_last(*group.mutable_samples());
        break;
      case Lie::kTwice: *group.add_samples() = proto::SequenceOutput(group.samples(0)); break;
      case Lie::kUnknown: group.mutable_samples(0)->set_seq_id(1'000'000); break;
      case Lie::kToken: group.mutable_samples(0)->set_token_id(kSimulatedVocab); break;
      case Lie::kDrafts:  // more than anybody asks for
        for (int i = 0; i < 10; ++i) group.mutable_samples(0)->mutable_drafts()->add_token_ids(3);
        break;
      case Lie::kReady: break;
    }
    return true;
  }
  return false;
}

}  // namespace tandem::testing_support
