// A step on a device, from top to bottom (model_runner.h).
//
// Running ahead. A device works behind the host: launch() returns when a step is on its way, and a
// second one may be launched before the first one's answer is read. Its input ids are then tokens
// that only the device knows (DeviceDecoder). Where the host needs them first (processors that look
// at what was generated, sampling that the device does not do, beams that the device does not
// search), launch() waits by itself.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "runtime/execution/device/device_decoder.h"
#include "runtime/execution/device/device_rows.h"
#include "runtime/execution/model_runner.h"
#include "runtime/execution/step_stages.h"
#include "runtime/sampling/beam_search.h"

namespace tandem {
namespace {

// Sampler inputs as of the rows' launch, before placeholders were appended (beams have none).
std::vector<SamplerSequence> views_at_launch(const std::vector<SampleRow>& rows,
                                             const VerifiedRows& verified) {
  std::vector<SamplerSequence> out = verified.views();
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].num_drafts > 0) continue;  // (their views have the output of that time)
    SamplerSequence& view = out[verified.first_of(i)] = sampler_view(rows[i]);
    if (!uses_beams(*view.params))
      view.output_ids = view.output_ids.first(view.output_ids.size() - 1);
  }
  return out;
}

// What was chosen for each row, in two lists however many rows there are.
class TokensOfRows {
 public:
  // chosen: in the order of the rows.
  TokensOfRows(const std::vector<VerifiedRows::Chosen>& chosen, size_t rows) : begin_(rows + 1, 0) {
    for (const auto& [row, output] : chosen) {
      tokens_.push_back(output.token_id());
      ++begin_[row + 1];
    }
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
  }
  std::span<const int32_t> of(size_t row) const {
    return std::span(tokens_).subspan(begin_[row], begin_[row + 1] - begin_[row]);
  }

 private:
  std::vector<int32_t> tokens_;
  std::vector<size_t> begin_;
};

class DeviceModelRunner final : public ModelRunner {
 public:
  DeviceModelRunner(RankModel rank, const RunnerConfig& config);

  void launch(const proto::StepInput& input) override;
  int steps_launched() const override { return static_cast<int>(flights_.size()); }
  bool ready() override;
  proto::StepOutput finish() override;
  RecordedSteps prepare_decoding(std::span<const int32_t> sizes,
                                 const std::function<void(size_t done)>& told) override;
  DecoderStats decoder_stats() const override { return decoder_.stats(); }
  void time_decoder() override { decoder_.time_steps(); }

 private:
  // A launched step. Its output is complete once `encoder` and `decoder` are empty.
  struct Flight {
    proto::StepOutput out;
    std::vector<SampledRow> sampled;
    std::optional<VerifiedRows> verified;                  // `sampled`, with their drafts
    std::optional<std::pair<uint64_t, uint64_t>> encoder;  // marks: its begin and its end
    std::unique_ptr<DeviceDecoder::Flight> decoder;
    std::vector<SampleRow> host_rows;  // `sampled`, where the host chooses; until the next apply()
    DeviceRows::Placeholders placeholders;
    int decoder_rows = 0;  // of the step
  };

  void wait_for_choices();
  void wait_for_tokens(const ModelStep& step);
  void encode(ModelStep& step, Flight& flight);
  DeviceRows decode(ModelStep& step, Flight& flight);
  void complete_all_but(size_t last);
  void complete(Flight& flight);
  void take_tokens(Flight& flight);
  void take_encoder_seconds(Flight& flight);
  void take_costs(Flight& flight, const TokensOfRows& tokens, double seconds);

  StepStages stages_;
  const bool drafts_;  // steps may have some: what they take is told
  DeviceDecoder decoder_;
  std::deque<Flight> flights_;  // oldest first
};

DeviceModelRunner::DeviceModelRunner(RankModel rank, const RunnerConfig& config)
    : stages_(std::move(rank), config),
      drafts_(config.max_drafts > 0),
      decoder_(stages_.ctx(), stages_.model(), config.block_size, config.record_steps,
               config.max_sequences, stages_.adapters()) {
  if (drafts_) decoder_.time_steps();
}

