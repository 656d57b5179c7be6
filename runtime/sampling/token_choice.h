// The rows of a device's logits that need a choice. First come rows for which the device chooses by
// itself (greedy, sampling, beams). Then come rows whose logits the host's sampler reads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/core/context.h"
#include "kernels/ops.h"
#include "kernels/sampling_ops.h"
#include "runtime/protocol/tandem.pb.h"
#include "runtime/sampling/logits_processors.h"

namespace tandem {

// A sequence whose next token is wanted, and the row of its last token in the step.
struct DecoderRow {
  SamplerSequence sequence;
  int32_t token = 0;
  // Where the device has the sequence's tokens (DeviceSequences); below 0: it has not.
  int32_t place = -1;
};

// Whether a device can choose the next token while it alone knows the one before: chooses_ahead
// without beams, searches_ahead with beams. A worker searches ahead where it is asked to
// (SequenceGroupMetadata::beams_ahead).
bool chooses_ahead(const proto::SamplingParams& params, int64_t vocabulary);
bool searches_ahead(const proto::SamplingParams& params, int64_t vocabulary);
// Whether it looks at the sequence's tokens for that: they must be in a place of its memory.
bool keeps_tokens(const proto::SamplingParams& params);

class TokenChoice {
 public:
  TokenChoice(std::span<const DecoderRow> rows, int64_t vocabulary);

  // Fills it up to a shape that comes again, and says which (besides sizes of the step).
  std::vector<int32_t> pad();
  // What the device reads of it, and where that lies there.
  std::vector<int32_t> packed() const;
  void take(const Tensor& there);
  // Once the step is on its way: what was uploaded is gone with it.
  void forget_uploads() {
    tokens = flags_ = edit_indptr_ = edits_ = rules_ = histories_ = places_ = Tensor();
    raw_rows_there_ = nothing_ = masks_there_ = mask_rows_ = Tensor();
  }

  int32_t num_device() const { return num_device_; }
  int32_t padded() const { return padded_; }  // the device's rows, filled up
  int32_t num_host() const { return num_host_; }
  int32_t padded_host() const { return padded_host_; }  // the host's, filled up
  // Whether all rows are greedy, as the logits are, and nobody asks for more than the token and its
  // log-probability: ops::linear_best says that.
  bool is_plain() const { return is_plain_; }
  // Of the rows of the constructor: which one the device's or, behind those, the host's i-th is.
  size_t row(int32_t i) const { return order_[static_cast<size_t>(i)]; }
  // The step's rows of all of them, in that order: before it is filled up, that of `tokens`.
  const std::vector<int32_t>& step_rows() const { return step_rows_; }
  // The inverse of row().
  int32_t index_of(size_t row) const { return index_[row]; }

  // What the device says of its rows: one block, 32 bits each.
  struct Answer {
    Tensor flat;
    Tensor ids, values, log_sums, edited;
    // Of the rows that are kept raw: of the chosen token, and the best.
    Tensor raw_values, ranks, list_ids, list_values;
  };
  int64_t answer_size() const;
  Answer divide(const Tensor& flat) const;
  // `logits` [padded, V], changed by processors. best: [at least padded], gets the tokens.
  // `memory`: tokens of the rows with places; those without beams get theirs.
  void choose(Context& ctx, const Tensor& logits, const Answer& out, const Tensor& best,
              const ops::SequenceMemory& memory) const;
  // The same where is_plain(), of a head that leaves no logits: what it is asked for.
  ops::LinearBestArgs plain(const Answer& out, const Tensor& best) const {
    return {nullptr, {}, tokens, {}, out.log_sums, out.ids, out.values, best};
  }
  // Of the device's row d, from an answer that is on the host.
  proto::SequenceOutput read(int32_t d, const Answer& here) const;

  // After take(): rows of the step, [padded + padded_host] i32.
  Tensor tokens;

 private:
  // Enough to read an answer after the sequences have gone on.
  struct DeviceRow {
    LogitEdits edits;
    int32_t first_edit = 0;
    int32_t flags = 0;
    int candidates = 0;  // of a beam; 0: one token
    int32_t place = -1, length = 0;
    // Among the rows that are kept raw; below 0: it is not. How many of its best are listed, beside
    // the chosen token; below 0: there is no list.
    int32_t raw = -1;
    int listed = -1;
    ops::DrawRule rule;
    int32_t mask = -1;         // among the masks; below 0: it has none
    bool constrained = false;  // where nothing is left, the log-probability says so
  };
  void add_mask(const std::vector<uint32_t>& bits, DeviceRow& row);
  void keep_raw(DeviceRow& row, int listed);
  Tensor raw_rows(Context& ctx, const Tensor& logits, const Answer& out) const;
  float raw_value(const DeviceRow& row, int32_t id, float value, const Answer& here) const;

  std::vector<size_t> order_;
  std::vector<int32_t> index_;
  std::vector<DeviceRow> rows_;
  std::vector<int32_t> step_rows_;  // in `order_`
  int32_t num_device_ = 0, padded_ = 0, num_host_ = 0, padded_host_ = 0;
  int32_t num_edits_ = 0;
  int k_ = 1;
  std::vector<int32_t> masks_;  // one after the other, mask_words_ each
  int32_t num_masks_ = 0, mask_words_ = 0, padded_masks_ = 0;
  std::vector<int32_t> raw_rows_;  // of the device's rows, those that are kept raw
  int32_t padded_raw_ = 0;
  int list_k_ = 0;  // listed of each of them; 0: no lists but of the chosen tokens
  bool draws_ = false, has_places_ = false, is_plain_ = false;
  Tensor flags_, edit_indptr_, edits_, rules_;
  Tensor histories_, places_, masks_there_, mask_rows_;
  Tensor raw_rows_there_, nothing_;
};

}  // namespace tandem
