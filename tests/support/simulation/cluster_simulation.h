// One simulated life of a cluster: everything about it follows from its seed. run() throws
// SimulationFailure if a property does not hold. docs/design/simulation.md says what is covered.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "runtime/engine/make_sequence_group.h"
#include "tests/support/simulation/simulated_cluster.h"
#include "tests/support/simulation/simulation_counts.h"

namespace tandem::testing_support {

class ClusterSimulation {
 public:
  ClusterSimulation(uint64_t seed, bool log, SimulationCounts& counts)
      : world_(mix(seed, 0x7461'6e64'656d), log), counts_(counts) {
    make_cluster();
    make_clients();
    make_requests();
    make_faults();
  }

  SimulatedCluster& cluster() { return *cluster_; }
  void run() {
    cluster_->start();
    while (!over()) {
      SIM_CHECK(world_.run_one(), "nothing is left to happen");
      SIM_CHECK(world_.num_events() < 400'000, "a livelock: so many events; " + state());
      SIM_CHECK(world_.now() < 300, "a livelock: so much time; " + state());
      check_silence();
    }
    check_end();
    shut_down();
  }

 private:
  static constexpr double kHelloTimeout = 0.5;

  // Whoever has never said a word is not waited for until the startup timeout.
  void check_silence() {
    for (int r = 0; r < cluster_->num_replicas(); ++r) {
      if (cluster_->supervisor(r).state() != SupervisorCore::State::kStarting) continue;
      const auto since = cluster_->group(r).silent_since();
      SIM_CHECK(!since || world_.now() < *since + kHelloTimeout + 0.3,
                "a rank that says nothing is waited for");
    }
  }

  // --- Making of a world -------------------------------------------------------------------------

  void make_cluster() {
    ClusterTraits traits;
    traits.engine.num_replicas = world_.uniform(1, 3);
    traits.engine.orphan_timeout = 3;
    traits.engine.retention = 3;
    if (world_.one_in(12)) traits.engine.max_requests = 3;
    if (world_.one_in(12))
      traits.engine.admission = {
          .max_queue_time = world_.pick({0.0, 0.05, 0.5}), .batch = 2, .most_unmeasured = 4};
    overload_ = traits.engine.max_requests < 100 || traits.engine.admission.batch == 2;
    traits.max_steps_in_flight = world_.uniform(1, 3);
    gives_up_ = world_.one_in(25);
    traits.supervisor.max_restarts = gives_up_ ? 2 : 500;
    traits.supervisor.startup_timeout = 2;
    traits.supervisor.hello_timeout = kHelloTimeout;
    traits.supervisor.stop_timeout = 0.3;
    traits.supervisor.first_backoff = 0.01;
    traits.supervisor.max_backoff = 0.2;
    traits.launches_fail_until = gives_up_ ? 100 : world_.one_in(10) ? 0.3 : 0;
    const int stages = world_.one_in(3) ? world_.uniform(2, 4) : 1;
    const int decoders = stages * world_.uniform(1, stages == 1 ? 3 : 2);
    const int encoders = world_.one_in(3) ? world_.uniform(1, 3) : 0;
    traits.group.size = decoders + encoders;
    traits.group.counts = &counts_;
    traits.group.step_time = world_.pick({0.002, 0.01, 0.03});
    traits.group.load_time = world_.between(0.02, 0.15);
    traits.group.num_device_blocks = world_.uniform(12, 36);
    traits.group.num_host_blocks = world_.pick({0, 10, 40});
    SchedulerConfig& s = traits.group.scheduler;
    s.stages = stages;
    s.encoder_ranks = encoders;
    s.first_encoder_rank = decoders;
    s.block_size = world_.uniform(1, 4);
    s.max_num_seqs = world_.pick({3, 4, 8, 16});
    s.max_num_batched_tokens = world_.pick({4, 8, 16, 64});
    s.preemption =
        world_.pick({PreemptionMode::kAuto, PreemptionMode::kRecompute, PreemptionMode::kSwap});
    s.enable_encoder_cache = !world_.one_in(4);
    s.enable_prefix_caching = !world_.one_in(4);
    if (world_.one_in(3))
      s.speculation = {.num_tokens = world_.uniform(1, 6),
                       .draft_model = stages == 1 && encoders == 0 && world_.one_in(2),
                       .draft_cost = 0.02};
    admission_ = s;
    admission_.num_device_blocks = traits.group.num_device_blocks;
    admission_.num_host_blocks = traits.group.num_host_blocks;
    cluster_ = std::make_unique<SimulatedCluster>(world_, traits);
  }

  void make_clients() {
    for (int i = world_.uniform(1, 4); i > 0; --i)
      clients_.push_back(std::make_unique<SimulatedClient>(world_, *cluster_));
  }

  void make_requests() {
    const bool burst = world_.one_in(2);
    const int n = world_.uniform(2, 20);
    for (int i = 0; i < n; ++i) {
      auto plan = std::make_unique<Plan>(random_plan(std::string(1, 'r') += std::to_string(i)));
      plan->submit_at = world_.between(0, burst ? 0.1 : 1.2);
      const size_t client = random_client();
      if (world_.one_in(15)) {
        plan->cancel_at = plan->submit_at + world_.between(0.001, 0.5);
        if (client == 0 && world_.one_in(2)) reuse_id(*plan);  // client 0 keeps its connection
      } else if (world_.one_in(30) && num_poisonous_ < 2) {
        plan->poisonous = true;
        // Late enough to be cleared first, sometimes: then it may even come to its end.
        plan->steps_until_crash = world_.one_in(3) ? world_.uniform(2, 9) : 0;
        ++num_poisonous_;
        if (world_.one_in(4)) plan->cancel_at = plan->submit_at + world_.between(0.2, 1.0);
      } else if (world_.one_in(15)) {
        plan->timeout = world_.between(0.05, 1.0);
      }
      add(std::move(plan), client);
    }
  }
  size_t random_client() {
    return static_cast<size_t>(world_.uniform(0, static_cast<int>(clients_.size()) - 1));
  }
  void reuse_id(const Plan& first) {
    auto again = std::make_unique<Plan>(random_plan(first.id));
    again->same_id = true;
    // Later than anything of the first could still be on its way.
    again->submit_at = first.cancel_at + 0.41;
    add(std::move(again), 0);
  }
  void add(std::unique_ptr<Plan> plan, size_t client) {
    cluster_->add_plan(*plan);
    clients_[client]->add(*plan);
    plans_.push_back(std::move(plan));
  }

  Plan random_plan(const std::string& id) {
    Plan plan;
    plan.id = id;
    auto& inputs = plan.request.inputs;
    auto& params = plan.request.params;
    const auto letter = [&] { return 3 + 'a' + world_.uniform(0, 25); };
    for (int k = world_.uniform(1, 9); k > 0; --k) inputs.add_encoder_prompt_token_ids(letter());
    for (int k = world_.uniform(1, 4); k > 0; --k) inputs.add_prompt_token_ids(letter());
    if (!plans_.empty() && world_.one_in(2)) {  // what another one has, too
      const auto other = static_cast<size_t>(world_.uniform(1, static_cast<int>(plans_.size())));
      inputs = plans_[other - 1]->request.inputs;
      if (world_.one_in(3) || inputs.prompt_token_ids().empty())
        inputs.add_prompt_token_ids(letter());
    }
    if (world_.one_in(6)) {
      make_pooled(plan);
      return plan;
    }
    params.set_n(world_.one_in(3) ? world_.uniform(2, 3) : 1);
    params.set_max_tokens(world_.one_in(30) ? 200 : world_.uniform(1, 20));
    params.set_seed(++next_seed_);
    params.add_eos_token_id(2);
    params.set_ignore_eos(world_.one_in(3));
    params.set_skip_special_tokens(world_.one_in(2));
    if (world_.one_in(3)) params.add_stop(world_.pick({"ab", "c", "de", "ffa", "bcd"}));
    if (world_.one_in(6)) params.add_stop_token_ids(letter());
    params.set_include_stop_str_in_output(world_.one_in(2));
    if (world_.one_in(6)) params.set_min_tokens_stop(3);
    if (world_.one_in(4)) params.set_logprobs(0);
    if (world_.one_in(4)) params.set_prompt_logprobs(0);
    if (world_.one_in(8)) params.set_best_of(params.n() + world_.uniform(1, 3));
    plan.invalid = world_.one_in(40);
    plan.too_large = !admissible(plan);
    for (int i = 0; i < num_sequences(params); ++i)
      plan.undisturbed.push_back(
          undisturbed_output(plan.request, i, cluster_->tokenizer(), admission_));
    if (params.best_of() == 0) return plan;
    std::stable_sort(plan.undisturbed.begin(), plan.undisturbed.end(),
                     [](const auto& a, const auto& b) {
                       return a.cumulative_logprob() > b.cumulative_logprob();
                     });
    plan.undisturbed.resize(static_cast<size_t>(params.n()));
    return plan;
  }
  void make_pooled(Plan& plan) {
    plan.request.inputs.clear_prompt_token_ids();
    plan.request.params.set_n(1);
    plan.request.params.set_seed(++next_seed_);
    plan.request.params.mutable_pooling();
    plan.invalid = world_.one_in(40);
    plan.too_large = !admissible(plan);
  }
  bool admissible(const Plan& plan) const {
    const RequestState state(plan.id, plan.request, cluster_->tokenizer(), 0);
    try {
      Scheduler(admission_).check_admissible(*make_sequence_group(state.add_request()));
      return true;
    } catch (const InputError&) {
      return false;
    }
  }

  // --- Faults ------------------------------------------------------------------------------------

  void make_faults() {
    workers_fail_ = !world_.one_in(4);
    for (int i = workers_fail_ ? world_.uniform(1, 6) : 0; i > 0; --i)
      world_.after(world_.between(0, 2.0), [this] { worker_fault(); });
    if (num_poisonous_ == 0 && world_.one_in(8))  // by a fault of the workers' own, once
      world_.after(world_.between(0.1, 1.0), [this] {
        ++counts_.crashes;
        random_group().kill(0, /*crash=*/true);
      });
    for (int i = world_.one_in(2) ? 0 : world_.uniform(1, 3); i > 0 && clients_.size() > 1; --i)
      world_.after(world_.between(0, 1.5), [this] { client_fault(); });
    if (world_.one_in(15))
      world_.after(world_.between(0, 1.0), [this] {
        SIM_LOG(world_, "engine: drains");
        drains_ = true;
        ++counts_.drained;
        cluster_->inputs().drain();
      });
  }
  SimulatedGroup& random_group() {
    return cluster_->group(world_.uniform(0, cluster_->num_replicas() - 1));
  }
  void worker_fault() {
    SimulatedGroup& group = random_group();
    const int rank = world_.uniform(0, group.size() - 1);
    switch (world_.uniform(0, 7)) {
      case 0:
      case 1: ++counts_.kills; return group.kill(rank, false);
      case 2:
        ++counts_.kills, ++counts_.several;
        for (int r = 0; r < group.size(); ++r) group.kill(r, false);
        return;
      case 3: ++counts_.hangs; return group.hang(rank);
      case 4: ++counts_.slow; return group.dawdle(rank, world_.pick({0.1, 10.0, 100.0}));
      case 5: ++counts_.kills; return group.end("the launcher died");
      default: ++counts_.lies; return group.lie(world_.pick(kLies));
    }
  }
  void client_fault() {
    SimulatedClient& client =
        *clients_[static_cast<size_t>(world_.uniform(1, static_cast<int>(clients_.size()) - 1))];
    if (world_.one_in(4)) {
      counts_.vanished += !client.vanished();
      client.vanish();
    } else {
      ++counts_.reconnected;
      client.reconnect(world_.between(0, 0.6));
    }
  }

  // --- What must hold ----------------------------------------------------------------------------

  bool over() {
    if (world_.now() < 2.2 || !cluster_->quiet()) return false;
    for (const auto& client : clients_)
      for (const auto& [id, stream] : client->streams())
        if (!client->vanished() && stream.open()) return false;
    return true;
  }

  std::string state() {
    std::string text = cluster_->state();
    for (const auto& client : clients_)
      for (const auto& [id, stream] : client->streams())
        if (!client->vanished() && stream.open()) text += ", " + id + " is open";
    return text;
  }

  void check_end() {
    for (const auto& client : clients_)
      for (const auto& [id, stream] : client->streams()) check_stream(stream);
    cluster_->inputs().tick(world_.now());
    SIM_CHECK(cluster_->engine().num_unfinished() == 0, "");
    SIM_CHECK(cluster_->engine().idle(), "");
    cluster_->check_free_blocks();
    counts_.events += world_.num_events();
    counts_.preemptions += cluster_->num_preemptions();
    counts_.accepted += cluster_->num_accepted();
    counts_.silent += cluster_->num_silent();
    counts_.given_up += cluster_->given_up();
    for (int r = 0; r < cluster_->num_replicas(); ++r)
      counts_.restarts += static_cast<uint64_t>(cluster_->supervisor(r).restarts());
    SIM_CHECK(cluster_->given_up() == gives_up_, "gives up only if restarts come too often");
  }

  void check_stream(const SimulatedClient::Stream& stream) {
    const Plan& plan = *stream.plan;
    ++counts_.requests;
    counts_.resumed += static_cast<uint64_t>(stream.resumed);
    counts_.reused_ids += plan.same_id;
    const bool at_once = plan.poisonous && plan.steps_until_crash == 0;
    SIM_CHECK(cluster_->crashes_blamed_on(plan.id) <= 2 || !at_once,
              plan.id + " was tried again after two crashes");
    SIM_CHECK(cluster_->crashes_of(plan.id) <= 2 || !at_once || workers_fail_,
              plan.id + " crashed three groups");
    if (stream.error) {
      check_prefix(stream);
      return check_error(stream);
    }
    if (!stream.finished) {  // nobody waits for the rest
      counts_.cancelled += stream.cancelled;
      return check_prefix(stream);
    }
    SIM_CHECK(!at_once && !plan.invalid && !plan.too_large, plan.id + " was to be refused");
    ++counts_.completed;
    for (size_t i = 0; i < plan.undisturbed.size(); ++i) {
      proto::CompletionOutput expected = plan.undisturbed[i];
      expected.clear_index();
      SIM_CHECK(stream.outputs[i].SerializeAsString() == expected.SerializeAsString(),
                plan.id + ", sequence " + std::to_string(i) + ": " +
                    stream.outputs[i].ShortDebugString() + " instead of " +
                    expected.ShortDebugString());
    }
    const auto& inputs = plan.request.inputs;
    const auto& params = plan.request.params;
    SIM_CHECK(stream.embedding.has_value() == params.has_pooling(), plan.id + ": a vector");
    if (stream.embedding) {
      ++counts_.pooled;
      SIM_CHECK(
          stream.embedding->SerializeAsString() ==
              undisturbed_embedding(inputs.encoder_prompt_token_ids(), params).SerializeAsString(),
          plan.id + ": another vector");
    }
    const auto& prompt = inputs.prompt_token_ids();
    const bool wanted = params.has_prompt_logprobs();
    const std::vector<int32_t> logprobs(prompt.begin() + (wanted ? 1 : prompt.size()),
                                        prompt.end());
    SIM_CHECK(stream.prompt_logprobs == logprobs, plan.id + ": prompt log-probabilities");
  }

  static void check_prefix(const SimulatedClient::Stream& stream) {
    for (size_t i = 0; i < stream.outputs.size(); ++i) {
      const auto& got = stream.outputs[i].token_ids();
      const auto& whole = stream.plan->undisturbed[i].token_ids();
      SIM_CHECK(got.size() <= whole.size() && std::equal(got.begin(), got.end(), whole.begin()),
                stream.plan->id + ": other tokens");
      SIM_CHECK(stream.plan->undisturbed[i].text().rfind(stream.outputs[i].text(), 0) == 0,
                stream.plan->id + ": other text");
    }
  }

  void check_error(const SimulatedClient::Stream& stream) {
    const Plan& plan = *stream.plan;
    const std::string& type = stream.error->type();
    const std::string text = plan.id + ": " + type + ": " + stream.error->message();
    if (type == "timeout_error") {
      ++counts_.timed_out;
      SIM_CHECK(plan.timeout > 0 && world_.now() >= stream.submitted_at + plan.timeout, text);
    } else if (type == "internal_error") {
      ++counts_.refused_poison;
      SIM_CHECK(plan.poisonous && cluster_->crashes_blamed_on(plan.id) >= 2, text);
    } else if (type == "resource_error") {
      ++counts_.too_large;
      SIM_CHECK(plan.too_large, text);
    } else if (type == "unavailable_error") {
      SIM_CHECK(drains_ || gives_up_, text);
    } else if (type == "overloaded_error") {
      ++counts_.overloaded;
      SIM_CHECK(overload_, text);
    } else if (stream.error->param() == "prompt") {
      SIM_CHECK(plan.invalid, text);
    } else {
      SIM_CHECK(plan.same_id && type == "invalid_request_error", text);  // the id is in use
    }
  }

  void shut_down() {
    for (int r = 0; r < cluster_->num_replicas(); ++r)
      cluster_->supervisor(r).shut_down(world_.now());
    const double limit = world_.now() + 30;
    for (int r = 0; r < cluster_->num_replicas(); ++r)
      while (!cluster_->supervisor(r).gone()) {
        SIM_CHECK(world_.run_one() && world_.now() < limit, "a replica does not stop");
      }
    for (int r = 0; r < cluster_->num_replicas() && !gives_up_; ++r)
      SIM_CHECK(cluster_->group(r).ended(), "a group outlives its supervisor");
  }

  World world_;
  SimulationCounts& counts_;
  SchedulerConfig admission_;
  std::unique_ptr<SimulatedCluster> cluster_;
  std::vector<std::unique_ptr<SimulatedClient>> clients_;
  std::vector<std::unique_ptr<Plan>> plans_;
  bool overload_ = false, gives_up_ = false, drains_ = false;
  bool workers_fail_ = false;  // by no doing of requests
  int num_poisonous_ = 0;
  uint64_t next_seed_ = 0;
};

}  // namespace tandem::testing_support
