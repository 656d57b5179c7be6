// A batch of equal requests on one rank of a group, with what each step computed and communicated.
// Every rank schedules for itself: all see the same tokens, so all make the same steps.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "models/load_model.h"
#include "parallel/communicators/shared_memory_communicator.h"
#include "runtime/engine/make_sequence_group.h"
#include "runtime/execution/model_runner.h"
#include "runtime/scheduling/scheduler.h"

namespace tandem::bench {

struct ScalingCase {
  int batch = 8, source_tokens = 32, new_tokens = 16;
};

struct ScalingStep {
  double seconds = 0, communication = 0;       // communication: waiting for other ranks included
  int64_t encoder_rows = 0, decoder_rows = 0;  // tokens
  int64_t sampled_rows = 0;
  int64_t calls = 0, bytes = 0;  // of collectives
  double computation() const { return seconds - communication; }
};

struct ScalingResult {
  std::vector<std::vector<int32_t>> tokens;  // by request
  std::vector<ScalingStep> steps;
};

// What a step of a BART should communicate on each rank of a group of several: the embeddings and
// every projection back to the model's width are summed over ranks, [rows, d_model] f32; sampling
// greedily gathers 16 bytes for each row.
inline void expected_traffic(const ModelConfig& config, const ScalingStep& step, int64_t* calls,
                             int64_t* bytes) {
  const int64_t width = int64_t{config.d_model} * 4;
  const int64_t encoder = 1 + 2 * config.encoder_layers, decoder = 1 + 3 * config.decoder_layers;
  *calls = (step.encoder_rows > 0 ? encoder : 0) + (step.decoder_rows > 0 ? decoder : 0) +
           (step.sampled_rows > 0 ? 1 : 0);
  *bytes = encoder * step.encoder_rows * width + decoder * step.decoder_rows * width +
           16 * step.sampled_rows;
}

class ScalingRun {
 public:
  // One thread computes on each rank. comm outlives the run.
  ScalingRun(const std::filesystem::path& model, Communicator& comm) : comm_(comm), ctx_(1) {
    config_ = ModelConfig::load(model);
    Checkpoint checkpoint = Checkpoint::open(model);
    model_ = load_model(config_, checkpoint, {ctx_, comm_, DType::kF32});
  }

  // Once.
  ScalingResult run(const ScalingCase& c) {
    SchedulerConfig config;
    config.max_num_seqs = c.batch;
    config.max_num_batched_tokens = 4096;
    config.block_size = 16;
    config.num_device_blocks = c.batch * ((c.source_tokens + 15) / 16 + c.new_tokens / 16 + 2);
    Scheduler scheduler(config);
    const auto runner = make_model_runner(
        {ctx_, comm_, std::move(model_)},
        {.block_size = config.block_size, .num_device_blocks = config.num_device_blocks});
    for (int i = 0; i < c.batch; ++i) scheduler.add_seq_group(make_sequence_group(request(c, i)));
    ScalingResult result;
    result.tokens.resize(static_cast<size_t>(c.batch));
    comm_.barrier();  // ranks load for different times
    while (scheduler.has_unfinished()) {
      const proto::StepInput input = scheduler.schedule(0);
      const CommunicatorStats before = comm_.stats();
      const auto start = std::chrono::steady_clock::now();
      const proto::StepOutput output = runner->execute(input);
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      ScalingStep step = rows_of(input);
      step.seconds = seconds.count();
      const CommunicatorStats after = comm_.stats();
      step.communication = std::chrono::duration<double>(after.time - before.time).count();
      step.calls = after.calls - before.calls;
      step.bytes = after.bytes - before.bytes;
      scheduler.complete_step(output);
      take_tokens(c, output, scheduler, step, result);
      result.steps.push_back(step);
    }
    return result;
  }
  const ModelConfig& config() const { return config_; }

 private:
  // Source tokens differ between requests; the model has more than 1000 ids.
  static proto::AddRequest request(const ScalingCase& c, int index) {
    proto::AddRequest add;
    add.set_request_id(std::to_string(index));
    for (int t = 0; t < c.source_tokens; ++t)
      add.mutable_inputs()->add_encoder_prompt_token_ids(10 + (index * 131 + t * 17) % 900);
    add.mutable_inputs()->add_prompt_token_ids(2);
    add.mutable_sampling_params()->set_n(1);
    add.mutable_sampling_params()->set_ignore_eos(true);
    add.mutable_sampling_params()->set_max_tokens(c.new_tokens);
    add.set_first_seq_id(2 * index);
    add.add_seqs();
    return add;
  }
  static ScalingStep rows_of(const proto::StepInput& input) {
    ScalingStep step;
    for (const auto& group : input.groups()) {
      step.encoder_rows += group.encoder_seq_data().token_chunk_size();
      for (const auto& seq : group.seq_data()) step.decoder_rows += seq.token_chunk_size();
    }
    for (const auto& group : input.deltas())
      for (const auto& seq : group.seqs()) step.decoder_rows += seq.token_chunk_size();
    return step;
  }
  static void take_tokens(const ScalingCase& c, const proto::StepOutput& output,
                          Scheduler& scheduler, ScalingStep& step, ScalingResult& result) {
    for (const auto& group : output.outputs())
      for (const auto& sample : group.samples()) {
        auto& tokens = result.tokens.at(static_cast<size_t>(sample.seq_id() / 2));
        tokens.push_back(sample.token_id());
        ++step.sampled_rows;
        if (static_cast<int>(tokens.size()) == c.new_tokens)
          scheduler.finish_sequence(group.request_id(), sample.seq_id(),
                                    SequenceStatus::kFinishedLength);
      }
    scheduler.free_finished_seq_groups();
  }

  Communicator& comm_;
  Context ctx_;
  ModelConfig config_;
  std::unique_ptr<Model> model_;
};

// On ranks that are threads of this process; element r is rank r's.
inline std::vector<ScalingResult> run_on_threads(const std::filesystem::path& model, int ranks,
                                                 const ScalingCase& c) {
  auto comms = make_thread_communicators(ranks);
  std::vector<ScalingResult> results(comms.size());
  std::vector<std::exception_ptr> errors(comms.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < comms.size(); ++r)
    threads.emplace_back([&, r] {
      try {
        results[r] = ScalingRun(model, *comms[r]).run(c);
      } catch (...) {
        errors[r] = std::current_exception();
        comms[r]->abort();
      }
    });
  for (std::thread& t : threads) t.join();
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
  return results;
}

// What a rank did in the steps that only decode, and in those with an encoder. Medians, seconds.
struct ScalingSummary {
  double decode = 0, decode_communication = 0;
  double encode = 0, encode_communication = 0;
  double total = 0;             // of all steps
  double calls = 0, bytes = 0;  // of a decode step
};
inline ScalingSummary summary_of(const ScalingResult& result) {
  ScalingSummary out;
  std::vector<double> times[4];
  for (const ScalingStep& step : result.steps) {
    const size_t kind = step.encoder_rows > 0 ? 2 : 0;
    times[kind].push_back(step.seconds);
    times[kind + 1].push_back(step.communication);
    out.total += step.seconds;
    if (kind == 0) {
      out.calls = static_cast<double>(step.calls);
      out.bytes = static_cast<double>(step.bytes);
    }
  }
  const auto median = [](std::vector<double>& v) {
    if (v.empty()) return 0.0;
    std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
    return v[v.size() / 2];
  };
  out.decode = median(times[0]);
  out.decode_communication = median(times[1]);
  out.encode = median(times[2]);
  out.encode_communication = median(times[3]);
  return out;
}

}  // namespace tandem::bench
