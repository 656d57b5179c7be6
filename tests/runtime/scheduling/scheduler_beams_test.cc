// Beam groups in the scheduler: random arrivals, aborts and preemptions among greedy groups over
// tiny pools, steps ahead of results; with workers that search beams ahead, and without. Every
// search must end as the naive one does alone.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/engine/make_sequence_group.h"
#include "runtime/scheduling/scheduler.h"
#include "tests/support/scheduling/beam_worker.h"
#include "tests/support/scheduling/naive_beam_search.h"

namespace tandem::scheduler_beams_test {
namespace {

using testing_support::beam_request;
using testing_support::BeamWorker;
using testing_support::NaiveBeamOptions;
using testing_support::NaiveBeamSearch;
using Ids = std::vector<int32_t>;
constexpr int32_t kEos = testing_support::kBeamEos;

NaiveBeamSearch::Result naive_result(const proto::AddRequest& request) {
  const proto::SamplingParams& params = request.sampling_params();
  const auto& ids = request.inputs().prompt_token_ids();
  const Ids prompt(ids.begin(), ids.end());
  NaiveBeamOptions options;
  options.num_beams = params.num_beams();
  options.vocabulary = testing_support::kBeamVocabulary;
  options.prompt_len = static_cast<int>(prompt.size());
  options.max_length = options.prompt_len + params.max_tokens();
  options.length_penalty = params.length_penalty();
  options.early_stopping = params.early_stopping() == proto::SamplingParams::EARLY_STOPPING_TRUE
                               ? NaiveBeamOptions::kTrue
                           : params.early_stopping() == proto::SamplingParams::EARLY_STOPPING_NEVER
                               ? NaiveBeamOptions::kNever
                               : NaiveBeamOptions::kFalse;
  options.eos = {kEos};
  NaiveBeamSearch search(options, [&](const Ids& tokens) {
    return testing_support::beam_row(request.request_id(), tokens);
  });
  return search.run(prompt);
}

struct Counts {
  int searches = 0, greedy = 0, aborted = 0, preemptions = 0, shared = 0, refused = 0;
  int wrong = 0;                                   // answers that were refused
  int two_ahead = 0, swapped = 0, recomputed = 0;  // groups with rounds in flight
  int64_t found = 0;
};

std::ostream& operator<<(std::ostream& out, const Counts& c) {
  return out << c.searches << " searches, " << c.greedy << " greedy, " << c.aborted << " aborted, "
             << c.preemptions << " preemptions, " << c.shared << " shared, " << c.found
             << " found, " << c.wrong << " wrong; ahead: " << c.two_ahead << ", " << c.swapped
             << " swapped, " << c.recomputed << " recomputed";
}

class Simulation {
 public:
  Simulation(uint32_t seed, bool ahead, Counts& counts)
      : random_(seed),
        ahead_(ahead),
        config_(random_config()),
        scheduler_(config_),
        worker_(config_),
        counts_(counts) {}

  void run(int operations) {
    for (int i = 0; i < operations && !::testing::Test::HasFailure(); ++i) {
      const int op = pick(0, 99);
      if (op < 12)
        arrive();
      else if (op < 14)
        abort();
      else
        advance();
    }
    for (int i = 0; scheduler_.has_unfinished() && !::testing::Test::HasFailure(); ++i) {
      ASSERT_LT(i, 200000) << "no progress";
      advance();
    }
    counts_.preemptions += scheduler_.num_preemptions();
    counts_.found += scheduler_.block_manager().cache_stats().prefix_hits;
    EXPECT_EQ(scheduler_.block_manager().device().num_free(), config_.num_device_blocks);
    EXPECT_EQ(scheduler_.block_manager().host().num_free(), config_.num_host_blocks);
  }

 private:
  struct Flight {
    proto::StepInput input;
    proto::StepOutput output;
    bool executed = false;
  };