// --- Launch --------------------------------------------------------------------------------------

void DeviceModelRunner::launch(const proto::StepInput& input) {
  ProfileSpan span(kStepSpan);
  wait_for_choices();
  ModelStep step = stages_.take_message(input);
  decoder_.sequences().forget(step.forgotten);
  wait_for_tokens(step);
  stages_.ctx().backend().begin_step();
  stages_.prepare(input, step, span);
  Flight flight;
  std::optional<DeviceRows> rows;
  or_abort(stages_.group(), [&] {
    if (step.has_encoder_work()) encode(step, flight);
    if (step.has_decoder_work()) rows.emplace(decode(step, flight));
  });
  stages_.advance(step);
  if (rows) {
    flight.placeholders = rows->go_on(*flight.decoder, stages_.table(), decoder_.sequences());
    flight.verified.emplace(rows->take_verified());
  }
  flight.out = std::move(step.out);
  flight.sampled = std::move(step.sampled);
  flights_.push_back(std::move(flight));
}

// The step before this one may go on beside it, unless the host has to choose tokens of it.
void DeviceModelRunner::wait_for_choices() {
  complete_all_but(1);
  if (!flights_.empty() && flights_.back().decoder && flights_.back().decoder->needs_host())
    complete_all_but(0);
}

// Until the host knows all tokens, if it must to say what to do with the next ones. A draft model
// runs many steps before this one: the marks of those under way would be forgotten.
void DeviceModelRunner::wait_for_tokens(const ModelStep& step) {
  const auto asks = [](const WorkerGroup* group) {
    return std::any_of(group->seqs.begin(), group->seqs.end(),
                       [](const WorkerSequence& seq) { return seq.num_drafts > 0; });
  };
  if (std::any_of(step.scheduled.begin(), step.scheduled.end(), asks)) return complete_all_but(0);
  if (flights_.empty() || !flights_.back().decoder) return;
  const auto vocabulary = stages_.model().config().vocab_size;
  for (const auto* group : step.scheduled)
    if (!goes_on_ahead(*group, vocabulary, decoder_.sequences())) return complete_all_but(0);
}

void DeviceModelRunner::encode(ModelStep& step, Flight& flight) {
  ProfileSpan span(kEncoderSpan);
  span.say({step.batch.input.attention.encoder_start_loc.back()});
  DeviceBackend& backend = stages_.ctx().backend();
  const uint64_t from = backend.mark();
  const Tensor states = stages_.encode(step);
  flight.encoder = {from, backend.mark()};
  stages_.pool_vectors(states, step);
  // Its scratch is free again: where the decoder's lies does not depend on the encoder.
  backend.begin_step();
}

DeviceRows DeviceModelRunner::decode(ModelStep& step, Flight& flight) {
  const std::vector<const SampleRow*> sampled = step.sampled_rows();
  DeviceRows rows(sampled, stages_.block_size(), decoder_);
  const auto& all = step.batch.rows;
  const bool prompts = std::any_of(all.begin(), all.end(), [](const SampleRow& row) {
    return row.group->params.has_prompt_logprobs() || row.group->params.has_pooling();
  });
  const CrossWeights weights = stages_.wanted_weights(step);
  Tensor hidden;
  {
    const AdapterSet::Scope adapted(stages_.adapters(), step.batch.decoder_adapters);
    flight.decoder = decoder_.launch(step.batch.input, stages_.cache(), rows.rows(), rows.rounds(),
                                     prompts ? &hidden : nullptr, &weights);
  }
  flight.decoder_rows = static_cast<int>(step.batch.input.input_ids.size());
  if (flight.decoder->needs_host())
    for (const SampleRow* row : sampled) flight.host_rows.push_back(*row);
  if (prompts) {
    stages_.add_weights(weights, step);
    stages_.add_prompt_logprobs(hidden, step);
    stages_.run_heads(hidden, step);
  }
  return rows;
}

// --- Answer --------------------------------------------------------------------------------------

