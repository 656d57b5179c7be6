#include "text/grammar/json/json_schema.h"

#include <cstdio>
#include <random>

#include "base/json.h"
#include "tests/text/grammar/grammar_fixture.h"
#include "text/grammar/json/number_ranges.h"

namespace tandem::grammar_test {
namespace {

using Json = nlohmann::ordered_json;

Matcher schema_matcher(const std::string& schema) {
  return Matcher(
      [&](Grammar& grammar) { return parse_json_schema(json_from<Json>(schema), grammar); });
}

struct SchemaCase {
  const char* schema;
  std::vector<std::string> yes, no;
};

TEST(JsonSchema, CanonicalTexts) {
  const std::vector<SchemaCase> cases = {
      {R"({"type": "string", "minLength": 2, "maxLength": 3})",
       {R"("ab")", R"("é\n🙂")", R"("\u00e9x")", R"("\\\"")"},
       {R"("a")", R"("abcd")", "\"a\nb\"", R"("\ud83d\ude00")", "ab"}},
      {R"({"type": "string", "pattern": "^[a-f0-9]{2}-[xyz]+$"})",
       {R"("a0-xy")"},
       {R"("a0-")", R"("xa0-x")"}},
      {R"({"type": "string", "pattern": "b+"})", {R"("abba")", R"("b")"}, {R"("aa")"}},
      {R"({"type": "string", "pattern": "^[\"a]$"})", {R"("\"")", R"("a")"}, {R"(""")"}},
      {R"({"type": "string", "format": "date"})",
       {R"("2024-02-29")", R"("2000-02-29")", R"("2023-12-31")", R"("1900-02-28")"},
       {R"("2024-13-01")", R"("2024-02-30")", R"("2023-02-29")", R"("1900-02-29")",
        R"("2023-04-31")", R"("2023-00-10")", R"("2023-01-00")"}},
      {R"({"enum": ["red", null, 3, 2.5, {"a": [1]}]})",
       {R"("red")", "null", "3", "2.5", R"({"a":[1]})"},
       {"red", "4"}},
      {R"({"type": "integer"})", {"0", "-12", "7"}, {"01", "1.0", "+1", ""}},
      {R"({"type": "integer", "minimum": 0, "maximum": 120})",
       {"0", "9", "120"},
       {"121", "-1", "00"}},
      {R"({"type": "integer", "exclusiveMinimum": -3, "exclusiveMaximum": 3})",
       {"-2", "0", "2"},
       {"-3", "3", "-0"}},
      {R"({"type": "number"})", {"0", "-1.50", "2e10", "1.5E-3"}, {".5", "1.", "01"}},
      {R"({"type": "number", "minimum": 0, "maximum": 10})",
       {"0", "9.99", "10", "10.0"},
       {"10.5", "-1"}},
      {R"({"type": "number", "exclusiveMinimum": 0, "maximum": 2.5})",
       {"0.1", "2.5", "2.50", "1"},
       {"0", "0.0", "2.51", "-1"}},
      {R"({"type": "integer", "minimum": 1.5, "exclusiveMaximum": 4})", {"2", "3"}, {"1", "4"}},
      {R"({"type": ["integer", "null"]})", {"1", "null"}, {"true"}},
      {R"({"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 2})",
       {"[true]", "[true,false]"},
       {"[]", "[true, false]", "[true,true,true]"}},
      {R"({"type": "array", "items": {"const": 1}, "minItems": 0})", {"[]", "[1,1,1]"}, {"[1,]"}},
      {R"({"type": "array", "items": {"const": 1}, "maxItems": 0})", {"[]"}, {"[1]"}},
      {R"({"prefixItems": [{"const": 1}, {"const": 2}]})", {"[1,2]"}, {"[1]", "[1,2,3]"}},
      {R"({"prefixItems": [{"const": 1}], "items": {"const": 0}})", {"[1]", "[1,0,0]"}, {"[0]"}},
      {R"({"properties": {"b": {"const": 1}, "a": {"const": 2}, "c": {"const": 3}}, "required": ["a"]})",
       {R"({"a":2})", R"({"b":1,"a":2})", R"({"b":1,"a":2,"c":3})", R"({"a":2,"c":3})"},
       {R"({})", R"({"b":1})", R"({"a":2,"b":1})", R"({"a":2,})", R"({"a":2,"d":0})"}},
      {R"({"properties": {"a": {"const": 1}, "b": {"const": 2}}})",
       {"{}", R"({"a":1})", R"({"b":2})", R"({"a":1,"b":2})"},
       {R"({,"b":2})", R"({"b":2,"a":1})"}},
      {R"({"properties": {"a": {"const": 1}}, "additionalProperties": {"type": "null"}})",
       {"{}", R"({"a":1})", R"({"a":1,"x":null})", R"({"x":null,"y":null})"},
       {R"({"a":1,"x":2})"}},
      {R"({"type": "object", "required": ["q"]})", {R"({"q":[1,{}]})"}, {"{}"}},
      {R"({"type": "object"})", {"{}", R"({"a":{"b":[1,"x",null]}})"}, {"[]", "{1}"}},
      {"true", {"1", "[]", R"({"a":[true]})"}, {"x"}},
      {R"({"anyOf": [{"const": "x y"}, {"type": "boolean"}]})", {R"("x y")", "true"}, {"null"}},
      {R"({"type": "object", "properties": {"k": {"const": 1}}, "anyOf": [{"required": ["k"]}, {"properties": {"j": {"const": 2}}, "required": ["j"]}]})",
       {R"({"k":1})", R"({"k":1,"j":2})", R"({"j":2})"},
       {"{}"}},
      {R"({"allOf": [{"properties": {"a": {"const": 1}}}, {"required": ["a"]}]})",
       {R"({"a":1})"},
       {"{}"}},
      {R"({"$ref": "#/$defs/tree", "$defs": {"tree": {"properties": {"v": {"const": 1}, "kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}, "required": ["v"]}}})",
       {R"({"v":1})", R"({"v":1,"kids":[{"v":1,"kids":[]},{"v":1}]})"},
       {R"({"v":1,"kids":[{}]})", R"({"v":1,"kids":[{"v":1}})"}},
  };
  for (const SchemaCase& c : cases) {
    Matcher matcher = schema_matcher(c.schema);
    for (const std::string& text : c.yes)
      EXPECT_TRUE(matcher.matches(text)) << c.schema << " " << text;
    for (const std::string& text : c.no)
      EXPECT_FALSE(matcher.matches(text)) << c.schema << " " << text;
  }
}

// What stands beside, and in allOf, holds too.
TEST(JsonSchema, AllKeywordsHoldAtOnce) {
  const std::vector<SchemaCase> cases = {
      {R"({"enum": ["a", "abc", 7, 3], "minLength": 2, "type": ["string", "integer"]})",
       {R"("abc")", "7"},
       {R"("a")"}},
      {R"({"enum": [{"b": 1, "a": 2}, {"a": 3}], "properties": {"a": {"maximum": 2}, "b": {}}})",
       {R"({"b":1,"a":2})"},
       {R"({"a":3})"}},
      {R"({"$defs": {"d": {"enum": [{"x": {"x": 7}}, 7], "properties": {"x": {"$ref": "#/$defs/d"}}}}, "$ref": "#/$defs/d"})",
       {"7"},
       {R"({"x":{"x":7}})"}},
      {R"({"enum": [1, 5, 9], "minimum": 4, "maximum": 8})", {"5"}, {"1", "9"}},
      {R"({"const": "x", "enum": ["x", "y"]})", {R"("x")"}, {R"("y")"}},
      {R"({"enum": ["foo", "bar"], "pattern": "^f"})", {R"("foo")"}, {R"("bar")"}},
      {R"({"const": 2.0, "type": "integer"})", {"2.0"}, {"2"}},
      {R"({"properties": {"a": {"const": 1}}, "additionalProperties": {"type": "null"}})",
       {R"({"a":1})", R"({"b":null})", R"({"aa":null,"":null})", R"({"A\n":null})"},
       {R"({"a":null})", R"({"\u0061":null})", R"({"a":1,"a":null})", R"({"b":1})"}},
      {R"({"allOf": [{"properties": {"a": {"const": 1}}, "additionalProperties": false},
                     {"properties": {"a": {"type": "integer"}, "b": {"const": 2}}}]})",
       {"{}", R"({"a":1})"},
       {R"({"b":2})", R"({"a":2})"}},
      {R"({"type": "object", "properties": {"a": {"const": 1}}, "additionalProperties": false,
           "anyOf": [{"properties": {"b": {}}, "required": ["b"]}, {"required": ["a"]}]})",
       {R"({"a":1})"},
       {"{}", R"({"a":1,"b":0})", R"({"b":1})"}},
      {R"({"allOf": [{"items": {"type": "integer"}}, {"prefixItems": [{"enum": ["x", 3]}, {}]}]})",
       {"[3,4]", "[3,4,5]"},
       {R"(["x",4])", R"([3,"x"])", R"([3,4,"x"])"}},
      {R"({"allOf": [{"properties": {"title": {"maxLength": 2}}, "required": ["title"]},
                     {"properties": {"title": {"type": "string", "minLength": 2}}}]})",
       {R"({"title":"ab"})"},
       {R"({"title":"a"})", R"({"title":"abc"})"}},
      {R"({"allOf": [{"type": ["number", "null"], "minimum": 2}, true, {"type": "integer", "minimum": 4},
                     {"maximum": 6}, {"maximum": 5}]})",
       {"4", "5"},
       {"3", "6", "null", "4.5"}},
      {R"({"$ref": "#/$defs/n", "maximum": 5, "$defs": {"n": {"type": "integer", "minimum": 3}}})",
       {"3", "5"},
       {"2", "6"}},
      {R"({"type": "object", "anyOf": [{"$ref": "#/$defs/x"}, {"$ref": "#/$defs/y"}],
           "$defs": {"x": {"properties": {"p": {"const": 1}}, "required": ["p"]}, "y": {"required": ["q"]}}})",
       {R"({"p":1})", R"({"q":[]})"},
       {"{}"}},
      {R"({"$defs": {"n": {"properties": {"l": {"$ref": "#/$defs/n", "type": "object"},
                                          "r": {"$ref": "#/$defs/n", "type": "object"}}}},
           "allOf": [{"$ref": "#/$defs/n"}, {"required": ["l"]}]})",
       {R"({"l":{"l":{},"r":{}}})"},
       {"{}", R"({"l":null})"}},
      {R"({"prefixItems": [{"const": 1}, {"const": 2}], "maxItems": 1})", {"[1]"}, {"[]", "[1,2]"}},
      {R"({"prefixItems": [{"const": 1}], "minItems": 2})", {"[1,0]"}, {"[1]"}},
  };
  for (const SchemaCase& c : cases) {
    Matcher matcher = schema_matcher(c.schema);
    for (const std::string& text : c.yes)
      EXPECT_TRUE(matcher.matches(text)) << c.schema << " " << text;
    for (const std::string& text : c.no)
      EXPECT_FALSE(matcher.matches(text)) << c.schema << " " << text;
  }
}

// A value that matches two of a oneOf matches none of it: such schemas are refused.
TEST(JsonSchema, OneOfIsOneAlone) {
  for (
      const char* schema : {
          R"({"oneOf": [{"type": "string"}, {"type": "array"}, {"type": "integer", "maximum": 3}, {"type": "number", "minimum": 4}]})",
          R"({"oneOf": [{"enum": [1, "a"]}, {"type": "string", "const": "b"}, {"type": "null"}, {"const": 2}]})",
          R"({"oneOf": [{"maxLength": 2, "type": "string"}, {"minLength": 3, "type": "string"}]})",
          R"({"oneOf": [{"properties": {"k": {"const": "a"}}, "required": ["k"]}, {"properties": {"k": {"const": "b"}}, "required": ["k"]}]})",
          R"({"oneOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}, "required": ["b"]}]})",
          R"({"discriminator": {"propertyName": "k"}, "oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}], "$defs": {"a": {"properties": {"k": {"const": "a"}}}, "b": {"properties": {"k": {"enum": ["b", "c"]}}}}})",
          R"({"oneOf": [{"prefixItems": [{"const": 1}]}, {"items": {"type": "string"}, "minItems": 1}]})",
      })
    EXPECT_TRUE(schema_matcher(schema).has_text()) << schema;
  for (
      const char* schema : {
          R"({"oneOf": [{"type": "integer", "maximum": 10}, {"type": "integer", "minimum": 10}]})",
          R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})",
          R"({"oneOf": [{"type": "string", "maxLength": 3}, {"enum": ["abc"]}]})",
          R"({"oneOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]})",
          R"({"properties": {"k": {}}, "oneOf": [{"required": ["k"]}, {"properties": {"j": {}}, "required": ["j"]}]})",
          R"({"oneOf": [{"properties": {"a": {}}, "required": ["a"], "additionalProperties": true}, {"required": ["b"]}]})",
      })
    EXPECT_THAT(error_of([&] { schema_matcher(schema); }),
                ::testing::HasSubstr("a value that may match both 0 and 1"))
        << schema;
}

// Schemas that grow as they are put together end.
TEST(JsonSchema, WhatIsPutTogetherHasABound) {
  for (
      const char* schema :
      {R"({"$defs": {"n": {"properties": {"x": {"allOf": [{"$ref": "#/$defs/n"}, {"$ref": "#/$defs/m"}]}}}, "m": {"properties": {"x": {"$ref": "#/$defs/m", "title": "m", "minProperty": 1}}}}, "$ref": "#/$defs/n"})",
       R"({"allOf": [{"$ref": "#"}]})",
       R"({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}, {"$ref": "#/$defs/b"}]}, "b": {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a", "type": "null"})"})
    error_of([&] { EXPECT_FALSE(schema_matcher(schema).matches("1")) << schema; });
}

TEST(JsonSchema, WithoutAText) {
  for (const char* schema :
       {"false", R"({"enum": []})", R"({"type": "integer", "minimum": 5, "maximum": 3})",
        R"({"type": "string", "minLength": 5, "maxLength": 2})", R"({"$ref": "#"})",
        R"({"type": "array", "items": false, "minItems": 1})",
        R"({"properties": {}, "additionalProperties": false, "required": ["x"]})",
        R"({"properties": {"a": {"$ref": "#"}}, "required": ["a"]})",
        R"({"allOf": [{"type": "string"}, {"type": "integer"}]})", R"({"allOf": [{}, false]})",
        R"({"const": 1, "enum": [2]})"})
    EXPECT_FALSE(schema_matcher(schema).has_text()) << schema;
}

TEST(JsonSchema, ErrorsNameThePlace) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"properties": {"a": {"type": "strnig"}}})",
       "at #/properties/a/type: there is no such type"},
      {R"({"items": {"$ref": "#/$defs/x"}})", "at #/items/$ref: there is no schema \"#/$defs/x\""},
      {R"({"$ref": "http://x"})", "another document's schema is not supported"},
      {R"({"type": "integer", "multipleOf": 3})", "at #: multipleOf is not supported"},
      {R"({"type": "string", "pattern": "a("})", "at #/pattern: at character 2"},
      {R"({"type": "string", "minLength": -1})", "at #/minLength: must be a whole number"},
      {R"({"type": "array", "minItems": 50000000})", "too large"},
      {R"({"allOf": [{"pattern": "a"}, {"pattern": "b"}]})", "a second pattern is not supported"},
      {R"([])", "a schema is an object, true or false"},
      {R"({"pattern": "a", "format": "date"})", "a format beside a pattern is not supported"},
      {R"({"enum": [1], "multipleOf": 3})", "at #: multipleOf is not supported"},
      {R"({"required": "a"})", "at #/required: must be a list of names"},
  };
  for (const auto& [schema, message] : cases)
    EXPECT_THAT(error_of([&] { schema_matcher(schema); }), ::testing::HasSubstr(message)) << schema;
}

// Every text of a range, and none beside it.
TEST(NumberRanges, HoldWhatTheyShould) {
  std::mt19937_64 rng(7);
  for (int trial = 0; trial < 300; ++trial) {
    const auto bound = [&]() -> std::optional<int64_t> {
      if (rng() % 4 == 0) return std::nullopt;
      const int64_t scale[] = {5, 30, 1100, 20000};
      const int64_t most = scale[rng() % 4];
      return static_cast<int64_t>(rng() % static_cast<uint64_t>(2 * most)) - most;
    };
    const NumberRange range{bound(), bound()};
    Matcher whole([&](Grammar& grammar) { return integers(range, grammar); });
    Matcher real([&](Grammar& grammar) {
      RealRange real;
      if (range.least) real.least = static_cast<double>(*range.least);
      if (range.most) real.most = static_cast<double>(*range.most);
      return numbers(real, grammar);
    });
    for (int i = 0; i < 400; ++i) {
      int64_t value = static_cast<int64_t>(rng() % 3000) - 1500;
      if (i < 12 && (range.least || range.most))
        value =
            (range.least && (i % 2 == 0 || !range.most) ? *range.least : *range.most) + i % 3 - 1;
      const bool inside =
          (!range.least || *range.least <= value) && (!range.most || value <= *range.most);
      const std::string text = std::to_string(value);
      ASSERT_EQ(whole.matches(text), inside) << text << " trial " << trial;
      ASSERT_EQ(real.matches(text), inside) << text << " trial " << trial;
      const double half = static_cast<double>(value) + (value < 0 ? -0.5 : 0.5);
      const bool half_inside = (!range.least || static_cast<double>(*range.least) <= half) &&
                               (!range.most || half <= static_cast<double>(*range.most));
      ASSERT_EQ(real.matches(text + ".5"), half_inside) << half << " trial " << trial;
      ASSERT_FALSE(whole.matches("0" + text));
    }
  }
}

// Bounds with fractions, open and closed.
TEST(NumberRanges, OfRealNumbers) {
  std::mt19937_64 rng(8);
  const auto number = [&](int digits) {
    const double scale = digits == 0 ? 1 : digits == 1 ? 10 : 100;
    return (static_cast<double>(rng() % 600) - 300) / scale;
  };
  int inside_count = 0;
  for (int trial = 0; trial < 400; ++trial) {
    RealRange range;
    if (rng() % 4 != 0) range.least = number(static_cast<int>(rng() % 3));
    if (rng() % 4 != 0) range.most = number(static_cast<int>(rng() % 3));
    range.least_open = rng() % 2 == 0;
    range.most_open = rng() % 2 == 0;
    Matcher matcher([&](Grammar& grammar) { return numbers(range, grammar); });
    for (int i = 0; i < 300; ++i) {
      double value = number(static_cast<int>(rng() % 3));
      if (i < 8 && range.least) value = *range.least + (i % 4 - 1) / 100.0;
      if (i >= 8 && i < 16 && range.most) value = *range.most + (i % 4 - 1) / 100.0;
      char text[40];
      std::snprintf(text, sizeof text, i % 2 == 0 ? "%.2f" : "%.5f", value);
      value = std::stod(text);
      const bool inside =
          (!range.least || (range.least_open ? *range.least < value : *range.least <= value)) &&
          (!range.most || (range.most_open ? value < *range.most : value <= *range.most));
      if (text == std::string("-0.00") || text == std::string("-0.00000")) continue;
      ASSERT_EQ(matcher.matches(text), inside)
          << text << " of " << range.least.value_or(-9999) << (range.least_open ? " open" : "")
          << " to " << range.most.value_or(9999) << (range.most_open ? " open" : "");
      inside_count += inside ? 1 : 0;
    }
  }
  EXPECT_GT(inside_count, 1000);
}

TEST(NumberRanges, ZeroAndItsSign) {
  const auto matches = [](const RealRange& range, const char* text) {
    return Matcher([&](Grammar& grammar) { return numbers(range, grammar); }).matches(text);
  };
  for (const char* zero : {"0", "-0", "0.0", "-0.00"}) {
    EXPECT_TRUE(matches({.least = -1}, zero)) << zero;
    EXPECT_TRUE(matches({.least = -1, .most = 0}, zero)) << zero;
    EXPECT_FALSE(matches({.least = -1, .most = 0, .most_open = true}, zero)) << zero;
    EXPECT_FALSE(matches({.least = 0, .least_open = true}, zero)) << zero;
    EXPECT_FALSE(matches({.least = 0.5}, zero)) << zero;
  }
  EXPECT_TRUE(matches({.least = 0, .least_open = true}, "0.001"));
  EXPECT_TRUE(matches({.least = 0.5, .most = 0.5}, "0.500"));
  EXPECT_FALSE(matches({.least = 0.5, .most = 0.5}, "0.5001"));
}

}  // namespace
}  // namespace tandem::grammar_test
