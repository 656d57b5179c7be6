// Which workers search beams themselves: all of a group, or none.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "runtime/engine/supervisor_core.h"

namespace tandem {
namespace {

class Outbox final : public SupervisorOutbox {
 public:
  void launch(int, uint64_t) override {}
  void stop(int, uint64_t) override {}
  void to_worker(int, int, proto::WorkerCommand) override {}
  void group_up(int, uint64_t, const CacheSize& cache) override {
    beam_vocabulary = cache.beam_vocabulary;
  }
  void group_down(int, uint64_t, const std::string&, bool) override {}
  void loading(int, uint64_t, uint64_t) override {}
  void give_up(int, const std::string&, bool) override {}

  int beam_vocabulary = -1;
};

// What a scheduler is told of two workers that report so.
int agreed(int first, int second) {
  SupervisorConfig config;
  config.size = 2;
  config.setup.set_model("model");
  Outbox outbox;
  SupervisorCore core(config, outbox);
  core.start(0);
  const auto report = [&](int rank, const auto& fill) {
    proto::WorkerReport r;
    r.set_generation(core.generation());
    r.set_rank(rank);
    fill(r);
    core.worker_report(r, 0);
    core.check_integrity();
  };
  for (const int rank : {0, 1})
    report(rank, [](auto& r) { r.mutable_hello()->set_protocol_version(kProtocolVersion); });
  for (const int rank : {0, 1})
    report(rank, [&](auto& r) {
      r.mutable_loaded()->set_num_device_blocks(10);
      r.mutable_loaded()->set_beam_vocabulary(rank == 0 ? first : second);
    });
  for (const int rank : {0, 1}) report(rank, [](auto& r) { r.mutable_ready(); });
  return outbox.beam_vocabulary;
}

TEST(SupervisorBeams, AreSearchedByAllWorkersOrNone) {
  EXPECT_EQ(agreed(70, 70), 70);
  EXPECT_EQ(agreed(70, 0), 0);
  EXPECT_EQ(agreed(0, 70), 0);
  EXPECT_EQ(agreed(70, 71), 0);
  EXPECT_THROW(agreed(70, -1), std::runtime_error);
}

}  // namespace
}  // namespace tandem
