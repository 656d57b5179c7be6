// Launching, recording and reading steps (device_decoder.h).
#include "runtime/execution/device/device_decoder.h"

#include <algorithm>
#include <utility>

#include "kernels/core/padded_size.h"
#include "runtime/execution/device/device_memory.h"
#include "runtime/sampling/sampler.h"

namespace tandem {
namespace {

constexpr size_t kMaxRecordings = 512;
constexpr int64_t kFirstTokens = 1024;
constexpr int kMostReserved = 1 << 20;  // sequences

}  // namespace

struct DeviceDecoder::Recording {
  int seen = 0;
  bool recorded = false, refused = false;
  uint64_t key = 0;
  Result result;
  const void *step = nullptr, *choice = nullptr;  // where inputs lay when it was recorded
};

DeviceDecoder::DeviceDecoder(Context& ctx, Model& model, int block_size, bool record,
                             int max_sequences)
    : ctx_(ctx),
      model_(model),
      record_(record),
      sequences_(ctx, block_size, model.limits().decoder_positions.value_or(0)) {
  if (ctx.on_cpu() || max_sequences == 0) return;
  sequences_.reserve_for(max_sequences);
  reserve_tokens(2 * padded_size(std::min(max_sequences, kMostReserved)));  // and as many beams
}

DeviceDecoder::~DeviceDecoder() = default;

void DeviceDecoder::forget_recordings() {
  ctx_.backend().forget_recordings();
  recordings_.clear();
}

void DeviceDecoder::reserve_tokens(int32_t rows) {
  if (!tokens_.empty() && tokens_.dim(0) >= rows) return;
  const int64_t have = tokens_.empty() ? 0 : tokens_.dim(0);
  const Tensor larger = enlarged(ctx_, tokens_, {grown(have, kFirstTokens, rows)}, DType::kI32);
  if (have > 0) forget_recordings();
  ctx_.backend().synchronize();  // the old place may go
  tokens_ = larger;
}

DeviceDecoder::Result DeviceDecoder::compute(const StepTensors& step, const Work& work,
                                             Tensor* hidden) {
  Result out;
  const TokenChoice& choice = work.choice;
  const ops::SequenceMemory& memory = sequences_.memory();
  ops::substitute_ids(ctx_, {step.input_ids, tokens_});
  if (work.refers_to_pages)
    ops::substitute_pages(ctx_, {step.self_pages.page_indices, memory.pages});
  const Tensor states = model_.decode(step, work.cache);
  if (hidden != nullptr) *hidden = states;
  const int64_t padded = choice.padded(), rows = padded + choice.num_host();
  if (rows == 0) return out;
  const Tensor chosen = ctx_.make({rows, states.dim(1)});
  ops::gather_rows(ctx_, {states, choice.tokens, chosen});
  const Tensor logits = model_.compute_logits(chosen);
  out.logits = logits.rows(padded, rows);
  if (padded == 0) return out;
  const int64_t of_choice = choice.answer_size(), size = of_choice + work.rounds.answer_size();
  out.answer = ctx_.make({size}, DType::kI32);
  const TokenChoice::Answer answer = choice.divide(out.answer.rows(0, of_choice));
  choice.choose(ctx_, logits.rows(0, padded), answer, tokens_, memory);
  if (!work.rounds.empty())
    work.rounds.search(ctx_, answer.ids, answer.values, memory, work.cache,
                       out.answer.rows(of_choice, size),
                       tokens_.rows(padded, padded + work.rounds.padded()));
  return out;
}

// The first step of a shape runs as it is (libraries choose their kernels, memory grows), the
// second is recorded. Its memory is a function of the shape: that is checked where inputs lie.
DeviceDecoder::Result DeviceDecoder::compute_recorded(const StepTensors& step, const Work& work,
                                                      const std::vector<int32_t>& shape) {
  if (recordings_.size() >= kMaxRecordings && !recordings_.contains(shape)) forget_recordings();
  Recording& r = recordings_[shape];
  if (r.seen++ == 0 || r.refused) return compute(step, work, nullptr);
  if (!r.recorded) {
    r.key = next_key_++;
    r.refused = !ctx_.backend().record(r.key, [&] { r.result = compute(step, work, nullptr); });
    if (r.refused) {
      r.result = {};
      return compute(step, work, nullptr);
    }
    r.recorded = true;
    r.step = step.input_ids.raw();
    r.choice = work.choice.tokens.raw();
    ++stats_.recorded;
  }
  TANDEM_CHECK_EQ(r.step, static_cast<const void*>(step.input_ids.raw()));
  TANDEM_CHECK_EQ(r.choice, static_cast<const void*>(work.choice.tokens.raw()));
  ctx_.backend().replay(r.key);
  ++stats_.replayed;
  return r.result;
}

std::unique_ptr<DeviceDecoder::Flight> DeviceDecoder::launch(const ModelInput& in, KvCache& cache,
                                                             std::span<const DecoderRow> rows,
                                                             std::span<const Round> rounds_of_step,
                                                             Tensor* hidden) {
  ++stats_.run;
  // (No make_unique: the constructor is ours alone.)
  std::unique_ptr<Flight> flight(new Flight(TokenChoice(rows, model_.config().vocab_size), {}));
  TokenChoice& choice = flight->choice_;
  BeamRounds& rounds = flight->rounds_;
  for (const Round& r : rounds_of_step) {
    ops::BeamRound round = r.round;
    round.first_row = choice.index_of(r.row);
    TANDEM_CHECK_LE(round.first_row + round.rows, choice.num_device());
    rounds.add(round, *rows[r.row].sequence.params, r.beams);
  }
  const auto& pages = in.attention.self_pages.page_indices;
  const Work work = {choice, rounds, cache,
                     std::any_of(pages.begin(), pages.end(), [](int32_t p) { return p < 0; })};
  StepPlan plan(ctx_, in, model_.step_layout(), StepHalf::kDecoder);
  std::vector<int32_t> shape;
  if (record_ && hidden == nullptr && choice.num_host() == 0 && choice.num_device() > 0 &&
      plan.can_pad()) {
    const StepShape padded = plan.pad();
    shape.assign(padded.sizes.begin(), padded.sizes.end());
    for (const auto& sizes : {choice.pad(), rounds.pad()})
      shape.insert(shape.end(), sizes.begin(), sizes.end());
    shape.push_back(work.refers_to_pages ? 1 : 0);
  }
  reserve_tokens(std::max(choice.padded() + rounds.padded(), 1));
  const std::vector<int32_t> along[] = {choice.packed(), rounds.packed()};
  Tensor there[2];
  const StepTensors step(ctx_, plan, along, there);
  choice.take(there[0]);
  rounds.take(there[1]);
  if (timed_) flight->begin_ = ctx_.backend().mark();
  const Result result =
      shape.empty() ? compute(step, work, hidden) : compute_recorded(step, work, shape);
  choice.forget_uploads();
  rounds.forget_uploads();
  flight->logits_ = result.logits;
  fetch(result, rows.size(), *flight);
  return flight;
}

// What the host will read, in the stream's order.
void DeviceDecoder::fetch(const Result& result, size_t rows, Flight& flight) {
  const TokenChoice& choice = flight.choice_;
  flight.ids_.resize(rows, 0);
  for (int32_t d = 0; d < choice.num_device(); ++d) flight.ids_[choice.row(d)] = -1 - d;
  if (choice.num_device() > 0) {
    const int64_t size = result.answer.dim(0);
    if (!landings_.empty()) {
      flight.landing_ = std::move(landings_.back());
      landings_.pop_back();
    }
    if (flight.landing_.size() < size)
      flight.landing_ = ctx_.backend().allocate_host({2 * size}, DType::kI32);
    ctx_.backend().copy_out(result.answer, flight.landing_.rows(0, size));
  }
  flight.end_ = ctx_.backend().mark();
}

DeviceDecoder::Answer DeviceDecoder::finish(Flight& flight,
                                            std::span<const SamplerSequence> sequences) {
  const TokenChoice& choice = flight.choice_;
  const int32_t num_device = choice.num_device(), num_host = choice.num_host();
  Answer out;
  out.rows.resize(static_cast<size_t>(num_device + num_host));
  const Tensor logits = num_host > 0 ? ctx_.on_host(flight.logits_) : Tensor();
  flight.logits_ = Tensor();
  ctx_.backend().wait(flight.end_);
  if (flight.begin_) stats_.seconds += ctx_.backend().seconds_between(*flight.begin_, flight.end_);
  if (num_device > 0) {
    const int64_t size = choice.answer_size();
    const auto here = choice.divide(flight.landing_.rows(0, size));
    for (int32_t d = 0; d < num_device; ++d) out.rows[choice.row(d)] = choice.read(d, here);
    const BeamRounds& rounds = flight.rounds_;
    for (size_t i = 0; i < rounds.size(); ++i)
      out.rounds.push_back(rounds.read(i, flight.landing_.rows(size, size + rounds.answer_size())));
    landings_.push_back(std::move(flight.landing_));
  }
  if (num_host > 0) TANDEM_CHECK_EQ(sequences.size(), out.rows.size());
  ctx_.pool().run(num_host, [&](int64_t i, int) {
    const size_t row = choice.row(num_device + static_cast<int32_t>(i));
    out.rows[row] =
        tandem::sample(sequences[row], {logits.row<float>(i), static_cast<size_t>(logits.dim(1))});
  });
  return out;
}

}  // namespace tandem
