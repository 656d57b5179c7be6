// One generation of one replica's workers: processes that say hello, load, run steps together, die,
// hang, dawdle and lie. A step is a collective of the ranks of a stage; with stages it goes from
// one to the next, and each stage is in another step. Ranks that run encoders have steps of their
// own.
#pragma once

#include <algorithm>
#include <deque>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/engine/supervisor_core.h"
#include "tests/support/simulation/group_listener.h"
#include "tests/support/simulation/simulated_lies.h"
#include "tests/support/simulation/simulated_rank.h"
#include "tests/support/simulation/simulated_traits.h"
#include "tests/support/simulation/simulated_world.h"

namespace tandem::testing_support {

class SimulatedGroup {
 public:
  SimulatedGroup(World& world, GroupListener& listener, const GroupTraits& traits, int replica,
                 uint64_t generation)
      : world_(world),
        listener_(listener),
        traits_(traits),
        replica_(replica),
        generation_(generation),
        ranks_(static_cast<size_t>(traits.size)),
        stages_(static_cast<size_t>(traits.scheduler.stages)) {}

  bool crashed() const { return crashed_; }  // as its crash records say
  bool ended() const { return ended_; }
  std::optional<double> silent_since() const { return silent_since_; }
  int size() const { return traits_.size; }

  // silent: one of the ranks freezes before it has said a word.
  void launch(bool silent) {
    if (silent) {
      silent_since_ = world_.now();
      hang(world_.uniform(0, size() - 1));
    }
    for (int r = 0; r < size(); ++r) {
      world_.after(world_.between(0.005, 0.05), [this, r] {
        auto report = new_report(r);
        report.mutable_hello()->set_protocol_version(kProtocolVersion);
        tell_supervisor(r, report);
      });
    }
  }
  // By the launcher's own decision, or told so.
  void end(const std::string& status) {
    if (ended_) return;
    ended_ = true;
    for (Rank& rank : ranks_) rank.alive = false;
    world_.after(world_.between(0, 0.05),
                 [=, this] { listener_.launch_ended(replica_, generation_, status); });
  }

  void command(int r, const proto::WorkerCommand& command) {
    Rank& rank = at(r);
    if (!works(rank)) return;
    if (command.has_setup()) load(r);
    if (command.has_start()) start(r, command.start());
    if (command.has_step()) {
      if (!rank.started()) return fail(r, "a step before the start");  // it said it was ready
      rank.steps.push_back(command.step());
      if (rank.encoder)
        try_encoder_step(r);
      else
        try_step(stage_of(r));
    }
  }

  // --- Faults ---
  void kill(int r, bool crash) {
    Rank& rank = at(r);
    if (!rank.alive) return;
    SIM_LOG(world_, name(r) + (crash ? " crashes" : " is killed"));
    crashed_ = crashed_ || crash;
    rank.alive = false;
    world_.send(rank.to_supervisor,
                [this, r] { listener_.connection_lost(replica_, generation_, r); });
    // In any order: the others lose it, the launcher ends.
    for (int other = 0; other < size(); ++other)
      if (works(at(other)) && at(other).started() && world_.one_in(2))
        world_.after(world_.between(0, 0.02), [this, other] { fail(other, "a peer is lost"); });
    if (world_.one_in(2)) world_.after(world_.between(0, 0.02), [this] { end("a rank died"); });
  }
  void hang(int r) {
    SIM_LOG(world_, name(r) + " hangs");
    at(r).hung = true;
  }
  // From now on the rank, if it runs encoders, else its stage.
  void dawdle(int r, double factor) {
    (r < num_decoders() ? at_stage(stage_of(r)).slow : at(r).slow) = factor;
  }
  void lie(Lie lie) {
    if (lie != Lie::kReady) {
      lies_.push_back(lie);
      return;
    }
    if (!works(at(0))) return;
    auto report = new_report(0);
    report.mutable_ready();
    tell_supervisor(0, report);
  }

