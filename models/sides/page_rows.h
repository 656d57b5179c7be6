// The rows of an encoder that reads the words of a page with their boxes, and the page (UDOP, Tang
// et al. 2022): the words', then those of the patches that lie under none.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tandem {

// A sequence's part of the frames: the page's patches, if there is a page, then a box for each id
// (left, top, right, bottom, parts of the page).
struct PageFrames {
  const float* values;  // [patches + ids, width]
  int64_t ids, width;
  int64_t patches;  // 0: there is no page
  const float* box(int64_t id) const { return values + (patches + id) * width; }
};

// Whether each patch stands for itself: none whose number the middle of a box has. side: of the
// page, in patches.
std::vector<bool> left_patches(const PageFrames& page, int side);

// Of all sequences of a step.
struct PageRows {
  static constexpr size_t kEdges = 4;  // of a box

  std::vector<int32_t> of_tokens;                   // rows of the encoder: of each id
  std::vector<int32_t> under_tokens;                // the patch that is added to each id; -1: none
  std::vector<int32_t> of_patches;                  // rows of the patches that stand for themselves
  std::vector<int32_t> left;                        // and these patches
  std::vector<int32_t> frames;                      // of each patch
  std::array<std::vector<int32_t>, kEdges> places;  // of the embeddings of each row's edges
  std::vector<float> boxes;                         // [rows, 4], for attention
};

// Appends a sequence. first_frame: its first one; places: edges that have an embedding.
// HuggingFace's arithmetic: double where there is a page, else float32.
void add_page(const PageFrames& page, int32_t first_frame, int side, int places, PageRows& out);

}  // namespace tandem
