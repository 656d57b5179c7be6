// --lora-modules: one flag for several adapters, in both of vLLM's forms, and texts behind it.
#include "launcher/adapter_options.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "base/error.h"

namespace tandem::launcher {
namespace {

using Words = std::vector<std::string>;

Words repeated(Words words) {
  repeat_lora_modules(words);
  return words;
}

TEST(RepeatLoraModules, IsTheFlagOnceForEach) {
  const std::string flag = "--lora-modules", object = R"({"name": "c", "path": "d/c"})";
  EXPECT_EQ(repeated({"serve", "m", flag, "a=d/a", "b=d/b", object, "--port", "1"}),
            (Words{"serve", "m", flag, "a=d/a", flag, "b=d/b", flag, object, "--port", "1"}));
  EXPECT_EQ(repeated({flag, object, "a=d", flag, "b=d"}),
            (Words{flag, object, flag, "a=d", flag, "b=d"}));
  EXPECT_EQ(repeated({flag + "=a=d", "b=d"}), (Words{flag + "=a=d", flag, "b=d"}));
}

TEST(RepeatLoraModules, EndsBeforeTextsAndOtherFlags) {
  const std::string flag = "--lora-modules";
  for (const char* text : {"model", "a = b", "Solve x=5 for me.", "=d", "a=", "{\"name\": \"c\"}",
                           "{x=5}", "-x=5", "--tp=2", "", "-"}) {
    const Words words{"generate", "m", flag, "a=d", text, "b=d"};
    EXPECT_EQ(repeated(words), words) << text;
  }
  const Words behind{"generate", "m", flag, "a=d", "--", "b=d", flag, "c=d", "e=d"};
  EXPECT_EQ(repeated(behind), behind) << "texts";
  for (const Words& words : {Words{flag}, Words{}, Words{"x=1", "y=2"}, Words{flag, "broken", "m"}})
    EXPECT_EQ(repeated(words), words);
}

proto::AdapterConfig parsed(Words words) {
  proto::AdapterConfig out;
  CLI::App app;
  add_adapter_flags(app, out);
  repeat_lora_modules(words);
  std::vector<std::string> last_first(words.rbegin(), words.rend());
  app.parse(std::move(last_first));
  return out;
}

TEST(AdapterFlags, ListsAndRepeatedFlagsAreTheSame) {
  const auto one = parsed({"--lora-modules", "a=/d/a", R"({"name":"b","path":"/d/b"})"});
  const auto two = parsed({"--lora-modules", "a=/d/a", "--lora-modules", "b=/d/b"});
  ASSERT_EQ(one.modules_size(), 2);
  EXPECT_EQ(one.SerializeAsString(), two.SerializeAsString());
  EXPECT_EQ(one.modules(1).name(), "b");
  EXPECT_EQ(one.modules(1).path(), "/d/b");
  EXPECT_EQ(parsed({"--lora-modules", "a=x"}).modules(0).path(),
            std::filesystem::absolute("x").string());
}

TEST(AdapterFlags, WhatIsNoAdapterIsRefusedByTheFlagsName) {
  for (const char* word : {"a", "=d", "a=", "{", R"({"name": "a"})", R"({"name": 5, "path": "d"})",
                           R"({"name": "a", "path": "d", "rank": 3})"}) {
    try {
      parsed({"--lora-modules", word});
      FAIL() << word;
    } catch (const InputError& error) {
      EXPECT_NE((error.param() + error.what()).find(word[0] == '{' ? "" : "--lora-modules"),
                std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace tandem::launcher
