// The bounds that keywords of a JSON schema put on a number, or on a count.
#pragma once

#include <limits>
#include <nlohmann/json.hpp>

namespace tandem {

// Ends are included unless they are open. An end without a keyword, or whose value is no number, is
// infinite.
struct SchemaBounds {
  static constexpr double kEndless = std::numeric_limits<double>::infinity();

  double least = -kEndless, most = kEndless;
  bool least_open = false, most_open = false;

  // minimum, exclusiveMinimum, maximum, exclusiveMaximum.
  static SchemaBounds of_numbers(const nlohmann::ordered_json& s) {
    SchemaBounds out;
    out.read(s, "minimum", "maximum");
    SchemaBounds open;
    open.read(s, "exclusiveMinimum", "exclusiveMaximum");
    if (open.least >= out.least) out.least = open.least, out.least_open = true;
    if (open.most <= out.most) out.most = open.most, out.most_open = true;
    return out;
  }
  // Of two keywords: minLength and maxLength, or minItems and maxItems. No count is below 0.
  static SchemaBounds of_counts(const nlohmann::ordered_json& s, const char* least,
                                const char* most) {
    SchemaBounds out;
    out.least = 0;
    out.read(s, least, most);
    return out;
  }

  bool contain(double value) const {
    return (least_open ? least < value : least <= value) &&
           (most_open ? value < most : value <= most);
  }
  bool apart(const SchemaBounds& other) const { return below(other) || other.below(*this); }

 private:
  void read(const nlohmann::ordered_json& s, const char* least_key, const char* most_key) {
    const auto number = [&](const char* key, double otherwise) {
      const auto it = s.find(key);
      return it != s.end() && it->is_number() ? it->get<double>() : otherwise;
    };
    least = number(least_key, least);
    most = number(most_key, most);
  }
  bool below(const SchemaBounds& other) const {
    return most < other.least || (most == other.least && (most_open || other.least_open));
  }
};

}  // namespace tandem