bool DeviceModelRunner::ready() {
  if (flights_.empty()) return false;
  const Flight& oldest = flights_.front();
  DeviceBackend& backend = stages_.ctx().backend();
  return or_abort(stages_.group(), [&] {
    if (oldest.decoder) return backend.reached(oldest.decoder->end());
    return !oldest.encoder || backend.reached(oldest.encoder->second);
  });
}

proto::StepOutput DeviceModelRunner::finish() {
  TANDEM_CHECK(!flights_.empty(), "no step is under way");
  complete(flights_.front());
  proto::StepOutput out = std::move(flights_.front().out);
  flights_.pop_front();
  return out;
}

void DeviceModelRunner::complete_all_but(size_t last) {
  for (size_t i = 0; i + last < flights_.size(); ++i) complete(flights_[i]);
}

void DeviceModelRunner::complete(Flight& flight) {
  if (!flight.decoder && !flight.encoder) return;
  const ProfileSpan span(kDeviceSpan);
  or_abort(stages_.group(), [&] {
    if (flight.decoder) take_tokens(flight);
    if (flight.encoder) take_encoder_seconds(flight);
  });
}

// The table gets them in place of the placeholders.
void DeviceModelRunner::take_tokens(Flight& flight) {
  std::vector<SamplerSequence> views;
  if (flight.decoder->needs_host()) views = views_at_launch(flight.host_rows, *flight.verified);
  DeviceDecoder::Answer answer = decoder_.finish(*flight.decoder, views);
  flight.decoder.reset();
  std::vector<VerifiedRows::Chosen> chosen = flight.verified->take(std::move(answer.rows));
  const TokensOfRows tokens(chosen, flight.sampled.size());
  SequenceTable& table = stages_.table();
  for (const auto& [row, token] : flight.placeholders.rows) table.know(token, tokens.of(row));
  for (const auto& [round, beam, token] : flight.placeholders.beams)
    table.know(token, answer.rounds[round].token_ids(beam));
  for (size_t i = 0; i < answer.rounds.size(); ++i) {
    const SampledRow& first = flight.sampled[flight.placeholders.first_rows[i]];
    *flight.out.mutable_outputs(first.output)->mutable_moves() = std::move(answer.rounds[i]);
  }
  for (auto& [row, output] : chosen) put_sample(flight.out, flight.sampled[row], std::move(output));
  if (drafts_) take_costs(flight, tokens, answer.seconds);
}

// Drafts are made by what steps take, and by how often they were right.
void DeviceModelRunner::take_costs(Flight& flight, const TokensOfRows& tokens, double seconds) {
  flight.out.set_seconds(seconds);
  DraftModel* const drafts = stages_.draft_model();
  if (drafts == nullptr) return;
  for (size_t i = 0; i < flight.sampled.size(); ++i)
    drafts->learn(flight.sampled[i].seq_id, static_cast<int>(tokens.of(i).size()) - 1);
  if (!flight.verified->was_drafted()) return;
  drafts->cost().add_target(flight.decoder_rows, seconds);
  flight.out.set_draft_cost(drafts->cost().ratio());
}

void DeviceModelRunner::take_encoder_seconds(Flight& flight) {
  const auto [from, to] = *flight.encoder;
  DeviceBackend& backend = stages_.ctx().backend();
  backend.wait(to);
  const double seconds = backend.seconds_between(from, to);
  flight.out.set_encoder_seconds(seconds);
  if (drafts_) flight.out.set_seconds(flight.out.seconds() + seconds);
  flight.encoder.reset();
}

// --- Before the first step -----------------------------------------------------------------------

RecordedSteps DeviceModelRunner::prepare_decoding(std::span<const int32_t> sizes,
                                                  const std::function<void(size_t done)>& told) {
  return or_abort(stages_.group(), [&] {
    RecordedSteps out;
    for (size_t i = 0; i < sizes.size(); ++i) {
      out += decoder_.prepare_decoding(sizes[i], stages_.cache());
      told(i + 1);
    }
    return out;
  });
}

}  // namespace

std::unique_ptr<ModelRunner> make_device_model_runner(RankModel rank, const RunnerConfig& config) {
  return std::make_unique<DeviceModelRunner>(std::move(rank), config);
}

}  // namespace tandem
