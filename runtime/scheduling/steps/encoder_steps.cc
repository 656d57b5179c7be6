#include "runtime/scheduling/steps/encoder_steps.h"

#include <algorithm>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "runtime/scheduling/steps/step_message_writer.h"

namespace tandem {

EncoderSteps::EncoderSteps(const SchedulerConfig& config, BlockManager& blocks)
    : config_(config),
      blocks_(blocks),
      ranks_(static_cast<size_t>(config.encoder_ranks)),
      seconds_(ranks_.size()) {}

bool EncoderSteps::is_encoder_rank(int rank) const {
  return rank >= config_.first_encoder_rank &&
         rank < config_.first_encoder_rank + config_.encoder_ranks;
}

// --- Groups --------------------------------------------------------------------------------------

void EncoderSteps::add(SequenceGroup& group) {
  TANDEM_CHECK(!group.encoder_computed());
  group.set_encoder_place(EncoderPlace::kWaits);
}

void EncoderSteps::forget(const QueuedGroup& queued) {
  SequenceGroup& group = *queued.group;
  const EncoderPlace place = group.encoder_place();
  group.set_encoder_place(EncoderPlace::kHere);
  if (place != EncoderPlace::kUnderWay) return;
  for (Rank& rank : ranks_)
    for (Step& step : rank.steps)
      for (Input& input : step.inputs)
        if (input.queued == &queued) input.queued = nullptr;
  for (Ready& ready : ready_)
    if (ready.input.queued == &queued) ready.input.queued = nullptr;
}

// --- Steps ---------------------------------------------------------------------------------------

// Of the ranks that may have another step, one with the fewest tokens under way.
EncoderSteps::Rank* EncoderSteps::idlest() {
  Rank* best = nullptr;
  int least = 0;
  for (Rank& rank : ranks_) {
    if (rank.steps.size() >= kStepsOfRank) continue;
    int tokens = 0;
    for (const Step& step : rank.steps) tokens += step.tokens;
    if (best != nullptr && tokens >= least) continue;
    best = &rank;
    least = tokens;
  }
  return best;
}

std::optional<int> EncoderSteps::next(double now, const GroupQueues& queues,
                                      proto::StepInput& message) {
  Rank* const rank = idlest();
  if (rank == nullptr) return std::nullopt;
  const int most = std::min(kTokensOfStep, config_.max_num_batched_tokens);
  Step step{rank->next_number};
  int next_block = 0;
  for (const QueuedGroup* queued : queues.running()) {
    SequenceGroup& group = *queued->group;
    if (group.encoder_place() != EncoderPlace::kWaits) continue;
    const int tokens = group.encoder_seq().length();
    if (step.tokens > 0 && step.tokens + tokens > most) break;
    step.tokens += tokens;
    step.inputs.push_back({queued, group.request_id(), group.encoder_seq().seq_id(),
                           group.seqs().front()->seq_id(), group.pools_encoder()});
    write(group, next_block, *message.add_groups());
    group.set_encoder_place(EncoderPlace::kUnderWay);
    if (!group.first_scheduled_time) group.first_scheduled_time = now;
  }
  if (step.inputs.empty()) return std::nullopt;
  message.set_step(rank->next_number++);
  for (std::string& id : rank->known) message.add_finished_request_ids(std::move(id));
  rank->known.clear();
  for (const Input& input : step.inputs) rank->known.push_back(input.request_id);
  if (rank->steps.empty()) rank->waiting_since = now;
  rank->steps.push_back(std::move(step));
  return config_.first_encoder_rank + static_cast<int>(rank - ranks_.data());
}

// The rank keeps what it computes in blocks of its own, which each step begins anew. A request that
// generates is to it an encoder's input alone.
void EncoderSteps::write(const SequenceGroup& group, int& next_block,
                         proto::SequenceGroupMetadata& out) const {
  out.set_request_id(group.request_id());
  out.set_is_prompt(true);
  out.set_compute_encoder(true);
  write_encoder(group, /*compute=*/true, *out.mutable_encoder_seq_data());
  const Sequence& seq = *group.seqs().front();
  proto::SequenceData& data = *out.add_seq_data();
  data.set_seq_id(seq.seq_id());
  out.add_block_tables()->set_seq_id(seq.seq_id());
  if (group.pools_encoder()) {
    *out.mutable_sampling_params() = group.params();
    return;
  }
  proto::SamplingParams& params = *out.mutable_sampling_params();
  if (group.params().has_adapter()) *params.mutable_adapter() = group.params().adapter();
  data.add_prompt_token_ids(seq.prompt_tokens().front());
  for (int i = blocks_.blocks_for(group.encoder_seq().length()); i > 0; --i)
    out.mutable_cross_block_table()->add_blocks(next_block++);
}

void EncoderSteps::check(const Step& step, const proto::StepOutput& output) {
  const auto fail = [](const std::string& what) {
    throw std::runtime_error("encoder step output: " + what);
  };
  if (output.outputs_size() != static_cast<int>(step.inputs.size()))
    fail(std::to_string(output.outputs_size()) + " answers to " +
         std::to_string(step.inputs.size()) + " inputs");
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    const proto::SequenceGroupOutput& answer = output.outputs(static_cast<int>(i));
    const Input& input = step.inputs[i];
    const std::string about = "request \"" + input.request_id + "\": ";
    if (answer.request_id() != input.request_id || answer.seq_id() != input.answer_id)
      fail(about + "an answer of request \"" + answer.request_id() + "\"");
    if (answer.samples_size() > 0) fail(about + "a token");
    if (answer.has_embedding() != input.pooled)
      fail(about + (input.pooled ? "no pooled vector" : "a pooled vector"));
  }
}

