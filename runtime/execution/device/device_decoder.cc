// Launching, recording and reading steps (device_decoder.h).
#include "runtime/execution/device/device_decoder.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "kernels/core/padded_size.h"
#include "runtime/execution/device/device_memory.h"
#include "runtime/sampling/sampler.h"

namespace tandem {
namespace {

constexpr size_t kMaxRecordings = 1024;
constexpr int64_t kFirstTokens = 1024;
constexpr int kMostReserved = 1 << 20;  // sequences
constexpr int kLandings = 4;            // steps under way whose answers were not read
// Of a row's answer: candidates and lists, an id and a value each; changed entries.
constexpr int64_t kWordsOfRow = 4 * int64_t{ops::kMaxSelect} + 8;

}  // namespace

struct DeviceDecoder::Recording {
  int seen = 0;
  bool recorded = false, refused = false;
  uint64_t key = 0;
  Result result;
  const void *step = nullptr, *choice = nullptr;  // where inputs lay when it was recorded
};

DeviceDecoder::DeviceDecoder(Context& ctx, Model& model, int block_size, bool record,
                             int max_sequences, AdapterSet* adapters)
    : ctx_(ctx),
      model_(model),
      record_(record),
      adapters_(adapters),
      padding_(model.limits().position_padding.decoder),
      room_{block_size, model.limits().decoder_positions.value_or(0),
            model.limits().encoder_positions.value_or(0)},
      sequences_(ctx, block_size, model.limits().decoder_positions.value_or(0)) {
  if (ctx.on_cpu() || max_sequences == 0) return;
  sequences_.reserve_for(max_sequences);
  const int32_t rows = padded_size(std::min(max_sequences, kMostReserved));
  reserve_tokens(2 * rows);  // and as many beams
  reserve_landings(rows);
}

DeviceDecoder::~DeviceDecoder() = default;

void DeviceDecoder::forget_recordings() {
  std::vector<uint64_t> keys;
  for (const auto& [shape, recording] : recordings_)
    if (recording.recorded) keys.push_back(recording.key);
  ctx_.backend().forget_recordings(keys);
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

// What the host will read of it is told at its end, to where `work` says.
DeviceDecoder::Result DeviceDecoder::compute(const StepTensors& step, const Work& work,
                                             Tensor* hidden) {
  const Result out = compute_answer(step, work, hidden);
  if (!out.answer.empty()) ops::tell_host(ctx_, {out.answer, work.landing});
  return out;
}

DeviceDecoder::Result DeviceDecoder::compute_answer(const StepTensors& step, const Work& work,
                                                    Tensor* hidden) {
  Result out;
  const TokenChoice& choice = work.choice;
  const ops::SequenceMemory& memory = sequences_.memory();
  ops::substitute_ids(
      ctx_, {step.input_ids, tokens_, padding_ ? step.positions : Tensor(), padding_.value_or(-1)});
  if (work.refers_to_pages)
    ops::substitute_pages(ctx_, {step.self_pages.page_indices, memory.pages});
  const Tensor states = model_.decode(step, work.cache);
  if (hidden != nullptr) *hidden = states;
  const int64_t padded = choice.padded(), rows = padded + choice.padded_host();
  if (rows == 0) return out;
  if (work.takes_best) {
    out.answer = ctx_.make({choice.answer_size()}, DType::kI32);
    model_.take_best(states, choice.plain(choice.divide(out.answer), tokens_));
    return out;
  }
  const Tensor chosen = ctx_.make({rows, states.dim(1)});
  ops::gather_rows(ctx_, {states, choice.tokens, chosen});
  const AdapterSet::Scope scope(
      adapters_, has_adapted_rows() ? adapters_->rows().chosen(choice.step_rows()) : AdapterRows());
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
    r.key = ctx_.backend().new_key();
    const size_t free = ctx_.backend().memory().free;
    r.refused = !ctx_.backend().record(r.key, [&] { r.result = compute(step, work, nullptr); });
    recording_bytes_ += free - std::min(free, ctx_.backend().memory().free);
    if (r.refused) {
      r.result = {};
      return compute(step, work, nullptr);
    }
    r.recorded = true;
    r.step = step.input_ids.raw();
    r.choice = work.choice.tokens.raw();
    ++stats_.recorded;
    stats_.nodes = ctx_.backend().nodes_recorded();
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
                                                             Tensor* hidden,
                                                             const CrossWeights* weights) {
  ++stats_.run;
  // (No make_unique: the constructor is ours alone.)
  std::unique_ptr<Flight> flight(new Flight(TokenChoice(rows, model_.config().vocab_size), {}));
  const TokenChoice& choice = flight->choice_;
  for (const Round& r : rounds_of_step) {
    ops::BeamRound round = r.round;
    round.first_row = choice.index_of(r.row);
    TANDEM_CHECK_LE(round.first_row + round.rows, choice.num_device());
    flight->rounds_.add(round, *rows[r.row].sequence.params, r.beams);
  }
  StepPlan plan(ctx_, in, model_.step_layout(), StepHalf::kDecoder);
  std::optional<StepShape> shape;
  const bool chooses = choice.num_device() + choice.num_host() > 0;
  if (record_ && hidden == nullptr && !has_adapted_rows() && chooses && plan.can_pad() &&
      model_.may_record(in.attention))
    shape = plan.shape(room_);
  TANDEM_CHECK(hidden != nullptr || weights == nullptr || weights->wanted.empty());
  flight->logits_ = run(plan, shape, *flight, cache, {hidden, weights}).logits;
  flight->ids_.resize(rows.size(), 0);
  for (int32_t d = 0; d < choice.num_device(); ++d) flight->ids_[choice.row(d)] = -1 - d;
  flight->end_ = ctx_.backend().mark();
  return flight;
}

// Page-locked memory is allocated before the first step: the driver waits for the whole device when
// it gives some out. What rows rarely ask for all at once is bounded, so that it stays small.
void DeviceDecoder::reserve_landings(int32_t rows) {
  constexpr int64_t kMostWords = int64_t{1} << 20;
  for (int i = 0; i < kLandings; ++i)
    landings_.push_back(
        ctx_.backend().allocate_host({std::min(rows * kWordsOfRow, kMostWords)}, DType::kI32));
}

// A place for so many words of an answer, which none under way has, and the words that say where it
// is.
std::vector<int32_t> DeviceDecoder::land(Flight& flight, int64_t size) {
  if (!landings_.empty()) {
    flight.landing_ = std::move(landings_.back());
    landings_.pop_back();
  }
  if (flight.landing_.size() < size)
    flight.landing_ = ctx_.backend().allocate_host({2 * size}, DType::kI32);
  const auto address = reinterpret_cast<uintptr_t>(flight.landing_.raw());
  return {static_cast<int32_t>(address), static_cast<int32_t>(address >> 32)};
}

// `shape`: what the plan is filled up to, to be recorded.
DeviceDecoder::Result DeviceDecoder::run(StepPlan& plan, const std::optional<StepShape>& shape,
                                         Flight& flight, KvCache& cache, const Wanted& wanted,
                                         bool may_take_best) {
  TokenChoice& choice = flight.choice_;
  BeamRounds& rounds = flight.rounds_;
  const auto& pages = plan.in.attention.self_pages.page_indices;
  std::vector<int32_t> sizes;
  if (shape) {
    plan.fill_up(*shape, room_);
    sizes = shape->values();
    for (const auto& more : {choice.pad(), rounds.pad()})
      sizes.insert(sizes.end(), more.begin(), more.end());
  }
  const bool refers = std::any_of(pages.begin(), pages.end(), [](int32_t p) { return p < 0; });
  const bool best = may_take_best && choice.is_plain() && model_.takes_best(choice.padded());
  Work work = {choice, rounds, cache, refers, best, {}};
  if (shape) sizes.insert(sizes.end(), {refers ? 1 : 0, best ? 1 : 0});
  reserve_tokens(std::max(choice.padded() + rounds.padded(), 1));
  const int64_t size = choice.padded() > 0 ? choice.answer_size() + rounds.answer_size() : 0;
  const std::vector<int32_t> along[] = {choice.packed(), rounds.packed(), land(flight, size)};
  Tensor there[3];
  StepTensors step(ctx_, plan, along, there);
  if (wanted.weights != nullptr && !wanted.weights->wanted.empty())
    step.cross_weights = wanted.weights;
  choice.take(there[0]);
  rounds.take(there[1]);
  work.landing = there[2];
  if (timed_) flight.begin_ = ctx_.backend().mark();
  ctx_.backend().expect_rows(step.input_ids.dim(0));
  const Result result =
      shape ? compute_recorded(step, work, sizes) : compute(step, work, wanted.hidden);
  choice.forget_uploads();
  rounds.forget_uploads();
  return result;
}

namespace {

// What listed_keys() gives up to the limit.
std::vector<int32_t> key_lists(int32_t limit) {
  constexpr int32_t kLongest = 1 << 14;
  std::vector<int32_t> out{listed_keys(1, limit)};
  while (limit > out.back() && out.back() < kLongest)
    out.push_back(listed_keys(out.back() + 1, limit));
  return out;
}

}  // namespace

// Each shape once as it is, and once recorded: as its first steps would be.
RecordedSteps DeviceDecoder::prepare_decoding(int32_t sequences, KvCache& cache) {
  proto::SamplingParams greedy;
  greedy.set_max_tokens(std::numeric_limits<int32_t>::max());
  std::vector<DecoderRow> rows(static_cast<size_t>(sequences));
  for (int32_t i = 0; i < sequences; ++i)
    rows[static_cast<size_t>(i)] = {{&greedy, {}, {}, {}, 0}, i, -1};
  ModelInput in;
  in.input_ids.assign(rows.size(), 0);
  in.positions.assign(rows.size(), 0);
  const DecoderStats before = stats_;
  RecordedSteps out;
  for (const int32_t self_keys : key_lists(room_.self_keys)) {
    for (const int32_t cross_keys : key_lists(room_.cross_keys)) {
      const StepShape shape = StepShape::of_decoding(sequences, self_keys, cross_keys);
      // With logits, and without: rows with processors have them.
      const int ways = model_.takes_best(shape.tokens) ? 2 : 1;
      for (int turn = 0; turn < 2 * ways; ++turn) {
        ctx_.backend().begin_step();
        Flight flight(TokenChoice(rows, model_.config().vocab_size), {});
        StepPlan plan(ctx_, in, model_.step_layout(), StepHalf::kDecoder);
        run(plan, shape, flight, cache, {}, /*may_take_best=*/turn % ways == 1);
        landings_.push_back(std::move(flight.landing_));  // (nobody reads it)
      }
    }
  }
  ctx_.backend().synchronize();
  ctx_.backend().begin_step();
  out.count = static_cast<int>(stats_.recorded - before.recorded);
  out.bytes = std::exchange(recording_bytes_, 0);
  stats_ = before;
  stats_.prepared += out.count;
  return out;
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
  if (flight.begin_) {
    out.seconds = ctx_.backend().seconds_between(*flight.begin_, flight.end_);
    stats_.seconds += out.seconds;
  }
  if (num_device > 0) {
    const int64_t size = choice.answer_size();
    const auto here = choice.divide(flight.landing_.rows(0, size));
    for (int32_t d = 0; d < num_device; ++d) out.rows[choice.row(d)] = choice.read(d, here);
    const BeamRounds& rounds = flight.rounds_;
    for (size_t i = 0; i < rounds.size(); ++i)
      out.rounds.push_back(rounds.read(i, flight.landing_.rows(size, size + rounds.answer_size())));
  }
  if (!flight.landing_.empty()) landings_.push_back(std::move(flight.landing_));
  if (num_host > 0) TANDEM_CHECK_EQ(sequences.size(), out.rows.size());
  ctx_.pool().run(num_host, [&](int64_t i, int) {
    const size_t row = choice.row(num_device + static_cast<int32_t>(i));
    out.rows[row] =
        tandem::sample(sequences[row], {logits.row<float>(i), static_cast<size_t>(logits.dim(1))});
  });
  return out;
}

}  // namespace tandem
