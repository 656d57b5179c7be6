// Intake: who may come in, and the order of those that wait.

#include "runtime/engine/core/intake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "runtime/request/request_error.h"
#include "tests/support/files/expect_error.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;

class IntakeTest : public ::testing::Test {
 protected:
  RequestRecord& come(const std::string& id) {
    RequestRecord& record = records_.emplace_back(id, records_.size());
    record.arrival = 1;
    intake.reserve(record, 1);
    check();
    return record;
  }
  RequestRecord& ready(const std::string& id) {
    RequestRecord& record = come(id);
    intake.end_reservation(id);
    intake.hold(record);
    check();
    return record;
  }
  void leave(RequestRecord& record, Intake::End end, double now) {
    record.stage = RequestStage::kDone;
    intake.leave(record, end, now);
  }
  std::vector<std::string> line() {
    std::vector<std::string> ids;
    while (RequestRecord* record = intake.next_held(2))
      ids.push_back(intake.take_held(*record, 2).id);
    return ids;
  }
  void check() const {
    std::vector<const RequestRecord*> all;
    for (const RequestRecord& record : records_) all.push_back(&record);
    intake.check_integrity(all);
  }
  static proto::SubmitRequest submission(const std::string& id) {
    proto::SubmitRequest submit;
    submit.set_request_id(id);
    return submit;
  }

  std::deque<RequestRecord> records_;
  Intake intake{4, 1000, {}};
};

TEST_F(IntakeTest, ThoseThatRanComeFirstThenByTheirTurn) {
  RequestRecord& a = come("a");
  RequestRecord& b = come("b");
  RequestRecord& c = come("c");
  ready("d");
  intake.end_reservation("a");
  intake.end_reservation("c");
  c.begun = a.begun = true;
  intake.hold(c);
  intake.hold(a);
  check();
  intake.end_reservation("b");
  intake.hold(b);
  check();
  EXPECT_THAT(line(), ElementsAre("a", "c", "b", "d"));
}

TEST_F(IntakeTest, WhatLeavesTheLine) {
  ready("a");
  RequestRecord& b = ready("b");
  ready("c");
  intake.drop_held(b);
  EXPECT_EQ(b.stage, RequestStage::kMoving);
  EXPECT_THAT(line(), ElementsAre("a", "c"));
}

// Clients leave after 8 s, and a request takes 1 s at a replica.
TEST_F(IntakeTest, ATurnIsLostToAWaitThatIsTooLong) {
  double now = 1;
  std::deque<RequestRecord*> here;
  for (; now < 40; now += 0.1) {
    RequestRecord& record = records_.emplace_back("", records_.size());
    intake.reserve(record, now);
    intake.end_reservation("");
    here.push_back(&record);
    for (; now - here.front()->stay->arrival >= 8; here.pop_front()) {
      here.front()->client_lost = now;
      leave(*here.front(), Intake::End::kLeft, now);
    }
  }
  for (RequestRecord* record : here) {
    record->started_at = now;
    leave(*record, Intake::End::kCompleted, now + 1);
  }
  const auto read = [&](const std::string& id) -> RequestRecord& {
    RequestRecord& record = records_.emplace_back(id, records_.size());
    intake.reserve(record, now);
    EXPECT_TRUE(record.turn);
    intake.end_reservation(id);
    intake.hold(record);
    check();
    return record;
  };
  intake.enter_unread("a", records_.size(), now);
  ASSERT_EQ(intake.call_unread(1, now), "a");
  RequestRecord& a = read("a");
  EXPECT_EQ(intake.next_held(now + 1), &a);
  intake.enter_unread("b", records_.size(), now += 6.8);
  EXPECT_EQ(intake.next_held(now), nullptr) << "b, which nobody has read";
  EXPECT_FALSE(a.turn);
  check();
  ASSERT_EQ(intake.call_unread(1, now), "b");
  EXPECT_THAT(std::vector{intake.next_held(now)}, ElementsAre(&a)) << "nobody else is ready";
  RequestRecord& b = read("b");
  EXPECT_EQ(intake.next_held(now), &b);
  intake.take_held(b, now);
  EXPECT_EQ(intake.next_held(now), &a);
  check();
}

TEST_F(IntakeTest, WhatIsRefused) {
  RequestRecord& a = come("a");
  EXPECT_INPUT_ERROR(intake.check(submission("a")), "request_id", "in use");
  EXPECT_INPUT_ERROR(intake.check(submission("")), "request_id", "missing");
  intake.end_reservation("a");
  a.stage = RequestStage::kMoving;
  EXPECT_NO_THROW(intake.check(submission("a")));
  for (const char* id : {"b", "c"}) come(id);
  EXPECT_NO_THROW(intake.check_room(submission("d"), 3, false, 1));
  RequestRecord& d = come("d");
  EXPECT_THROW(intake.check_room(submission("e"), 4, false, 1), OverloadError);
  intake.leave(d, Intake::End::kCompleted, 2);
  EXPECT_NO_THROW(intake.check_room(submission("e"), 7, false, 2));
  EXPECT_THROW(intake.check_room(submission("e"), 8, false, 2), OverloadError);
  proto::ServerInfo info;
  intake.fill_info(info, 2);
  EXPECT_EQ(info.refused_full(), 2);
  EXPECT_EQ(info.num_requests(), 3);
  intake.drain();
  EXPECT_THROW(intake.check(submission("e")), InputError);
}

}  // namespace
}  // namespace tandem
