// A step as attention sees it: the rows of each sequence, and the place of its keys and values.
// Built by runtime/execution/batch_builder.h, consumed by the attention layers. No padding
// anywhere.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tandem {

// How attention finds its keys and values (the three types of an encoder/decoder model).
enum class AttentionType : uint8_t {
  kEncoder,         // encoder self-attention: not causal, no cache
  kDecoder,         // decoder self-attention: causal, paged cache
  kEncoderDecoder,  // cross-attention: rectangular, paged, read-only once the encoder has run
};

// A page table as CSR (FlashInfer). Sequence i has pages page_indices[indptr[i] .. indptr[i+1]) and
// block_size * (pages - 1) + last_page_len[i] keys; a sequence with no keys has no pages.
struct PageTable {
  std::vector<int32_t> indptr{0};
  std::vector<int32_t> page_indices;
  std::vector<int32_t> last_page_len;
};

struct AttentionMetadata {
  // Decoder: one entry per scheduled sequence; before it one for each token of a prompt that all of
  // its tokens see, as if that token stood at the prompt's end.
  int32_t num_requests = 0;
  std::vector<int32_t> query_start_loc{0};   // [R + 1], indptr of the scheduled tokens
  std::vector<int32_t> num_tokens;           // [R] scheduled in this step
  std::vector<int32_t> num_computed_tokens;  // [R] in the cache before this step
  std::vector<int32_t> seq_lens;             // [R] computed + scheduled
  std::vector<int32_t> num_prompt_tokens;    // [R] of the sequence, its first ones
  int32_t max_query_len = 0;
  std::vector<int32_t> slot_mapping;  // [T] where each token's keys and values go
  PageTable self_pages;               // [R]
  bool shared_keys = false;           // entries see tokens that other entries of the step write

  // Encoder: one entry per group whose encoder runs in this step.
  std::vector<int32_t> encoder_start_loc{0};  // [E + 1], indptr of the encoder's positions
  std::vector<int32_t> encoder_seq_lens;      // [E]
  std::vector<int32_t> encoder_ranges;        // [2 E]: the first position of each, and its end
  int32_t max_encoder_seq_len = 0;
  std::vector<int32_t> cross_slot_mapping;  // [encoder tokens of this step]
  // Tokens with global attention: their rows, ascending, those of encoder sequence i at
  // [global_start_loc[i], global_start_loc[i + 1]). Both are empty where there are none.
  std::vector<int32_t> global_rows;
  std::vector<int32_t> global_start_loc;  // [E + 1]

  // Cross-attention: one entry per group with scheduled decoder tokens. Its sequences' rows are
  // adjacent and see the same keys, so that beams and samples read them once.
  std::vector<int32_t> cross_query_start_loc{0};  // [G + 1], indptr of the scheduled tokens
  std::vector<int32_t> cross_seq_lens;            // [G] length of its encoder sequence
  PageTable cross_pages;                          // [G]

  // Adds an encoder sequence of `length` > 0 positions; `global_positions` have global attention.
  void add_encoder(int32_t length, std::span<const int32_t> global_positions);
};

// The input of encoders that read frames, for a step.
struct EncoderFrames {
  int32_t width = 0;                  // 0: the model's encoder reads ids
  std::vector<float> values;          // [frames, width]
  std::vector<int32_t> start_loc{0};  // [E + 1], indptr of the frames; as many entries as encoders
};

// The flat token vectors of a step.
struct ModelInput {
  std::vector<int32_t> input_ids;          // [T]
  std::vector<int32_t> positions;          // [T]
  std::vector<int32_t> request_indices;    // [T] which entry of the decoder a token belongs to
  std::vector<int32_t> encoder_input_ids;  // [encoder tokens]; of frames none
  std::vector<int32_t> encoder_positions;  // [encoder tokens]
  EncoderFrames encoder_frames;            // instead of ids
  AttentionMetadata attention;

  bool has_encoder_work() const { return !attention.encoder_seq_lens.empty(); }
  bool has_decoder_work() const { return !input_ids.empty(); }
};

}  // namespace tandem
