// Alignment of tokens with the sound, against HuggingFace's functions.
#include "runtime/media/sound/words/alignment.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/json.h"
#include "tests/support/files/files.h"
#include "tests/support/goldens/goldens.h"

namespace tandem {
namespace {

const std::filesystem::path kData = std::filesystem::path(TANDEM_SOURCE_DIR) / "tests/data/speech";

// [heads, rows, positions] → [rows, heads, positions].
std::vector<float> by_row(const HostTensor& t) {
  const int64_t heads = t.shape[0], rows = t.shape[1], positions = t.shape[2];
  const auto* from = reinterpret_cast<const float*>(t.data);
  std::vector<float> out;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t h = 0; h < heads; ++h)
      out.insert(out.end(), from + (h * rows + r) * positions,
                 from + (h * rows + r + 1) * positions);
  return out;
}

TEST(Alignment, SameAsHuggingFace) {
  const auto cases = load_json(kData / "words.json")["dtw"];
  const auto tensors = testing::load_tensors(kData / "words.safetensors");
  ASSERT_EQ(cases.size(), 7U);
  for (const auto& c : cases) {
    const auto name = c["name"].get<std::string>();
    SCOPED_TRACE(name);
    const std::vector<float> weights = by_row(tensors.at(name + ".weights"));
    const int64_t rows = c["tokens"], heads = c["heads"], positions = c["frames"];
    const std::vector<float> matrix =
        alignment_matrix({weights, rows, heads, positions}, c["median_filter_width"]);
    const auto* want = reinterpret_cast<const float*>(tensors.at(name + ".matrix").data);
    for (size_t i = 0; i < matrix.size(); ++i) {
      ASSERT_EQ(std::isnan(matrix[i]), std::isnan(want[i])) << i;
      if (!std::isnan(want[i])) {
        ASSERT_NEAR(matrix[i], want[i], 1e-5) << i;
      }
    }
    const std::vector<int64_t> first = first_positions(matrix, rows, positions);
    ASSERT_EQ(first.size(), c["times"].size());
    for (size_t i = 0; i < first.size(); ++i)
      EXPECT_NEAR(static_cast<double>(first[i]) * 0.02, c["times"][i].get<double>(), 1e-9) << i;
  }
}

TEST(Alignment, OfNothingIsNothing) {
  EXPECT_TRUE(first_positions({}, 0, 10).empty());
  EXPECT_EQ(first_positions({}, 3, 0), (std::vector<int64_t>{0, 0, 0}));
}

// Where the sound is silent for one row only, others go on.
TEST(Alignment, FollowsTheLargestWeights) {
  const int64_t rows = 3, positions = 30;
  std::vector<float> weights;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t p = 0; p < positions; ++p)
      weights.push_back(p / 10 == r ? 1.0f + 0.01f * static_cast<float>(p) : 0.1f);
  const auto matrix = alignment_matrix({weights, rows, 1, positions}, 1);
  EXPECT_EQ(first_positions(matrix, rows, positions), (std::vector<int64_t>{0, 10, 20}));
}

}  // namespace
}  // namespace tandem
