// The values of a text of JSON lines.
#pragma once

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"

namespace tandem::test {

inline std::vector<nlohmann::json> json_lines(const std::string& text) {
  std::vector<nlohmann::json> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(json_from<nlohmann::json>(line));
  return out;
}

}  // namespace tandem::test
