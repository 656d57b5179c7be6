// Rows that a device chooses for by itself (greedy, beams) come first, then those whose logits the
// host's sampler wants.
#include "runtime/device_decoder.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "runtime/beam_search.h"
#include "runtime/sampler.h"

namespace tandem {
namespace {

constexpr size_t kMaxRecordings = 512;

// How many of a row's best are wanted; 0: the host's sampler has to see the row.
int wanted_of(const SamplerSequence& seq, int64_t vocabulary) {
  const proto::SamplingParams& p = *seq.params;
  if (p.do_sample() || p.has_logprobs() || p.renormalize_logits()) return 0;
  const int k = uses_beams(p) ? static_cast<int>(num_beam_candidates(p)) : 1;
  return k <= ops::kMaxSelect && k <= vocabulary ? k : 0;
}

// The next `count` elements of a flat tensor.
Tensor next(const Tensor& flat, int64_t& at, int64_t count) {
  at += count;
  return flat.rows(at - count, at);
}

}  // namespace

// What is chosen from: device rows first, in `order`, filled up to `padded` of them.
struct DeviceDecoder::Choice {
  Choice(std::span<const DecoderRow> rows, int64_t vocabulary);
  void pad() {
    padded = padded_size(padded);
    num_edits = doubled_size(std::max(num_edits, 1));
  }
  void upload(Context& ctx);

  std::vector<size_t> order;      // of `rows`
  std::vector<LogitEdits> edits;  // of the device rows
  std::vector<int32_t> first_edit;
  int32_t num_device = 0, padded = 0, num_host = 0;
  int32_t num_edits = 0;
  int k = 1;
  std::vector<int32_t> tokens;  // rows of the step, in `order`
  std::vector<int32_t> flags;

  Tensor d_tokens, d_flags, d_edit_indptr, d_edits;
};

struct DeviceDecoder::Result {
  Tensor logits;  // of the host's rows
  Tensor chosen;  // of the device's, flat, 32 bits each: what follows
  Tensor ids, values, log_sums, edited;

