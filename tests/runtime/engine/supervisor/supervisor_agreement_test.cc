// What only some workers of a group can, none of them does: beams that they search, drafts that
// they verify. A row costs what it costs the worst of them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
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
  void group_up(int, uint64_t, const CacheSize& cache) override { agreed = cache; }
  void group_down(int, uint64_t, const std::string&, bool) override {}
  void loading(int, uint64_t, uint64_t) override {}
  void give_up(int, const std::string&, bool) override {}

  CacheSize agreed;
};

// What a scheduler is told of two workers whose reports are filled so.
template <class Fill>
CacheSize agreed(const Fill& fill_report) {
  SupervisorConfig config;
  config.size = 2;
  config.setup.mutable_config()->mutable_loading()->set_model("model");
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
      fill_report(rank, *r.mutable_loaded());
    });
  for (const int rank : {0, 1}) report(rank, [](auto& r) { r.mutable_ready(); });
  return outbox.agreed;
}

int agreed_vocabulary(int first, int second) {
  return agreed([&](int rank, auto& loaded) {
           loaded.set_beam_vocabulary(rank == 0 ? first : second);
         })
      .beam_vocabulary;
}

int agreed_drafts(int first, int second) {
  return agreed([&](int rank, auto& loaded) { loaded.set_max_drafts(rank == 0 ? first : second); })
      .max_drafts;
}

TEST(SupervisorAgreement, BeamsAreSearchedByAllWorkersOrNone) {
  EXPECT_EQ(agreed_vocabulary(70, 70), 70);
  EXPECT_EQ(agreed_vocabulary(70, 0), 0);
  EXPECT_EQ(agreed_vocabulary(0, 70), 0);
  EXPECT_EQ(agreed_vocabulary(70, 71), 0);
  EXPECT_THROW(agreed_vocabulary(70, -1), std::runtime_error);
}

TEST(SupervisorAgreement, AsManyDraftsAsAllWorkersVerify) {
  EXPECT_EQ(agreed_drafts(8, 8), 8);
  EXPECT_EQ(agreed_drafts(8, 3), 3);
  EXPECT_EQ(agreed_drafts(0, 8), 0);
  EXPECT_THROW(agreed_drafts(8, -1), std::runtime_error);
}

TEST(SupervisorAgreement, RowsCostWhatTheyCostTheWorst) {
  const auto agreed_rows = [](double first, double second) {
    return agreed([&](int rank, auto& loaded) {
             loaded.set_rows_of_a_step(rank == 0 ? first : second);
           })
        .rows_of_a_step;
  };
  EXPECT_EQ(agreed_rows(48, 48), 48);
  EXPECT_EQ(agreed_rows(48, 2.5), 2.5);
  EXPECT_EQ(agreed_rows(0, 48), 0) << "not said";
  for (const double wrong :
       {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    EXPECT_THROW(agreed_rows(48, wrong), std::runtime_error) << wrong;
}

}  // namespace
}  // namespace tandem
