#include "text/grammar/json_schema.h"

#include <random>

#include "tests/text/grammar/grammar_fixture.h"
#include "text/grammar/number_ranges.h"

namespace tandem::grammar_test {
namespace {

using Json = nlohmann::ordered_json;

Matcher schema_matcher(const std::string& schema) {
  return Matcher([&](Grammar& grammar) { return parse_json_schema(Json::parse(schema), grammar); });
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
      {R"({"type": "string", "format": "date"})", {R"("2024-02-30")"}, {R"("2024-13-01")"}},
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
      {R"({"type": "object", "properties": {"k": {"const": 1}}, "oneOf": [{"required": ["k"]}, {"properties": {"j": {"const": 2}}, "required": ["j"]}]})",
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

TEST(JsonSchema, WithoutAText) {
  for (const char* schema :
       {"false", R"({"enum": []})", R"({"type": "integer", "minimum": 5, "maximum": 3})",
        R"({"type": "string", "minLength": 5, "maxLength": 2})", R"({"$ref": "#"})",
        R"({"type": "array", "items": false, "minItems": 1})",
        R"({"properties": {}, "additionalProperties": false, "required": ["x"]})",
        R"({"properties": {"a": {"$ref": "#"}}, "required": ["a"]})"})
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
      {R"({"allOf": [{"type": "string"}, {"type": "integer"}]})", "a second type is not supported"},
      {R"([])", "a schema is an object, true or false"},
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
    Matcher real([&](Grammar& grammar) { return numbers(range, grammar); });
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

}  // namespace
}  // namespace tandem::grammar_test