 private:
  struct Rank {
    bool alive = true, hung = false;
    std::unique_ptr<SimulatedRank> model;       // of a rank that runs decoders
    std::unique_ptr<SimulatedEncoder> encoder;  // of one that runs encoders
    std::shared_ptr<SimulatedMail> mail;        // with stages
    std::vector<Link> to_ranks;
    std::deque<proto::StepInput> steps;
    bool busy = false;  // with encoders
    double slow = 1;
    Link to_supervisor{0.05}, to_scheduler;

    bool started() const { return model || encoder; }
  };
  // What goes from the ranks of a stage to those of the next.
  struct Passed {
    uint64_t step = 0;
    std::vector<SimulatedRank::States> states;  // by rank of the stage
  };
  // Of the step's poisonous requests.
  struct Crash {
    int stage = 0;
    std::vector<std::string> request_ids;
  };
  struct StageOfRanks {
    bool busy = false;
    double slow = 1;
    std::deque<Passed> arrived;
    Link to_next;
  };

  Rank& at(int r) { return ranks_[static_cast<size_t>(r)]; }
  StageOfRanks& at_stage(int s) { return stages_[static_cast<size_t>(s)]; }
  int num_stages() const { return static_cast<int>(stages_.size()); }
  // The ranks of all stages; behind them are those that run encoders.
  int num_decoders() const { return size() - traits_.scheduler.encoder_ranks; }
  int ranks_of_stage() const { return num_decoders() / num_stages(); }
  int stage_of(int r) const { return r / ranks_of_stage(); }
  int answering_rank() const { return num_decoders() - ranks_of_stage(); }
  static bool works(const Rank& rank) { return rank.alive && !rank.hung; }
  std::string name(int r) const {
    return "replica " + std::to_string(replica_) + " generation " + std::to_string(generation_) +
           " rank " + std::to_string(r);
  }
  proto::WorkerReport new_report(int r) const {
    proto::WorkerReport report;
    report.set_replica(replica_);
    report.set_generation(generation_);
    report.set_rank(r);
    return report;
  }
  void tell_supervisor(int r, const proto::WorkerReport& report) {
    if (!works(at(r))) return;
    world_.send(at(r).to_supervisor, [=, this] { listener_.report_to_supervisor(report); });
  }
  void fail(int r, const std::string& what) {
    auto report = new_report(r);
    report.mutable_failed()->set_what(what);
    tell_supervisor(r, report);
  }

  void load(int r) {
    for (const double part : {0.3, 0.6})
      world_.after(traits_.load_time * part, [=, this] {
        auto report = new_report(r);
        report.mutable_loading()->set_done(static_cast<uint64_t>(part * 10));
        report.mutable_loading()->set_total(10);
        tell_supervisor(r, report);
      });
    world_.after(traits_.load_time * world_.between(0.9, 1.5), [this, r] {
      auto report = new_report(r);
      const int more = r == static_cast<int>(generation_) % size() ? 0 : r + 1;
      report.mutable_loaded()->set_num_device_blocks(traits_.num_device_blocks + more);
      report.mutable_loaded()->set_num_host_blocks(traits_.num_host_blocks + more);
      tell_supervisor(r, report);
    });
  }
  void start(int r, const proto::WorkerStart& start) {
    SIM_CHECK(start.num_device_blocks() == traits_.num_device_blocks, "the least");
    SIM_CHECK(start.num_host_blocks() == traits_.num_host_blocks, "the least");
    SchedulerConfig config = traits_.scheduler;
    config.num_device_blocks = start.num_device_blocks();
    config.num_host_blocks = start.num_host_blocks();
    if (r < num_decoders()) {
      if (num_stages() > 1) make_mail(r);
      at(r).model = std::make_unique<SimulatedRank>(config, at(r).mail);
    } else {
      at(r).to_ranks.resize(static_cast<size_t>(num_decoders()));
      at(r).encoder = std::make_unique<SimulatedEncoder>(config);
    }
    auto report = new_report(r);
    report.mutable_ready();
    tell_supervisor(r, report);
  }

