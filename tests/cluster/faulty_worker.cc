// `tandem worker` with a fault, chosen by the environment:
//   TANDEM_FAULT        what it does wrong (below)
//   TANDEM_FAULT_RANK   the rank that does; others are sound
//   TANDEM_FAULT_STEP   in which step of its life (for faults of a step); default 20
//   TANDEM_FAULT_MARKS  directory: TANDEM_FAULT_TIMES (default 1) files in it count the faults;
//                       later workers are sound
//   TANDEM_FAULT_GENERATION  the only generation of workers that does; default: any
//   TANDEM_FAULT_TOKEN  for "poison" and "poison-overflow": what must be in an encoder prompt
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>

#include "base/error.h"
#include "launcher/commands/command.h"
#include "tests/support/scheduling/immediate.h"

namespace tandem {
namespace {

std::string variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}
int number(const char* name, const char* otherwise) { return std::stoi(variable(name, otherwise)); }

// Whether this fault is still to happen; then it has.
bool take_turn() {
  const std::string marks = variable("TANDEM_FAULT_MARKS", "");
  for (int i = 0; i < number("TANDEM_FAULT_TIMES", "1"); ++i)
    if (open((marks + "/" + std::to_string(i)).c_str(), O_CREAT | O_EXCL | O_WRONLY, 0600) >= 0)
      return true;
  return false;
}

class FaultyWorker final : public Immediate<Worker> {
 public:
  FaultyWorker(std::shared_ptr<Worker> inner, const std::string& generation)
      : inner_(std::move(inner)) {
    if (variable("TANDEM_FAULT_GENERATION", generation.c_str()) != generation) rank_ = -1;
  }

  proto::WorkerLoaded load(const proto::WorkerSetup& setup, const LoadProgress& progress) override {
    mine_ = setup.rank() == rank_;
    if (mine_ && fault_ == "fail-loading" && take_turn())
      throw std::runtime_error("made to fail while loading");
    if (mine_ && fault_ == "bad-model")
      throw InputError(ErrorKind::kInvalidModel, "made to refuse");
    if (mine_ && fault_ == "hang-loading" && take_turn()) hang();
    if (mine_ && fault_ == "slow-loading" && take_turn())
      std::this_thread::sleep_for(std::chrono::seconds(4));
    return inner_->load(setup, progress);
  }
  void start(const proto::WorkerStart& start) override {
    if (mine_ && fault_ == "hang-starting" && take_turn()) hang();
    inner_->start(start);
  }
  proto::StepOutput execute(const proto::StepInput& step) override {
    if (mine_) before(step);
    proto::StepOutput output = inner_->execute(step);
    if (mine_ && output.outputs_size() > 0) after(output);
    return output;
  }
  void abort() override { inner_->abort(); }

 private:
  [[noreturn]] static void hang() {
    while (true) std::this_thread::sleep_for(std::chrono::hours(1));
  }

  // Once in a worker's life.
  bool due() {
    if (done_ || ++steps_ < number("TANDEM_FAULT_STEP", "20")) return false;
    done_ = true;
    return take_turn();
  }

  // A crash like any other, but for the stack, which is full.
  [[gnu::noinline]] static int overflow(volatile int* depth) {
    volatile char frame[4096];
    frame[0] = static_cast<char>(*depth);
    *depth = *depth + 1;
    return overflow(depth) + frame[0];
  }
  void crash() const {
    int depth = 0;
    if (fault_ == "poison-overflow") overflow(&depth);
    raise(SIGSEGV);
  }

  void before(const proto::StepInput& step) {
    if (fault_ == "slow") std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (fault_.rfind("poison", 0) == 0) {
      for (const auto& group : step.groups())
        for (const int32_t token : group.encoder_seq_data().prompt_token_ids())
          if (token == number("TANDEM_FAULT_TOKEN", "-1")) crash();
      return;
    }
    if (fault_ == "hang" && due()) hang();
    if (fault_ == "throw" && due()) throw std::runtime_error("made to fail in a step");
    if (fault_ == "segv" && due()) raise(SIGSEGV);
    if (fault_ == "exit" && due()) _exit(0);
  }

  void after(proto::StepOutput& output) {
    if (fault_.rfind("garbage-", 0) != 0 || output.outputs(0).samples_size() == 0 || !due()) return;
    // In all of them: some may belong to requests that have ended, whose answers do not matter.
    for (auto& group : *output.mutable_outputs()) {
      if (fault_ == "garbage-request") group.set_request_id(std::string(1000, 'x'));
      if (group.samples().empty()) continue;
      auto& sample = *group.mutable_samples(0);
      if (fault_ == "garbage-token") sample.set_token_id(1 << 30);
      if (fault_ == "garbage-negative") sample.set_token_id(-7);
      if (fault_ == "garbage-twice") *group.add_samples() = proto::SequenceOutput(sample);
      if (fault_ == "garbage-sequence") sample.set_seq_id(987654321);
    }
    if (fault_ == "garbage-step") output.set_step(output.step() + 1000);
    if (fault_ == "garbage-empty") output.clear_outputs();
    if (fault_ == "garbage-bytes") output.mutable_outputs(0)->set_request_id("\xff\xfe");
  }

  std::shared_ptr<Worker> inner_;
  std::string fault_ = variable("TANDEM_FAULT", "");
  int rank_ = number("TANDEM_FAULT_RANK", "0");
  int steps_ = 0;
  bool mine_ = false, done_ = false;
};

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  using namespace tandem;
  CLI::App app("tandem worker, with a fault");
  CLI::App* sub = app.add_subcommand("worker", "");
  const launcher::Run run =
      launcher::add_worker(*sub, [sub](std::shared_ptr<Worker> worker) -> std::shared_ptr<Worker> {
        return std::make_shared<FaultyWorker>(std::move(worker),
                                              sub->get_option("--generation")->as<std::string>());
      });
  try {
    app.parse(argc, argv);
    return run();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "faulty worker: %s\n", e.what());
    return 1;
  }
}
