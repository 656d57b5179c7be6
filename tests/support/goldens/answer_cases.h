// tests/data/answers.json (scripts/goldens/make_answer_cases.py): answers, and what HuggingFace's
// processors make of them.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/json.h"
#include "tests/support/files/files.h"

namespace tandem::test {

// Of one kind: "tags", "page" or "located". Objects keep their order.
inline std::vector<nlohmann::ordered_json> answer_cases(const std::string& kind) {
  std::ifstream file(test_root() / "tests/data/answers.json");
  std::vector<nlohmann::ordered_json> out;
  for (const auto& one : nlohmann::ordered_json::parse(file))
    if (one.at("kind") == kind) out.push_back(one);
  EXPECT_GT(out.size(), 30u);
  return out;
}

}  // namespace tandem::test