  // The parts of `flat`, which is choice_size() long.
  static int64_t choice_size(const Choice& c) {
    return int64_t{c.padded} * (2 * c.k + 1) + c.d_edits.dim(0);
  }
  void divide(const Tensor& flat, const Choice& c) {
    int64_t at = 0;
    const int64_t rows = c.padded;
    chosen = flat;
    ids = next(flat, at, rows * c.k).reshape({rows, c.k});
    values = next(flat, at, rows * c.k).reshape({rows, c.k}).as(DType::kF32);
    log_sums = next(flat, at, rows).as(DType::kF32);
    edited = next(flat, at, c.d_edits.dim(0)).as(DType::kF32);
  }
};

struct DeviceDecoder::Recording {
  int seen = 0;
  bool recorded = false, refused = false;
  uint64_t key = 0;
  Result result;
  const void *step = nullptr, *choice = nullptr;  // where inputs lay when it was recorded
};

DeviceDecoder::DeviceDecoder(Context& ctx, Model& model, bool record)
    : ctx_(ctx), model_(model), record_(record) {}

DeviceDecoder::~DeviceDecoder() = default;

DeviceDecoder::Choice::Choice(std::span<const DecoderRow> rows, int64_t vocabulary) {
  std::vector<size_t> host;
  for (size_t i = 0; i < rows.size(); ++i) {
    const SamplerSequence& seq = rows[i].sequence;
    const int wanted = wanted_of(seq, vocabulary);
    std::optional<LogitEdits> changes;
    if (wanted > 0) changes = needs_processing(seq) ? logit_edits(seq, vocabulary) : LogitEdits{};
    // A row in which nothing is left is the host's as well.
    if (!changes || (changes->masked && changes->list.empty())) {
      host.push_back(i);
      continue;
    }
    order.push_back(i);
    k = std::max(k, wanted);
    flags.push_back((uses_beams(*seq.params) ? ops::kRowLogSoftmax : 0) |
                    (changes->masked ? ops::kRowMasked : 0));
    first_edit.push_back(num_edits);
    num_edits += static_cast<int32_t>(changes->list.size());
    edits.push_back(std::move(*changes));
  }
  num_device = padded = static_cast<int32_t>(order.size());
  num_host = static_cast<int32_t>(host.size());
  order.insert(order.end(), host.begin(), host.end());
  for (const size_t i : order) tokens.push_back(rows[i].token);
}

void DeviceDecoder::Choice::upload(Context& ctx) {
  const auto rows = static_cast<size_t>(padded);
  std::vector<int32_t> indices(tokens.begin(), tokens.begin() + num_device);
  indices.resize(rows, 0);
  indices.insert(indices.end(), tokens.begin() + num_device, tokens.end());
  std::vector<int32_t> all_flags = flags, indptr(rows + 1), list;
  all_flags.resize(rows, 0);
  for (size_t i = 0; i < edits.size(); ++i) {
    indptr[i] = first_edit[i];
    for (const auto& e : edits[i].list)
      list.insert(list.end(),
                  {e.id, static_cast<int32_t>(e.edit), std::bit_cast<int32_t>(e.value)});
  }
  std::fill(indptr.begin() + num_device, indptr.end(), static_cast<int32_t>(list.size() / 3));
  list.resize(static_cast<size_t>(std::max(num_edits, 1)) * 3, 0);
  std::vector<int32_t> all = indices;
  for (const auto* part : {&all_flags, &indptr, &list})
    all.insert(all.end(), part->begin(), part->end());
  const Tensor there = ctx.make({static_cast<int64_t>(all.size())}, DType::kI32);
  ctx.backend().copy_in(Tensor::borrow(all), there);
  int64_t at = 0;
  d_tokens = next(there, at, std::ssize(indices));
  d_flags = next(there, at, padded);
  d_edit_indptr = next(there, at, padded + 1);
  d_edits = next(there, at, std::ssize(list)).reshape({std::ssize(list) / 3, 3});
}

DeviceDecoder::Result DeviceDecoder::compute(const StepTensors& step, const Choice& choice,
                                             KvCache& cache, Tensor* hidden) {
  Result out;
  const Tensor states = model_.decode(step, cache);
  if (hidden != nullptr) *hidden = states;
  const int64_t rows = choice.padded + choice.num_host;
  if (rows == 0) return out;
  const Tensor chosen = ctx_.make({rows, states.dim(1)});
  ops::gather_rows(ctx_, {states, choice.d_tokens, chosen});
  const Tensor logits = model_.compute_logits(chosen);
  out.logits = logits.rows(choice.padded, rows);
  if (choice.padded == 0) return out;
  out.divide(ctx_.make({Result::choice_size(choice)}, DType::kI32), choice);
  ops::select(ctx_, {logits.rows(0, choice.padded), choice.d_flags, choice.d_edit_indptr,
                     choice.d_edits, choice.k, out.log_sums, out.edited, out.ids, out.values});
  return out;
}

// The first step of a shape runs as it is (libraries choose their kernels, memory grows), the
// second is recorded. Its memory is a function of the shape: that is checked where inputs lie.
DeviceDecoder::Result DeviceDecoder::compute_recorded(const StepTensors& step, const Choice& choice,
                                                      KvCache& cache,
                                                      const std::vector<int32_t>& shape) {
  if (recordings_.size() >= kMaxRecordings && !recordings_.contains(shape)) {
    ctx_.backend().forget_recordings();
    recordings_.clear();
  }
  Recording& r = recordings_[shape];
  if (r.seen++ == 0 || r.refused) return compute(step, choice, cache, nullptr);
  if (!r.recorded) {
    r.key = next_key_++;
    r.refused =
        !ctx_.backend().record(r.key, [&] { r.result = compute(step, choice, cache, nullptr); });
    if (r.refused) {
      r.result = {};
      return compute(step, choice, cache, nullptr);
    }
    r.recorded = true;
    r.step = step.input_ids.raw();
    r.choice = choice.d_tokens.raw();
    ++stats_.recorded;
  }
  TANDEM_CHECK_EQ(r.step, static_cast<const void*>(step.input_ids.raw()));
  TANDEM_CHECK_EQ(r.choice, static_cast<const void*>(choice.d_tokens.raw()));
  ctx_.backend().replay(r.key);
  ++stats_.replayed;
  return r.result;
}

std::vector<proto::SequenceOutput> DeviceDecoder::run(const ModelInput& in, const StepTensors* sent,
                                                      KvCache& cache,
                                                      std::span<const DecoderRow> rows,
                                                      Tensor* hidden) {
  ++stats_.run;
  Choice choice(rows, model_.config().vocab_size);
  if (sent != nullptr) {
    choice.upload(ctx_);
    return read(choice, compute(*sent, choice, cache, hidden), rows);
  }
  StepPlan plan(ctx_, in, model_.step_layout());
  std::vector<int32_t> shape;
  if (record_ && hidden == nullptr && choice.num_host == 0 && choice.num_device > 0 &&
      plan.can_pad()) {
    choice.pad();
    const StepShape padded = plan.pad();
    shape.assign(padded.sizes.begin(), padded.sizes.end());
    shape.insert(shape.end(), {choice.padded, choice.num_edits, choice.k});
  }
  const StepTensors step(ctx_, plan);
  choice.upload(ctx_);
  const Result result = shape.empty() ? compute(step, choice, cache, hidden)
                                      : compute_recorded(step, choice, cache, shape);
  return read(choice, result, rows);
}

std::vector<proto::SequenceOutput> DeviceDecoder::read(const Choice& choice, const Result& result,
                                                       std::span<const DecoderRow> rows) {
  std::vector<proto::SequenceOutput> out(rows.size());
  Tensor logits;
  Result here;
  if (choice.num_host > 0) {
    logits = Tensor(result.logits.shape(), DType::kF32);
    ctx_.backend().copy_out(result.logits, logits);
  }
  if (choice.num_device > 0) {
    const int64_t size = result.chosen.dim(0);
    if (landing_.size() < size) landing_ = ctx_.backend().allocate_host({2 * size}, DType::kI32);
    here.divide(landing_.rows(0, size), choice);
    ctx_.backend().copy_out(result.chosen, here.chosen);
  }
  ctx_.backend().synchronize();
  for (int32_t d = 0; d < choice.num_device; ++d) {
    const auto device_row = static_cast<size_t>(d);
    const size_t row = choice.order[device_row];
    const SamplerSequence& seq = rows[row].sequence;
    const int32_t* best = here.ids.row<int32_t>(d);
    const float* value = here.values.row<float>(d);
    if (uses_beams(*seq.params)) {
      proto::BeamCandidates& candidates = *out[row].mutable_candidates();
      const int wanted = static_cast<int>(num_beam_candidates(*seq.params));
      candidates.mutable_token_ids()->Add(best, best + wanted);
      candidates.mutable_logprobs()->Add(value, value + wanted);
      continue;
    }
    // The log-probability is that of the raw logits: before processors changed the entry.
    const auto& list = choice.edits[device_row].list;
    const auto edit = std::lower_bound(list.begin(), list.end(), best[0],
                                       [](const auto& e, int32_t id) { return e.id < id; });
    const float raw = edit != list.end() && edit->id == best[0]
                          ? here.edited.data<float>()[choice.first_edit[device_row] +
                                                      static_cast<int32_t>(edit - list.begin())]
                          : value[0];
    out[row].set_token_id(best[0]);
    out[row].set_logprob(raw - here.log_sums.data<float>()[d]);
  }
  ctx_.pool().run(choice.num_host, [&](int64_t i, int) {
    const size_t row = choice.order[static_cast<size_t>(choice.num_device + i)];
    out[row] = tandem::sample(rows[row].sequence,
                              {logits.row<float>(i), static_cast<size_t>(logits.dim(1))});
  });
  return out;
}

}  // namespace tandem
