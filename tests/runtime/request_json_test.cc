#include "runtime/request_json.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

JsonRequest parse(const std::string& line) { return request_from_json(parse_json_line(line)); }

TEST(RequestJson, Priority) {
  EXPECT_EQ(parse(R"({"prompt": "x"})").priority, 0);
  EXPECT_EQ(parse(R"({"prompt": "x", "priority": 3})").priority, 3);
  EXPECT_EQ(parse(R"({"prompt": "x", "priority": -2147483648})").priority, -2147483647 - 1);
  EXPECT_EQ(parse(R"({"prompt": "x", "priority": 2147483647})").priority, 2147483647);
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

}  // namespace
}  // namespace tandem
