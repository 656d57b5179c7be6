// Whether what a message says of a group can be true. Messages may come from another process: what
// passes is safe to use. All of them throw MessageError.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

#include "models/config/limits.h"
#include "runtime/execution/groups/worker_group.h"

namespace tandem {

// A field of a message: list[index].name, or name alone. Text is made only when there is an error.
struct MessageField {
  const char* list;
  int index;
  const char* name;

  std::string text() const {
    if (list == nullptr) return name;
    return std::string(list) + "[" + std::to_string(index) + "]" + (*name ? "." : "") + name;
  }
};

// In a part of a message; SequenceTable::apply() says in which part.
struct MessageError : std::runtime_error {
  MessageError(const MessageField& field, const std::string& message)
      : std::runtime_error(field.text() + ": " + message) {}
  MessageError(const char* name, const std::string& message)
      : MessageError(MessageField{nullptr, 0, name}, message) {}
};

// What a worker's messages are checked against.
struct SequenceLimits {
  int block_size = 0;
  int num_device_blocks = 0;
  int num_host_blocks = 0;
  int vocab_size = 0;             // token ids are below; 0: not checked
  int max_encoder_positions = 0;  // 0: not checked
  int max_decoder_positions = 0;
  bool searches_beams = false;  // groups may have beams_ahead
  int max_drafts = 0;           // of a sequence in a step
  bool draft_model = false;     // which says them
  // Of a model whose encoder reads frames. Without: encoders read ids.
  std::optional<FrameLimits> frames = {};
  bool global_attention = false;  // encoder positions may have it
  bool whole_prompts = false;     // decoder prompts attend to all of themselves
  int encoder_vocab_size = 0;     // of the encoder's ids; 0: vocab_size
  bool language_head = true;      // the model generates tokens
  bool output_head = false;       // the model makes labels or spans
  // Heads of cross-attention whose weights can be asked for; 0: none can.
  int decoder_layers = 0, decoder_heads = 0;
};

// Every block is in the device pool, and the table that they are of, or are added to, has no more
// blocks than the pool (`size`).
void check_blocks(const SequenceLimits& limits, std::span<const int32_t> blocks,
                  const MessageField& field, size_t size);
// They hold `tokens` tokens.
void check_covers(const SequenceLimits& limits, std::span<const int32_t> blocks, int64_t tokens,
                  const MessageField& field);
// A token id; vocab_size 0: any that is not negative.
void check_token(const SequenceLimits& limits, int32_t token, const MessageField& field);
// The sequence with its chunk of this step ends within its tokens, its table and the positions.
void check_chunk(const SequenceLimits& limits, const WorkerSequence& seq,
                 const MessageField& field);
// A prompt whose tokens attend to all of it is not divided: the chunk ends with it, or behind it.
void check_whole_prompt(const WorkerGroup& group, const WorkerSequence& seq,
                        const MessageField& field);
// Drafts stand behind a chunk that ends at the last token, of a sequence that is no beam;
// check_chunk() counts them.
void check_drafts(const SequenceLimits& limits, const WorkerGroup& group, const WorkerSequence& seq,
                  const MessageField& field);
// A whole group, with its chunks, none of whose tokens and blocks only the device knows.
void check_group(const SequenceLimits& limits, const WorkerGroup& group);
// With beams_ahead: that the chunks of the step, and what is there, make a round of the search or
// none.
void check_round(const SequenceLimits& limits, const WorkerGroup& group);
// Block copies are within the pools. Throws std::runtime_error naming the list.
void check_copies(const SequenceLimits& limits, const proto::StepInput& step);

}  // namespace tandem