  int pick(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }
  SchedulerConfig random_config() {
    SchedulerConfig config;
    config.block_size = std::vector<int>{1, 2, 3, 16}[size_t(pick(0, 3))];
    config.max_num_seqs = pick(4, 24);
    config.max_num_batched_tokens = pick(4, 40);
    config.num_device_blocks = pick(24, 110) / std::min(config.block_size, 4);
    config.num_host_blocks = std::vector<int>{0, 20, 200}[size_t(pick(0, 2))];
    config.preemption = static_cast<PreemptionMode>(pick(0, 2));
    config.max_steps_in_flight = pick(1, 3);
    if (!ahead_) config.stages = pick(1, 3);
    config.enable_encoder_cache = pick(0, 2) > 0;
    config.enable_prefix_caching = pick(0, 2) > 0;
    config.beam_vocabulary = ahead_ ? testing_support::kBeamVocabulary : 0;
    return config;
  }

  void arrive() {
    const std::string id = "r" + std::to_string(next_name_++);
    const int beams = pick(0, 3) == 0 ? 1 : pick(2, 5);
    const int prompt_len = pick(0, 3) == 0 ? pick(7, 20) : pick(1, 6);
    auto request = beam_request(id, next_seq_, pick(1, 12), prompt_len, pick(1, 14), beams);
    auto& params = *request.mutable_sampling_params();
    params.set_n(pick(1, beams));
    if (beams == 1) params.set_n(1);
    params.set_length_penalty(pick(-1, 2));
    params.set_early_stopping(static_cast<proto::SamplingParams::EarlyStopping>(pick(0, 2)));
    // With this, a device does not search. (The worker does not heed it.)
    if (pick(0, 4) == 0) params.set_encoder_no_repeat_ngram_size(2);
    request.set_arrival_time(now_);
    request.set_priority(pick(0, 5) == 0 ? -1 : 0);
    next_seq_ += 20;
    try {
      scheduler_.add_seq_group(make_sequence_group(request));
      live_.emplace(id, request);
    } catch (const InputError&) {
      ++counts_.refused;
    }
    scheduler_.check_integrity();
  }

  void abort() {
    if (live_.empty()) return;
    auto it = live_.begin();
    std::advance(it, pick(0, int(live_.size()) - 1));
    EXPECT_TRUE(scheduler_.abort_seq_group(it->first));
    live_.erase(it);
    ++counts_.aborted;
    scheduler_.check_integrity();
  }

  void advance() {
    const bool can_execute = !flights_.empty() && !flights_.back().executed;
    const bool can_deliver = !flights_.empty() && flights_.front().executed;
    const int op = pick(0, 2);
    if (op == 0 && int(flights_.size()) < config_.most_in_flight()) {
      const bool idle = flights_.empty();
      const std::set<std::string> in_flight = pending();
      proto::StepInput step = scheduler_.schedule(now_ += 1);
      scheduler_.check_integrity();
      count_ahead(in_flight);
      ASSERT_TRUE(has_work(step) || !idle || !scheduler_.has_unfinished()) << "no progress";
      if (has_work(step)) flights_.push_back({step, {}, false});
    } else if (op == 1 && can_execute) {
      for (Flight& flight : flights_) {
        if (flight.executed) continue;
        flight.output = worker_.execute(flight.input);
        flight.executed = true;
        break;
      }
    } else if (op == 2 && can_deliver) {
      deliver();
    }
  }

  void deliver() {
    Flight flight = std::move(flights_.front());
    flights_.pop_front();
    for (auto& group : *flight.output.mutable_outputs())
      if (pick(0, 3) == 0) group.clear_moves();  // a worker may say nothing of them
    // With steps ahead, answers for a group that was preempted meanwhile would be passed over.
    if (config_.most_in_flight() == 1 && pick(0, 9) == 0) refuse(flight.output);
    scheduler_.complete_step(flight.output);
    scheduler_.check_integrity();
    for (const proto::BeamResult& result : scheduler_.take_beam_results()) check(result);
    for (const auto& group : flight.output.outputs())
      for (const auto& sample : group.samples()) end_greedy(group.request_id(), sample);
    count_shared();
    scheduler_.free_finished_seq_groups();
    scheduler_.check_integrity();
  }