  void make_mail(int r) {
    at(r).to_ranks.resize(static_cast<size_t>(num_decoders()));
    at(r).mail = std::make_shared<SimulatedMail>(
        r, num_decoders(), [this, r](int to, const std::string& message) {
          if (!at(to).mail) return fail(r, "a message before the start");
          at(to).mail->is_on_its_way(r);
          world_.send(at(r).to_ranks[static_cast<size_t>(to)], [=, this] {
            at(to).mail->deliver(r, message);
            try_step(stage_of(to));
          });
        });
  }

  // All ranks of the stage have what their next step needs: they run it together.
  void try_step(int s) {
    StageOfRanks& stage = at_stage(s);
    if (stage.busy || (s > 0 && stage.arrived.empty())) return;
    const int first = s * ranks_of_stage();
    for (int r = first; r < first + ranks_of_stage(); ++r)
      if (!works(at(r)) || at(r).steps.empty()) return;
    for (int r = first; r < first + ranks_of_stage(); ++r)
      if (!at(r).model->has_letters(at(r).steps.front())) {
        ++traits_.counts->waits_for_letters;
        return;
      }
    for (int r = first; r < first + ranks_of_stage(); ++r)
      if (!at(r).model->hears(at(r).steps.front())) {
        ++traits_.counts->waits_for_tokens;
        return;
      }
    stage.busy = true;
    traits_.counts->all_stages_busy +=
        num_stages() > 1 && std::all_of(stages_.begin(), stages_.end(),
                                        [](const StageOfRanks& one) { return one.busy; });
    const proto::StepInput& step = at(first).steps.front();
    if (s == 0) begin_step(step);
    const double time = traits_.step_time / num_stages();
    if (const auto it = crashing_.find(step.step());
        it != crashing_.end() && it->second.stage == s) {
      crash_within(time, first + world_.uniform(0, ranks_of_stage() - 1), it->second.request_ids);
      return;
    }
    world_.after(time * world_.between(0.5, 1.5) * stage.slow, [this, s] { finish_step(s); });
  }

  void crash_within(double time, int r, const std::vector<std::string>& request_ids) {
    world_.after(world_.between(0, time), [=, this] {
      if (!at(r).alive) return;
      for (const std::string& id : request_ids)
        if (!crashed_) listener_.crashes_now(id);  // a group is lost once
      kill(r, /*crash=*/true);
    });
  }

  // --- Ranks that run encoders ---

  void try_encoder_step(int r) {
    Rank& rank = at(r);
    if (rank.busy || rank.steps.empty() || !works(rank)) return;
    rank.busy = true;
    std::vector<std::string> poison;
    for (const auto& group : rank.steps.front().groups())
      if (crashes(group.request_id())) poison.push_back(group.request_id());
    if (!poison.empty()) return crash_within(traits_.step_time, r, poison);
    world_.after(traits_.step_time * world_.between(0.5, 1.5) * rank.slow,
                 [this, r] { finish_encoder_step(r); });
  }

  void finish_encoder_step(int r) {
    Rank& rank = at(r);
    if (!works(rank)) return;
    rank.busy = false;
    std::vector<SimulatedLetter> letters;
    proto::StepOutput output = rank.encoder->run(rank.steps.front(), letters);
    rank.steps.pop_front();
    ++traits_.counts->encoder_steps;
    if (world_.one_in(16)) rank.encoder->check_integrity();
    for (const SimulatedLetter& letter : letters) send(r, letter);
    tell_scheduler(r, std::move(output));
    try_encoder_step(r);
  }

  void send(int r, const SimulatedLetter& letter) {
    for (int to = 0; to < num_decoders(); ++to)
      world_.send(at(r).to_ranks[static_cast<size_t>(to)], [=, this] {
        at(to).model->deliver(r, letter);
        try_step(stage_of(to));
      });
  }

