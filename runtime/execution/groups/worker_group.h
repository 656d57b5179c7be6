// A worker's copy of a request: plain data, which messages change through SequenceTable only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/protocol/pooling_kind.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

class TokenConstraint;  // text/grammar/token_constraint.h

struct WorkerSequence {
  int64_t seq_id = 0;
  int index = 0;                     // its place in the request: seeds depend on it
  std::vector<int32_t> prompt;       // token ids
  std::vector<int32_t> output;       // token ids; below 0: only the device knows the token
  std::vector<int32_t> blocks;       // of its self table; below 0: only the device knows the block
  int num_computed = 0;              // tokens whose keys and values are in the cache
  int chunk = 0;                     // tokens to compute in this step
  std::vector<int32_t> drafts = {};  // what may come behind the chunk, computed with it
  // The draft model is to say them: so many at most, as long as they are so likely. And whether it
  // could, or lacks what it needs of the request.
  int num_drafts = 0;
  float least_likelihood = 0;
  bool drafted = false;
  float beam_score = 0;  // of a beam when it came in full

  int length() const { return static_cast<int>(prompt.size() + output.size()); }
  int32_t token(int position) const {
    const auto at = static_cast<size_t>(position);
    return at < prompt.size() ? prompt[at] : output[at - prompt.size()];
  }
  void forget_drafts() {
    drafts.clear();
    num_drafts = 0;
    drafted = false;
  }
  // Its chunk ends at its last token: the next one is wanted.
  bool samples() const { return chunk > 0 && num_computed + chunk == length(); }
};

// Frames that an encoder reads instead of ids or beside them: [count, width], row by row.
struct WorkerFrames {
  int count = 0, width = 0;   // 0: there are ids alone
  std::vector<float> values;  // none once the encoder has run
};

struct WorkerEncoder {
  int64_t seq_id = 0;
  int length = 0;               // positions: rows of its output, tokens of the cross cache
  std::vector<int32_t> tokens;  // ids; without frames `length` of them, of frames alone none
  WorkerFrames frames;
  std::vector<int32_t> global_positions;  // with global attention, ascending
  std::vector<int32_t> blocks;            // of the cross table; none if it is pooled
  int num_computed = 0;                   // none of the positions or all
  int chunk = 0;                          // all of them in the step that computes them, else none

  bool done() const { return num_computed == length; }
};

struct WorkerGroup {
  std::string request_id;
  proto::SamplingParams params;
  std::shared_ptr<const TokenConstraint> constraint;  // of params.constraint()
  WorkerEncoder encoder;
  std::vector<WorkerSequence> seqs;
  bool compute_encoder = false;  // in this step
  bool prepare_drafts = false;   // with compute_encoder: for the draft model too
  bool beams_ahead = false;      // the worker searches its beams by itself
  bool whole_prompt = false;     // its tokens attend to all of it (whole_prompt.h)
  bool goes_on = false;          // SequenceTable::go_on() was called
  uint64_t last_step = 0;        // of SequenceTable::apply(), that scheduled it
  uint64_t incarnation = 0;      // the step in which it came in full

  // The encoder's output is all that is wanted; or what the model's head makes of the decoder's; or
  // the decoder's weights.
  bool pools() const { return pools_encoder(params); }
  bool has_head() const { return runs_head(params); }
  bool has_weights() const { return aligns(params); }  // of cross-attention
  // Null if it does not have it.
  WorkerSequence* find(int64_t seq_id) {
    for (WorkerSequence& seq : seqs)
      if (seq.seq_id == seq_id) return &seq;
    return nullptr;
  }
};

}  // namespace tandem