  // A token instead of candidates, too many of them, or other moves: refused, and nothing changes.
  void refuse(proto::StepOutput output) {
    for (auto& group : *output.mutable_outputs())
      for (auto& sample : *group.mutable_samples()) {
        if (!sample.has_candidates() || live_.count(group.request_id()) == 0) continue;
        if (group.has_moves() && pick(0, 1) == 0 && goes_on(group))
          damage(*group.mutable_moves());
        else if (pick(0, 1) == 0)
          sample.clear_candidates();
        else
          sample.mutable_candidates()->add_token_ids(1);
        try {
          scheduler_.complete_step(output);
        } catch (const std::runtime_error&) {
          scheduler_.check_integrity();
          ++counts_.wrong;
          return;
        }
        FAIL() << "a wrong answer was taken";
      }
  }

  // Whether the search does not end with this answer: then its moves matter.
  bool goes_on(const proto::SequenceGroupOutput& output) {
    BeamSearch search = scheduler_.find(output.request_id())->beams()->search;
    std::vector<std::vector<BeamCandidate>> round;
    for (const auto& sample : output.samples()) {
      auto& candidates = round.emplace_back();
      for (int i = 0; i < sample.candidates().token_ids_size(); ++i) {
        const float logprob = sample.candidates().logprobs(i);
        candidates.push_back({sample.candidates().token_ids(i), logprob, logprob});
      }
    }
    search.step(round);
    return !search.finished();
  }

  void damage(proto::BeamMoves& moves) {
    const int at = pick(0, moves.parents_size() - 1);
    const int op = pick(0, 2);
    if (op == 0) moves.set_parents(at, moves.parents(at) + 1);
    if (op == 1) moves.set_token_ids(at, moves.token_ids(at) ^ 1);
    if (op == 2) moves.mutable_parents()->RemoveLast();
  }

  // Beams whose rounds are in flight.
  std::set<std::string> pending() {
    std::set<std::string> out;
    for (const auto& [id, request] : live_) {
      const SequenceGroup* group = scheduler_.find(id);
      if (group != nullptr && group->searches_ahead() && group->has_pending_tokens())
        out.insert(id);
    }
    return out;
  }
  void count_ahead(const std::set<std::string>& in_flight) {
    for (const std::string& id : in_flight) {
      const SequenceGroup* group = scheduler_.find(id);
      const Sequence& first = *group->seqs().front();
      counts_.two_ahead += first.num_pending_tokens() > 1;
      counts_.swapped += first.status() == SequenceStatus::kSwapped;
      counts_.recomputed += first.status() == SequenceStatus::kWaiting;
    }
  }

  void end_greedy(const std::string& id, const proto::SequenceOutput& sample) {
    const auto it = live_.find(id);
    SequenceGroup* group = scheduler_.find(id);
    if (it == live_.end() || group == nullptr || group->beams() != nullptr) return;
    const Sequence* seq = group->find(sample.seq_id());
    if (seq == nullptr || seq->finished()) return;
    const auto tokens = seq->output_tokens();
    if (tokens.back() != kEos && int(tokens.size()) < group->params().max_tokens()) return;
    Ids all(seq->prompt_tokens().begin(), seq->prompt_tokens().end());
    for (const int32_t token : tokens) {
      const auto row = testing_support::beam_row(id, all);
      EXPECT_EQ(token, std::max_element(row.begin(), row.end()) - row.begin());
      all.push_back(token);
    }
    scheduler_.finish_sequence(id, sample.seq_id(), SequenceStatus::kFinishedStopped);
    live_.erase(it);
    ++counts_.greedy;
  }

  void check(const proto::BeamResult& result) {
    const auto it = live_.find(result.request_id());
    ASSERT_NE(it, live_.end());
    const auto expected = naive_result(it->second);
    ASSERT_EQ(result.hypotheses_size(), it->second.sampling_params().n());
    for (int i = 0; i < result.hypotheses_size(); ++i) {
      const auto& h = result.hypotheses(i);
      EXPECT_EQ(Ids(h.token_ids().begin(), h.token_ids().end()), expected.sequences[size_t(i)])
          << result.request_id() << ", hypothesis " << i;
      EXPECT_EQ(h.score(), expected.scores[size_t(i)]);
    }
    live_.erase(it);
    ++counts_.searches;
  }

