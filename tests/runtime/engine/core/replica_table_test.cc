// ReplicaTable: what a replica that goes down leaves behind. (Recovery as a whole:
// engine_core_replicas_test.cc.)

#include "runtime/engine/core/replica_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/engine/engine_core_driver.h"
#include "tests/text/fake_tokenizer.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using testing_support::small_request;

class ReplicaTableTest : public ::testing::Test, public EngineOutbox {
 protected:
  void to_scheduler(int, proto::SchedulerCommand command) override {
    told.push_back(command.has_add() ? "add " + command.add().request_id() : "abort");
  }
  void to_client(ClientId, proto::ServerMessage) override { FAIL(); }
  void to_preparer(proto::SubmitRequest) override { FAIL(); }

  void up(int replica, uint64_t generation) {
    proto::SchedulerEvent event;
    event.set_replica(replica);
    event.set_generation(generation);
    event.mutable_up();
    table.up(event);
    check();
  }
  static proto::ReplicaDown crash(const std::vector<std::string>& in_flight) {
    proto::ReplicaDown down;
    down.set_crashed(true);
    for (const auto& id : in_flight) down.add_in_flight_request_ids(id);
    return down;
  }
  RequestRecord& start(const std::string& id, int replica) {
    RequestRecord& record = records_.emplace_back(id, records_.size());
    record.state = std::make_unique<RequestState>(id, small_request(), tokenizer_, 0);
    table.start(record, replica);
    check();
    return record;
  }
  void check() const {
    std::vector<const RequestRecord*> all;
    for (const RequestRecord& record : records_) all.push_back(&record);
    table.check_integrity(all);
  }

  FakeTokenizer tokenizer_;
  std::deque<RequestRecord> records_;
  std::vector<std::string> told;
  ReplicaTable table{2, *this};
  RequestRecord next{"next", 99};
};

TEST_F(ReplicaTableTest, TheLeastLoadedThatTakesRequests) {
  EXPECT_FALSE(table.least_loaded(next));
  up(1, 1);
  EXPECT_EQ(table.least_loaded(next), 1);
  up(0, 1);
  EXPECT_EQ(table.least_loaded(next), 0);
  start("a", 0);
  EXPECT_EQ(table.least_loaded(next), 1);
}

TEST_F(ReplicaTableTest, RoomForSoManySequences) {
  table.set_most_seats(3);
  up(0, 1);
  const auto come = [&](const std::string& id, int sequences, int priority) -> RequestRecord& {
    RequestRecord& record = records_.emplace_back(id, records_.size());
    record.state = std::make_unique<RequestState>(id, small_request(), tokenizer_, 0);
    record.ticket.sequences = sequences;
    record.priority = priority;
    if (const auto replica = table.least_loaded(record)) table.start(record, *replica);
    check();
    return record;
  };
  const auto runs = [](const RequestRecord& record) {
    return record.stage == RequestStage::kRunning;
  };
  RequestRecord& two = come("two", 2, 0);
  EXPECT_TRUE(runs(two));
  EXPECT_FALSE(runs(come("two more", 2, 0)));
  EXPECT_TRUE(runs(come("one", 1, 0)));
  EXPECT_FALSE(runs(come("another", 1, 0)));
  EXPECT_FALSE(runs(come("less urgent", 1, 1)));
  EXPECT_TRUE(runs(come("urgent", 1, -1))) << "the others would come after it";
  table.leave(two);
  check();
  EXPECT_TRUE(runs(come("in its place", 1, 0)));
  table.down(0, {});
  check();
  up(0, 2);
  EXPECT_TRUE(runs(come("larger than all", 9, 0))) << "or it would wait for ever";
}

TEST_F(ReplicaTableTest, SuspectsStayInnocentsLeave) {
  up(0, 1);
  RequestRecord& a = start("a", 0);
  RequestRecord& b = start("b", 0);
  RequestRecord& c = start("c", 0);
  auto displaced = table.down(0, crash({"b", "gone"}));
  check();
  EXPECT_THAT(displaced.innocent, UnorderedElementsAre(&a, &c));
  EXPECT_THAT(displaced.crashed_again, IsEmpty());
  EXPECT_EQ(b.stage, RequestStage::kSuspect);
  told.clear();
  up(0, 2);
  EXPECT_THAT(told, ElementsAre("add b"));
  EXPECT_FALSE(table.least_loaded(next)) << "one is on trial";
  displaced = table.down(0, crash({"b"}));
  check();
  EXPECT_THAT(displaced.crashed_again, ElementsAre(&b));
  EXPECT_EQ(b.stage, RequestStage::kMoving);
}

TEST_F(ReplicaTableTest, AnswersAreOfTheStartThatRuns) {
  up(0, 1);
  RequestRecord& a = start("a", 0);
  const int64_t first = a.state->first_seq_id();
  EXPECT_EQ(table.running(0, "a", first), &a);
  EXPECT_EQ(table.running(1, "a", first), nullptr);
  table.leave(a);
  EXPECT_EQ(table.running(0, "a", first), nullptr);
  table.start(a, 0);
  EXPECT_EQ(table.running(0, "a", first), nullptr) << "an earlier start";
  EXPECT_EQ(table.running(0, "a", a.state->first_seq_id()), &a);
}

}  // namespace
}  // namespace tandem
