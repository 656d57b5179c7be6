// RequestTable: whose time is over, against a look at all requests.
#include "runtime/engine/core/request_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

proto::SubmitRequest submission(const std::string& id, double timeout = 0) {
  proto::SubmitRequest submit;
  submit.set_request_id(id);
  submit.set_timeout(timeout);
  return submit;
}

std::vector<std::string> ids(const std::vector<RequestRecord*>& records) {
  std::vector<std::string> out;
  for (const RequestRecord* record : records) out.push_back(record->id);
  return out;
}

TEST(RequestTable, WhoseTimeIsOver) {
  RequestTable table;
  table.add(submission("late", 3), 1).client = 1;
  table.add(submission("later", 5), 1).client = 1;
  table.add(submission("done", 3), 1).stage = RequestStage::kDone;
  table.erase(table.add(submission("erased", 2), 1));
  RequestRecord& lost = table.add(submission("lost"), 1);
  RequestRecord& back = table.add(submission("back"), 1);
  for (RequestRecord* record : {&lost, &back}) {
    record->client_lost = 2;
    table.note_lost(*record);
  }
  back.client = 7;
  EXPECT_THAT(ids(table.overdue(3.9, 3).late), IsEmpty());
  const auto at_five = table.overdue(5, 3);
  EXPECT_THAT(ids(at_five.late), ElementsAre("late"));
  EXPECT_THAT(ids(at_five.orphans), ElementsAre("lost"));
  EXPECT_THAT(ids(table.overdue(5, 3).late), IsEmpty()) << "once";
  EXPECT_THAT(ids(table.overdue(6, 3).late), ElementsAre("later"));
}

TEST(RequestTable, AsALookAtAllOfThem) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    RequestTable table;
    double now = 0;
    for (int i = 0; i < 500; ++i) {
      now += 0.1 * pick(5);
      RequestRecord& record =
          table.add(submission(std::to_string(i), pick(2) == 0 ? 0.1 + pick(20) : 0), now);
      record.client = 1;
      if (pick(3) == 0) {
        RequestRecord* const other = table.find(std::to_string(pick(i + 1)));
        if (other != nullptr && other->client) {
          other->client.reset();
          other->client_lost = now;
          table.note_lost(*other);
        } else if (other != nullptr) {
          other->client = 2;  // it has come back
        }
      }
      std::set<std::string> late, orphans;
      for (const auto& [id, one] : table.all()) {
        if (one.deadline > 0 && now >= one.deadline)
          late.insert(id);
        else if (!one.client && now >= one.client_lost + 4)
          orphans.insert(id);
      }
      const auto overdue = table.overdue(now, 4);
      const auto l = ids(overdue.late), o = ids(overdue.orphans);
      ASSERT_EQ(std::set<std::string>(l.begin(), l.end()), late);
      ASSERT_EQ(std::set<std::string>(o.begin(), o.end()), orphans);
      for (const std::string& id : l) table.erase(*table.find(id));
      for (const std::string& id : o) table.erase(*table.find(id));
    }
  }
}

}  // namespace
}  // namespace tandem
