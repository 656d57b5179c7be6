// What all components have in common: sequences of them.
#include <string>
#include <vector>

#include "text/pipeline/text_pipeline.h"

namespace tandem {
namespace {

void add_parts(const JsonView& json, const char* key, int depth, std::vector<JsonView>& out) {
  if (depth > kMaxNesting) json.fail("nested too deeply");
  if (json.at("type").string() != "Sequence") return out.push_back(json);
  const JsonView parts = json.at(key);
  for (size_t i = 0, n = num_parts(parts); i < n; ++i) {
    add_parts(parts.at(i), key, depth + 1, out);
    if (out.size() > kMaxParts) parts.fail("too many parts in sequences of sequences");
  }
}

}  // namespace

size_t num_parts(const JsonView& json) {
  if (json.size() > kMaxParts)
    json.fail(std::to_string(json.size()) + " parts; at most " + std::to_string(kMaxParts) +
              " are possible");
  return json.size();
}

std::vector<JsonView> flat_parts(const JsonView& json, const char* key) {
  std::vector<JsonView> out;
  add_parts(json, key, 0, out);
  return out;
}

}  // namespace tandem
