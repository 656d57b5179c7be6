// A second engine that hears what the first one heard says what the first one said.
#include "runtime/engine/engine_journal.h"

#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "runtime/request/request_error.h"
#include "tests/support/engine/engine_core_driver.h"
#include "tests/support/simulation/cluster_simulation.h"

namespace tandem {
namespace {

using namespace testing_support;

PreparedRequest nothing_composite(const proto::SubmitRequest& submit) {
  throw std::logic_error(submit.request_id() + " is no composite request");
}

// As a standby would get it: through bytes.
proto::EngineEvent sent(const proto::EngineEvent& event) {
  proto::EngineEvent received;
  EXPECT_TRUE(received.ParseFromString(event.SerializeAsString()));
  return received;
}

TEST(EngineJournal, ASecondEngineSaysTheSameThroughAllFaults) {
  // The fake tokenizer's pieces are bytes, of which Protobuf complains.
  const google::protobuf::LogSilencer silence;
  std::set<int> kinds;
  size_t said = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimulationCounts counts;
    EngineLog log;
    ClusterSimulation first(seed, false, counts);
    first.cluster().keep_log(log);
    first.run();

    const FakeTokenizer tokenizer;
    SaidByEngine second_says;
    EngineCore second(first.cluster().engine_config(), tokenizer, second_says);
    EngineReplay replay(second, nothing_composite);
    for (const proto::EngineEvent& event : log.heard) {
      replay.apply(sent(event));
      second.check_integrity();
      kinds.insert(event.event_case());
    }
    said += log.said.all().size();
    ASSERT_EQ(second_says.all(), log.said.all());
    EXPECT_EQ(replay.num_preparing(), 0u);
    EXPECT_EQ(second.num_requests(), first.cluster().engine().num_requests());
  }
  EXPECT_GT(said, 10'000u);
  EXPECT_EQ(std::ssize(kinds), proto::EngineEvent::descriptor()->oneof_decl(0)->field_count());
}

// Half of a log, and then the inputs themselves: whoever took over goes on with the same streams.
TEST(EngineJournal, ASecondEngineTakesOver) {
  EngineCoreDriver first;
  std::vector<proto::EngineEvent> log;
  EngineJournal journal(first.core(), [&](const auto& event) { log.push_back(event); });
  proto::SubmitRequest submit;
  submit.set_request_id("a");
  journal.client_connected(1, ClientKind::kDirect);
  proto::SchedulerEvent up;
  up.set_generation(1);
  up.mutable_up();
  first.expect_generation(0, 1);
  journal.replica_event(up, 1);
  journal.reserve(1, submit, 2);
  journal.prepared("a", small_request(1, 3), 2);
  EXPECT_THROW(journal.reserve(1, submit, 2), InputError) << "in use";
  proto::SchedulerEvent step;
  step.set_generation(1);
  journal.replica_step(step, first.output("a", letter('x')), 3);

  EngineCoreDriver second;
  second.expect_generation(0, 1);
  EngineReplay replay(second.core(), nothing_composite);
  for (const proto::EngineEvent& event : log) replay.apply(sent(event));
  EXPECT_EQ(second.told(), std::vector<std::string>{"add a"});
  second.core().replica_step(step, second.output("a", letter('y')), 4);
  second.core().replica_step(step, second.output("a", letter('z')), 5);
  std::string text;
  for (const auto& chunk : second.chunks(1))
    for (const auto& output : chunk.outputs()) text += output.text();
  EXPECT_EQ(text, "xyz");
  second.core().check_integrity();
}

TEST(EngineJournal, CompositeRequestsArePreparedAgain) {
  EngineCoreDriver first;
  std::vector<proto::EngineEvent> log;
  EngineJournal journal(first.core(), [&](const auto& event) { log.push_back(event); });
  const auto prepare = [](const proto::SubmitRequest& submit) {
    if (submit.prompt().encoder().text() == "bad") throw invalid_request("prompt", "is bad");
    PreparedRequest request;
    request.document.emplace();
    request.document->document.parts = {{"", "a"}, {" ", submit.prompt().encoder().text()}};
    return request;
  };
  journal.client_connected(1, ClientKind::kDirect);
  for (const char* text : {"good", "bad"}) {
    proto::SubmitRequest submit;
    submit.set_request_id(text);
    submit.mutable_prompt()->mutable_encoder()->set_text(text);
    journal.reserve(1, submit, 2);
    submit.mutable_prompt()->mutable_encoder()->set_text("good");
    journal.prepared(text, prepare(submit), 2);
  }

  EngineCoreDriver second;
  EngineReplay replay(second.core(), prepare);
  for (const proto::EngineEvent& event : log) replay.apply(sent(event));
  ASSERT_EQ(second.to_prepare.size(), 2u);
  EXPECT_EQ(second.to_prepare[1].SerializeAsString(), first.to_prepare[1].SerializeAsString());
  EXPECT_EQ(second.error(1), "invalid_request_error") << "what can no longer be prepared";
  second.core().check_integrity();
  EXPECT_EQ(replay.num_preparing(), 0u);
}

TEST(EngineJournal, EventsThatMakeNoSense) {
  EngineCoreDriver driver;
  EngineReplay replay(driver.core(), nothing_composite);
  EXPECT_THROW(replay.apply({}), std::runtime_error);
  proto::EngineEvent event;
  event.mutable_prepared()->set_request_id("never seen");
  event.mutable_prepared()->set_composite(true);
  EXPECT_THROW(replay.apply(event), std::runtime_error);
}

}  // namespace
}  // namespace tandem