  void count_shared() {
    for (const auto& [id, request] : live_) {
      const SequenceGroup* group = scheduler_.find(id);
      int own = 0;
      for (const auto& seq : group->seqs())
        if (scheduler_.block_manager().tables().has_self(*seq))
          own += int(scheduler_.block_manager().tables().self(*seq).size());
      counts_.shared += own > 0 && scheduler_.block_manager().tables().num_blocks(*group) < own;
    }
  }

  std::mt19937 random_;
  bool ahead_;
  SchedulerConfig config_;
  Scheduler scheduler_;
  BeamWorker worker_;
  Counts& counts_;
  std::map<std::string, proto::AddRequest> live_;
  std::deque<Flight> flights_;
  int64_t next_seq_ = 0;
  int next_name_ = 0;
  double now_ = 0;
};

// Simulations until everything rare has happened: at least `simulations`, at most five times as
// many.
void simulate(uint32_t simulations, bool ahead, Counts& counts) {
  const uint32_t seed = std::random_device()();
  std::cout << "seed " << seed << "\n";
  const auto enough = [&] {
    const bool rounds = counts.two_ahead > 1000 && counts.swapped > 10 && counts.recomputed > 10;
    return counts.searches > 1000 && counts.greedy > 300 && counts.aborted > 50 &&
           counts.preemptions > 100 && counts.shared > 1000 && counts.found > 200 &&
           counts.wrong > 50 && (rounds || !ahead);
  };
  for (uint32_t i = 0; i < simulations || (i < 5 * simulations && !enough()); ++i) {
    SCOPED_TRACE("simulation " + std::to_string(i) + " of seed " + std::to_string(seed));
    Simulation(seed + i, ahead, counts).run(700);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_TRUE(enough()) << counts;
}

TEST(SchedulerBeams, SearchesEndAsAlone) {
  Counts counts;
  simulate(60, false, counts);
  EXPECT_EQ(counts.two_ahead + counts.swapped + counts.recomputed, 0);
}

TEST(SchedulerBeams, SearchesAheadEndAsAlone) {
  Counts counts;
  simulate(120, true, counts);
}

TEST(SchedulerBeams, RefusesBeamsThatCannotRunTogether) {
  SchedulerConfig config;
  config.num_device_blocks = 100;
  config.max_num_batched_tokens = 4;
  Scheduler scheduler(config);
  const auto expect_refused = [&](const proto::AddRequest& request, const char* what) {
    try {
      scheduler.add_seq_group(make_sequence_group(request));
      FAIL() << "admitted";
    } catch (const InputError& error) {
      EXPECT_EQ(error.param(), "num_beams");
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    }
  };
  expect_refused(beam_request("a", 0, 3, 2, 4, 5), "max_num_batched_tokens");
  expect_refused(beam_request("b", 0, 3, 2, 4, 300), "max_num_seqs");
  scheduler.add_seq_group(make_sequence_group(beam_request("c", 0, 3, 2, 4, 4)));
}

// The prompt is prefilled once, and its blocks are shared.
TEST(SchedulerBeams, BeamsShareThePromptsBlocks) {
  SchedulerConfig config;
  config.block_size = 2;
  config.num_device_blocks = 40;
  Scheduler scheduler(config);
  BeamWorker worker(config);
  scheduler.add_seq_group(make_sequence_group(beam_request("a", 0, 2, 5, 8, 4)));
  const proto::StepInput first = scheduler.schedule(0);
  ASSERT_EQ(first.groups_size(), 1);
  int tokens = 0;
  for (const auto& seq : first.groups(0).seq_data()) tokens += seq.token_chunk_size();
  EXPECT_EQ(tokens, 5);
  EXPECT_EQ(scheduler.block_manager().device().num_free(), 40 - 1 - 3);
  scheduler.complete_step(worker.execute(first));
  const proto::StepInput second = scheduler.schedule(1);
  ASSERT_EQ(second.deltas_size(), 1);
  EXPECT_EQ(second.deltas(0).seqs_size(), 4);
  EXPECT_EQ(second.copy_size(), 3) << "the last one to write keeps the block";
  EXPECT_EQ(second.deltas(0).seqs(1).parent_seq_id(), 0);
  EXPECT_EQ(scheduler.block_manager().device().num_free(), 40 - 1 - 3 - 3);
  worker.execute(second);
}

}  // namespace
}  // namespace tandem::scheduler_beams_test