  // At the first stage. Steps at different stages have no request in common. (One that comes back
  // after its preemption, in full, may be in one.)
  void begin_step(const proto::StepInput& step) {
    std::set<std::string> ids;
    for (const auto& g : step.groups()) ids.insert(g.request_id());
    for (const auto& d : step.deltas()) ids.insert(d.request_id());
    std::vector<std::string> poison;
    for (const std::string& id : ids)
      if (crashes(id)) poison.push_back(id);
    if (!poison.empty())
      crashing_[step.step()] = {world_.uniform(0, num_stages() - 1), std::move(poison)};
    for (const auto& [number, others] : latest_)
      for (const auto& d : step.deltas())
        SIM_CHECK(others.count(d.request_id()) == 0, d.request_id() + " is at two stages");
    latest_.emplace_back(step.step(), std::move(ids));
    if (std::ssize(latest_) >= num_stages()) latest_.pop_front();
  }

  bool crashes(const std::string& id) {
    const int survived = listener_.steps_until_crash(id);
    return survived != std::numeric_limits<int>::max() && num_steps_[id]++ >= survived;
  }

  void finish_step(int s) {
    StageOfRanks& stage = at_stage(s);
    const int first = s * ranks_of_stage();
    for (int r = first; r < first + ranks_of_stage(); ++r)
      if (!works(at(r))) return;  // the others wait for it in vain
    stage.busy = false;
    Passed passed{at(first).steps.front().step(), {}};
    passed.states.resize(static_cast<size_t>(ranks_of_stage()));
    if (s > 0) {
      SIM_CHECK(stage.arrived.front().step == passed.step, "stages run steps in one order");
      passed = std::move(stage.arrived.front());
      stage.arrived.pop_front();
    }
    proto::StepOutput output;
    for (int k = 0; k < ranks_of_stage(); ++k) {
      Rank& rank = at(first + k);
      SimulatedRank::States& states = passed.states[static_cast<size_t>(k)];
      proto::StepOutput mine = rank.model->run(rank.steps.front(), states);
      rank.steps.pop_front();
      if (world_.one_in(16)) rank.model->check_integrity();
      if (k == 0)
        output = std::move(mine);
      else
        SIM_CHECK(
            mine.SerializeAsString() == output.SerializeAsString() && states == passed.states[0],
            "ranks agree");
    }
    if (s + 1 < num_stages()) {
      world_.send(stage.to_next, [this, s, passed = std::move(passed)] {
        at_stage(s + 1).arrived.push_back(passed);
        try_step(s + 1);
      });
    } else {
      answer(std::move(output));
    }
    try_step(s);
  }

  void answer(proto::StepOutput output) {
    for (auto& [number, ids] : latest_)
      if (number == output.step()) ids.clear();
    tell_scheduler(answering_rank(), std::move(output));
  }
  void tell_scheduler(int r, proto::StepOutput output) {
    if (!lies_.empty() && falsify(output, lies_.front())) {
      SIM_LOG(world_, name(r) + " lies");
      lies_.pop_front();
    }
    auto report = new_report(r);
    *report.mutable_step() = std::move(output);
    world_.send(at(r).to_scheduler, [=, this] { listener_.report_to_scheduler(report); });
  }

  World& world_;
  GroupListener& listener_;
  GroupTraits traits_;
  int replica_;
  uint64_t generation_;
  std::vector<Rank> ranks_;
  std::vector<StageOfRanks> stages_;
  // Steps that the first stage began, as many as run beside the next; the requests of those that
  // are under way.
  std::deque<std::pair<uint64_t, std::set<std::string>>> latest_;
  std::unordered_map<uint64_t, Crash> crashing_;  // by number of the step
  std::deque<Lie> lies_;
  std::unordered_map<std::string, int> num_steps_;  // with a poisonous request, by id
  bool crashed_ = false, ended_ = false;
  std::optional<double> silent_since_;
};

}  // namespace tandem::testing_support
