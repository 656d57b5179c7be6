#include "base/json.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <limits>
#include <string>

#include "tests/support/files/expect_error.h"
#include "tests/support/files/files.h"

namespace tandem {
namespace {

using test::TempDir;

TEST(Json, ReadsAFile) {
  TempDir dir;
  const auto json =
      load_json(dir.write("a.json", "{\"a\": [1, 2.5, \"\\u00e9\"], \"a2\": null}\n"));
  EXPECT_EQ(json["a"][2], "é");
}

TEST(Json, TheLastDuplicateWins) {
  TempDir dir;
  EXPECT_EQ(load_json(dir.write("a.json", R"({"a": 1, "a": 2})"))["a"], 2);
}

TEST(Json, NumbersOfPython) {
  const auto json = parse_python_json(
      R"({"a": NaN, "b": [-Infinity,Infinity], "NaN": "a \" NaN Infinity", "c": 1})", "x");
  EXPECT_TRUE(std::isnan(json["a"].get<double>()));
  EXPECT_EQ(json["b"][0].get<double>(), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(json["b"][1].get<double>(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(json["NaN"], "a \" NaN Infinity");
  EXPECT_EQ(json["c"], 1);
  EXPECT_EQ(parse_python_json("[1, 2]", "x")[1], 2);
  // Columns are those of the text.
  EXPECT_INPUT_ERROR(parse_python_json("{\"a\": Infinity,\n \"b\": -Infinity x}", "x"),
                     "line 2, column 17");
  EXPECT_INPUT_ERROR(parse_python_json("[nan]", "x"), "line 1, column 3");
  EXPECT_INPUT_ERROR(parse_python_json("[-NaN]", "x"), "line 1, column 3");
  EXPECT_INPUT_ERROR(parse_json("[NaN]", "x"), "line 1, column 2");
}

// Readers of lines that end them where Unicode does (str.splitlines() of Python) see one too.
TEST(Json, ADumpedLineIsOneLine) {
  const std::string text =
      "a\xc2\x85"
      "b\xe2\x80\xa8\xe2\x80\xa8"
      "c\xe2\x80\xa9\n\v\f\x1c\x1d\x1e"
      "é\xe2\x80\xaa";
  const nlohmann::json value{{text, text}};
  const std::string line = dump_line(value);
  const std::string once = R"("a\u0085b\u2028\u2028c\u2029\n\u000b\f\u001c\u001d\u001eé)"
                           "\xe2\x80\xaa\"";
  EXPECT_EQ(line, "{" + once + ":" + once + "}");
  EXPECT_EQ(json_from<nlohmann::json>(line), value);
  EXPECT_EQ(dump_ordered_line({{text, text}}), line);
  EXPECT_EQ(dump_line("\xc2"), "\"\xef\xbf\xbd\"");
}

// As a request may have it: each escape that moved all that is behind it would take minutes.
TEST(Json, ManyEndsOfLinesTakeNoTime) {
  constexpr size_t kEnds = 2'000'000;
  std::string text, escaped = "\"";
  for (size_t i = 0; i < kEnds; ++i) text += "\xe2\x80\xa8", escaped += "\\u2028";
  EXPECT_EQ(dump_line(text), escaped + '"');
}

TEST(JsonErrors, Files) {
  TempDir dir;
  EXPECT_INPUT_ERROR(load_json(dir / "none.json"), (dir / "none.json").string(),
                     "No such file or directory");
  EXPECT_INPUT_ERROR(load_json(dir.path()), "not a regular file");
  EXPECT_INPUT_ERROR(load_json(dir.write("empty.json", "")), "empty.json", "is empty");
  EXPECT_INPUT_ERROR(load_json("/dev/zero"), "/dev/zero: is not a regular file");
  // A named pipe without a writer must not block.
  ASSERT_EQ(::mkfifo((dir / "pipe.json").c_str(), 0600), 0);
  EXPECT_INPUT_ERROR(load_json(dir / "pipe.json"), "is not a regular file");
  std::filesystem::create_symlink("nowhere", dir / "dangling.json");
  EXPECT_INPUT_ERROR(load_json(dir / "dangling.json"), "dangling.json");
}

TEST(JsonErrors, LineAndColumn) {
  TempDir dir;
  EXPECT_INPUT_ERROR(load_json(dir.write("a.json", "{\n  \"a\": 1,\n  oops\n}")), "a.json",
                     "malformed JSON: line 3, column 3");
  EXPECT_INPUT_ERROR(load_json(dir.write("a.json", "{\"a\": 1")), "line 1, column 8");
  EXPECT_INPUT_ERROR(load_json(dir.write("a.json", "{}\n}")), "line 2, column 1");
  EXPECT_INPUT_ERROR(load_json(dir.write("a.json", "{\"a\": 1e999}")), "a.json", "out_of_range");
  EXPECT_INPUT_ERROR(load_json(dir.write("a.json", std::string("{}\n\0", 4))),
                     "line 2, column 1: a NUL");
  EXPECT_INPUT_ERROR(load_json(dir.write("a.json", "{\"a\": \"\xc3\x28\"}")), "a.json", "UTF-8");
}

TEST(JsonErrors, MessagesAreShortAndPrintable) {
  try {
    parse_json("{\"a\": \"" + std::string(1 << 20, 'x') + "\xff\x1b[2J", "x.json");
    FAIL() << "no error";
  } catch (const InputError& e) {
    EXPECT_LT(std::string(e.what()).size(), 400u);
    EXPECT_EQ(std::string(e.what()).find('\x1b'), std::string::npos);
  }
}

TEST(JsonErrors, Depth) {
  const auto nested = [](int n) { return std::string(n, '[') + std::string(n, ']'); };
  EXPECT_NO_THROW(parse_json(nested(200), "x.json"));
  EXPECT_INPUT_ERROR(parse_json(nested(201), "x.json"),
                     "x.json: line 1, column 201: nested deeper than 200");
  EXPECT_INPUT_ERROR(parse_json(nested(10'000'000), "x.json"), "nested deeper");
  // Brackets in strings do not count.
  EXPECT_NO_THROW(parse_json("[\"\\\"" + std::string(1000, '[') + "\"]", "x.json"));
}

TEST(JsonErrors, Size) {
  TempDir dir;
  const auto file = dir.write("big.json", "{}");
  std::filesystem::resize_file(file, (128 << 20) + 1);
  EXPECT_INPUT_ERROR(load_json(file), "big.json", "134217729 bytes");
}

}  // namespace
}  // namespace tandem
