#include "models/sides/page_rows.h"

#include <algorithm>
#include <cmath>

namespace tandem {
namespace {

// The patch under the middle of a box, in HuggingFace's float32.
int32_t patch_under(const float* box, int side) {
  const auto cell = [&](float low, float high) {
    const float at = std::floor((low + high) / 2.0f * static_cast<float>(side));
    return static_cast<int32_t>(std::clamp(at, 0.0f, static_cast<float>(side - 1)));
  };
  return cell(box[1], box[3]) * side + cell(box[0], box[2]);
}

// Boxes of no place: all edges 0, or all 1.
bool is_special(const float* box) {
  double sum = 0;
  for (size_t i = 0; i < PageRows::kEdges; ++i) sum += double{box[i]};
  const double mean = sum / PageRows::kEdges;
  return mean == 0.0 || mean == 1.0;
}

// `wide`: in double. Without a page the middles are rounded to float32 before they are compared.
void add_box(const float* box, int places, bool wide, PageRows& out) {
  for (size_t i = 0; i < PageRows::kEdges; ++i) {
    const float edge = std::clamp(box[i], 0.0f, 1.0f);
    const int last = places - 1;
    out.places[i].push_back(wide ? static_cast<int32_t>(double{edge} * last)
                                 : static_cast<int32_t>(edge * static_cast<float>(last)));
    const size_t opposite = (i + 2) % PageRows::kEdges;
    out.boxes.push_back(wide ? box[i] : (box[i] + box[opposite]) / 2.0f);
  }
}

int32_t rows_of(const PageRows& rows) {
  return static_cast<int32_t>(rows.of_tokens.size() + rows.of_patches.size());
}

}  // namespace

std::vector<bool> left_patches(const PageFrames& page, int side) {
  std::vector<bool> out(static_cast<size_t>(page.patches), true);
  for (int64_t i = 0; i < page.ids && page.patches > 0; ++i)
    out[static_cast<size_t>(patch_under(page.box(i), side))] = false;
  return out;
}

void add_page(const PageFrames& page, int32_t first_frame, int side, int places, PageRows& out) {
  const auto first_patch = static_cast<int32_t>(out.frames.size());
  const bool wide = page.patches > 0;
  for (int32_t i = 0; i < page.patches; ++i) out.frames.push_back(first_frame + i);
  for (int64_t i = 0; i < page.ids; ++i) {
    const float* box = page.box(i);
    const bool added = wide && !is_special(box);
    out.under_tokens.push_back(added ? first_patch + patch_under(box, side) : -1);
    out.of_tokens.push_back(rows_of(out));
    add_box(box, places, wide, out);
  }
  const std::vector<bool> left = left_patches(page, side);
  const auto edge = [&](int at) { return static_cast<float>(at) / static_cast<float>(side); };
  for (int32_t p = 0; p < page.patches; ++p) {
    if (!left[static_cast<size_t>(p)]) continue;
    out.left.push_back(first_patch + p);
    out.of_patches.push_back(rows_of(out));
    const float box[] = {edge(p % side), edge(p / side), edge(p % side + 1), edge(p / side + 1)};
    add_box(box, places, true, out);
  }
}

}  // namespace tandem
