// Input: a byte that says what follows (an expression, a schema, GBNF), and its text. What is not
// refused allows a token or ends, step after step.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/strings/utf8.h"
#include "tests/text/fake_tokenizer.h"
#include "text/grammar/gbnf_parser.h"
#include "text/grammar/grammar_error.h"
#include "text/grammar/json/json_schema.h"
#include "text/grammar/regex_parser.h"
#include "text/grammar/token_constraint.h"

namespace {

using namespace tandem;

Grammar::Ref parse_input(uint8_t kind, const std::string& text, Grammar& grammar) {
  if (kind % 3 == 0) return parse_regex(text, grammar);
  if (kind % 3 == 1) return parse_gbnf(text, grammar);
  using Json = nlohmann::ordered_json;
  constexpr int kMaxDepth = 64;  // as of requests
  const auto limit = [](int depth, Json::parse_event_t, Json&) { return depth <= kMaxDepth; };
  return parse_json_schema(Json::parse(text, limit), grammar);
}

// The first token that is allowed; below 0: there is none.
int32_t first_of(const TokenConstraint::Mask& mask) {
  for (size_t i = 0; i < mask.size() * 64; ++i)
    if ((mask[i / 64] >> (i % 64) & 1) != 0) return static_cast<int32_t>(i);
  return -1;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto vocabulary =
      std::make_shared<const TokenVocabulary>(FakeTokenizer(), FakeTokenizer().size());
  if (size == 0) return 0;
  std::string text;
  append_utf8_lossy({reinterpret_cast<const char*>(data) + 1, size - 1}, text);
  try {
    Grammar grammar;
    grammar.set_root(parse_input(data[0], text, grammar));
    const TokenConstraint constraint(grammar, vocabulary);
    std::vector<int32_t> output;
    for (int i = 0; i < 8; ++i) {
      const auto allowed = constraint.allowed(output);
      if (allowed.tokens == nullptr) std::abort();
      const int32_t next = first_of(*allowed.tokens);
      if (next < 0 && !allowed.ends) std::abort();
      if (next < 0) break;
      output.push_back(next);
    }
  } catch (const GrammarError&) {
  } catch (const nlohmann::json::exception&) {
  }
  return 0;
}
