// A worker whose model is a pause, for requests of one sequence each. It keeps the tables of the
// sequences as the real one does and waits until the step's time is over. Then it answers with a
// token for each sequence. The pause begins when the last rank of the group is ready for it, as
// with the first collective of a model; nothing else couples the ranks.
#pragma once

#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <stdexcept>
#include <utility>

#include "benchmarks/support/step_trace.h"
#include "runtime/execution/groups/sequence_table.h"
#include "runtime/execution/worker.h"
#include "tests/support/scheduling/immediate.h"

namespace tandem::bench {

struct TimedWorkerOptions {
  int64_t step_ns = 2'000'000;
  bool busy = false;  // the pause holds its core
};

class TimedWorker final : public Immediate<Worker> {
 public:
  // The trace outlives it.
  TimedWorker(StepTrace& trace, const TimedWorkerOptions& options)
      : trace_(trace), options_(options) {}

  proto::WorkerLoaded load(const proto::WorkerSetup& setup, const LoadProgress&) override {
    prctl(PR_SET_TIMERSLACK, 1ul);  // else each sleep takes 50 us longer than asked for
    rank_ = setup.rank();
    size_ = setup.size();
    if (size_ > StepTrace::kMaxRanks) throw std::invalid_argument("too many ranks");
    block_size_ = setup.config().cache().block_size();
    proto::WorkerLoaded out;
    out.set_num_device_blocks(setup.config().cache().num_gpu_blocks_override());
    return out;
  }

  void start(const proto::WorkerStart& start) override {
    table_ = std::make_unique<SequenceTable>(
        SequenceLimits{.block_size = block_size_, .num_device_blocks = start.num_device_blocks()});
  }

  proto::StepOutput execute(const proto::StepInput& step) override {
    const int64_t begin = clock_ns();
    const auto scheduled = table_->apply(step);
    table_->advance(scheduled);
    trace_.ready(rank_, begin, static_cast<int>(scheduled.size()));
    ++steps_;
    pause();
    proto::StepOutput out;
    out.set_step(step.step());
    out.mutable_outputs()->Reserve(static_cast<int>(scheduled.size()));
    for (auto* group : scheduled) {
      proto::SequenceGroupOutput& output = *out.add_outputs();
      output.set_request_id(group->request_id);
      output.set_seq_id(group->seqs[0].seq_id);
      for (const WorkerSequence& seq : group->seqs) {
        const int known = seq.length();
        if (seq.num_computed < known) continue;  // its prompt goes on in the next step
        const auto token = static_cast<int32_t>(100 + (seq.seq_id + known) % 100);
        table_->append_token(*group, seq.seq_id, token);
        proto::SequenceOutput& sample = *output.add_samples();
        sample.set_seq_id(seq.seq_id);
        sample.set_token_id(token);
        sample.set_logprob(-1);
      }
    }
    trace_.end(rank_);
    return out;
  }

  void abort() override { aborted_ = true; }

 private:
  // Until step_ns after the last rank became ready.
  void pause() {
    if (steps_ > StepTrace::kMaxSteps) return wait_until(clock_ns() + options_.step_ns);
    const int64_t own = clock_ns();
    int64_t start = own;
    for (int r = 0; r < size_; ++r) {
      StepTrace::Rank& rank = trace_.rank(r);
      while (rank.num_ready.load(std::memory_order_acquire) < steps_) {
        if (aborted_ || clock_ns() > own + 10'000'000'000)
          throw std::runtime_error("a rank is late");
        sleep_until_ns(clock_ns() + 20'000);
      }
      start = std::max(start, rank.steps[steps_ - 1].ready);
    }
    wait_until(start + options_.step_ns);
  }
  void wait_until(int64_t time) const {
    if (options_.busy)
      while (clock_ns() < time) {
      }
    else
      sleep_until_ns(time);
  }

  StepTrace& trace_;
  TimedWorkerOptions options_;
  int rank_ = 0, size_ = 1, block_size_ = 0;
  int64_t steps_ = 0;
  std::unique_ptr<SequenceTable> table_;
  std::atomic<bool> aborted_{false};
};

}  // namespace tandem::bench
