#include "server/api/fields/json_body.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/error.h"
#include "server/http/body_budget.h"

namespace tandem::server {
namespace {

HttpRequest request_of(std::string body, const std::shared_ptr<BodyBudget>& budget) {
  HttpRequest request;
  request.body = std::move(body);
  request.memory = std::make_shared<BodyShare>(budget);
  EXPECT_TRUE(request.memory->grow_to(request.body.size()));
  return request;
}

TEST(JsonBody, ParsingTakesItsMemoryFromTheBudget) {
  const auto budget = std::make_shared<BodyBudget>(100000);
  {
    const HttpRequest text =
        request_of(R"({"prompt": ")" + std::string(30000, ',') + R"("})", budget);
    EXPECT_TRUE(parse_body(text).is_object());
    EXPECT_GE(budget->used(), 60000u) << "the body and its string";
    EXPECT_LT(budget->used(), 62000u) << "what is inside strings is no structure";
    // A small one still fits, a third such does not.
    EXPECT_TRUE(parse_body(request_of(R"({"a": 1})", budget)).is_object());
    const HttpRequest more =
        request_of(R"({"prompt": ")" + std::string(30000, 'a') + R"("})", budget);
    try {
      parse_body(more);
      FAIL();
    } catch (const InputError& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kOverloaded);
    }
  }
  EXPECT_EQ(budget->used(), 0u);
  // 9,000 bytes that would become much more.
  std::string objects = R"({"prompt": [{})";
  for (int i = 0; i < 3000; ++i) objects += ",{}";
  try {
    parse_body(request_of(objects + "]}", budget));
    FAIL();
  } catch (const InputError& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kInvalidRequest);
    EXPECT_EQ(e.param(), "body");
  }
  EXPECT_EQ(budget->used(), 0u);
}

TEST(BodyBudget, IsNeverExceeded) {
  const auto budget = std::make_shared<BodyBudget>(1000);
  EXPECT_FALSE(budget->has_room_for(1001));
  EXPECT_FALSE(budget->has_room_for(SIZE_MAX));
  std::vector<std::thread> threads;
  std::atomic<bool> exceeded{false};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        BodyShare share(budget);
        for (size_t bytes = 100; bytes <= 500; bytes += 100) share.grow_to(bytes);
        if (budget->used() > 1000) exceeded = true;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(exceeded);
  EXPECT_EQ(budget->used(), 0u);
  BodyShare share(budget);
  EXPECT_TRUE(share.grow_to(1000));
  EXPECT_TRUE(share.grow_to(10)) << "it does not shrink";
  EXPECT_FALSE(share.grow_by(1));
  EXPECT_FALSE(budget->has_room_for(1));
}

}  // namespace
}  // namespace tandem::server