std::vector<QueuedGroup*> EncoderSteps::complete(int rank, const proto::StepOutput& output,
                                                 double now) {
  Rank& from = ranks_.at(static_cast<size_t>(rank - config_.first_encoder_rank));
  if (from.steps.empty() || from.steps.front().number != output.step())
    throw std::runtime_error("encoder step output: step " + std::to_string(output.step()) +
                             " is not the oldest that the rank computes");
  check(from.steps.front(), output);
  std::vector<QueuedGroup*> ended;
  for (Input& input : from.steps.front().inputs) {
    if (!input.pooled)
      ready_.push_back({rank, std::move(input)});
    else if (input.queued != nullptr)
      ended.push_back(const_cast<QueuedGroup*>(input.queued));
  }
  from.steps.pop_front();
  from.waiting_since = now;
  seconds_[static_cast<size_t>(rank - config_.first_encoder_rank)] += output.seconds();
  for (QueuedGroup* queued : ended) queued->group->set_encoder_place(EncoderPlace::kHere);
  return ended;
}

void EncoderSteps::take(PlannedStep& step) {
  for (const auto& [rank, input] : ready_) {
    PlannedStep::Take& take = step.takes.emplace_back();
    take.rank = rank;
    take.seq_id = input.seq_id;
    if (input.queued == nullptr) continue;
    SequenceGroup& group = *input.queued->group;
    take.blocks = blocks_.tables().cross(group);
    group.set_encoder_place(EncoderPlace::kHere);
    group.set_encoder_computed(true);
    blocks_.cache_encoder(group);
  }
  ready_.clear();
}

bool EncoderSteps::awaits_equal(const SequenceGroup& group, const GroupQueues& queues) const {
  if (!enabled() || !config_.enable_encoder_cache || group.pools_encoder()) return false;
  return std::any_of(queues.running().begin(), queues.running().end(),
                     [&](const QueuedGroup* queued) {
                       const SequenceGroup& other = *queued->group;
                       return other.awaits_encoder() && !other.pools_encoder() &&
                              other.source_key() == group.source_key();
                     });
}

// --- What is under way ---------------------------------------------------------------------------

int EncoderSteps::steps_in_flight() const {
  size_t steps = 0;
  for (const Rank& rank : ranks_) steps += rank.steps.size();
  return static_cast<int>(steps);
}

std::optional<double> EncoderSteps::waiting_since() const {
  std::optional<double> since;
  for (const Rank& rank : ranks_)
    if (!rank.steps.empty())
      since = std::min(since.value_or(rank.waiting_since), rank.waiting_since);
  return since;
}

uint64_t EncoderSteps::oldest_number(int rank) const {
  const Rank& of = ranks_.at(static_cast<size_t>(rank - config_.first_encoder_rank));
  return of.steps.empty() ? 0 : of.steps.front().number;
}

std::vector<std::string> EncoderSteps::request_ids() const {
  std::vector<std::string> ids;
  for (const Rank& rank : ranks_)
    for (const Step& step : rank.steps)
      for (const Input& input : step.inputs) ids.push_back(input.request_id);
  return ids;
}

void EncoderSteps::check_integrity(const GroupQueues& queues) const {
  std::unordered_map<const QueuedGroup*, int> places;
  const auto count = [&](const Input& input) {
    if (input.queued != nullptr) ++places[input.queued];
  };
  for (const Rank& rank : ranks_) {
    TANDEM_CHECK_LE(rank.steps.size(), kStepsOfRank);
    uint64_t number = rank.next_number - rank.steps.size();
    for (const Step& step : rank.steps) {
      TANDEM_CHECK_EQ(step.number, number++);
      TANDEM_CHECK(!step.inputs.empty());
      std::for_each(step.inputs.begin(), step.inputs.end(), count);
    }
  }
  for (const Ready& ready : ready_) count(ready.input);
  for (const auto& [id, queued] : queues.all()) {
    const auto it = places.find(queued.get());
    const bool under_way = queued->group->encoder_place() == EncoderPlace::kUnderWay;
    TANDEM_CHECK_EQ(it == places.end() ? 0 : it->second, under_way ? 1 : 0);
    if (it != places.end()) places.erase(it);
    if (queued->group->encoder_place() == EncoderPlace::kHere) continue;
    TANDEM_CHECK(enabled() && queued->queue == QueuedGroup::Queue::kRunning);
    TANDEM_CHECK(!queued->group->encoder_computed());
  }
  TANDEM_CHECK(places.empty(), "an encoder's step refers to a group that is not held");
}

}  // namespace tandem
