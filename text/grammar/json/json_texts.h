// Texts of JSON values without a schema, without white space.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "text/grammar/grammar.h"

namespace tandem {

class JsonTexts {
 public:
  using Ref = Grammar::Ref;

  // `grammar` outlives it.
  explicit JsonTexts(Grammar& grammar) : g_(grammar) {}

  Ref value();   // any
  Ref object();  // any
  Ref array();   // any
  Ref string(int64_t least, std::optional<int64_t> most);
  // Any string but these. Characters have one way to be written, so that no escape stands for one.
  Ref string_but(const std::vector<std::string>& not_these);
  Ref quoted(Ref inside) { return g_.sequence({g_.character(U'"'), inside, g_.character(U'"')}); }
  Ref constant(const nlohmann::ordered_json& value);
  // A character of a string, maybe as an escape. \u escapes of surrogates are not among them.
  Ref character();
  // The characters of the set, those as escapes that a string cannot have otherwise.
  static Ref written(Grammar& grammar, const icu::UnicodeSet& set);
  // [ items ] with as many as the count says, behind those that are always there.
  Ref list(std::vector<Ref> first, Ref item, int64_t least, std::optional<int64_t> most);
  Ref members();  // ,"name":value, any number of them

 private:
  Ref comma(Ref behind) { return g_.sequence({g_.character(U','), behind}); }
  Ref member();
  Ref rest_but(std::span<const std::u32string> not_these, size_t given);

  Grammar& g_;
  std::optional<int> value_, object_, array_;  // rules
};

}  // namespace tandem
