#include "runtime/request/request_json.h"

#include <gtest/gtest.h>

#include "runtime/protocol/json/json_line.h"

namespace tandem {
namespace {

JsonRequest parse(const std::string& line) { return request_from_json(parse_json_line(line)); }

TEST(RequestJson, Priority) {
  EXPECT_EQ(parse(R"({"prompt": "x"})").priority, 0);
  EXPECT_EQ(parse(R"({"prompt": "x", "priority": 3})").priority, 3);
  EXPECT_EQ(parse(R"({"prompt": "x", "priority": -2147483648})").priority, -2147483647 - 1);
  EXPECT_EQ(parse(R"({"prompt": "x", "priority": 2147483647})").priority, 2147483647);
}

TEST(RequestJson, Lora) {
  const auto lora_of = [](const nlohmann::json& lora) {
    return request_from_json({{"prompt", "x"}, {"lora", lora}}).options;
  };
  EXPECT_EQ(lora_of("news").lora(), "news");
  EXPECT_FALSE(lora_of(nullptr).has_lora());
  try {
    lora_of(5);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_EQ(error.param(), "lora");
  }
}

TEST(RequestJson, PrioritiesThatAreNone) {
  for (const char* value : {"2147483648", "-2147483649", "18446744073709551615", "1.5", "1e30",
                            "\"1\"", "true", "[1]"}) {
    try {
      parse(std::string(R"({"prompt": "x", "priority": )") + value + "}");
      ADD_FAILURE() << value << " was taken";
    } catch (const InputError& error) {
      EXPECT_EQ(error.param(), "priority") << value;
    }
  }
}

// A parser of C strings ends at the NUL and takes what stands in front.
TEST(RequestJson, NothingButWhitespaceMayFollow) {
  const std::string good = R"({"prompt": "x"})";
  EXPECT_EQ(parse(good + " \t\r\n").prompt.encoder().text(), "x");
  for (const std::string& bad :
       {good + '\0', good + '\0' + "garbage", '\0' + good, good + good, good + "}", good + "\x01"})
    EXPECT_THROW(parse(bad), InputError) << bad;
  try {
    parse(good + '\0');
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("NUL byte at byte 16"), std::string::npos);
  }
}

}  // namespace
}  // namespace tandem
