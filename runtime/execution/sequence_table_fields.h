// What checks of a worker's messages have in common (sequence_table*.cc only).
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "runtime/execution/batch_builder.h"

namespace tandem::sequence_table {

using Ids = google::protobuf::RepeatedField<int32_t>;

// A field of a message: list[index].name, or name alone. Text is made only when there is an error.
struct Field {
  const char* list;
  int index;
  const char* name;
  std::string text() const {
    if (list == nullptr) return name;
    return std::string(list) + "[" + std::to_string(index) + "]" + (*name ? "." : "") + name;
  }
};

// What is wrong in a part of a message; apply() says in which part.
struct FieldError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[noreturn]] inline void fail(const Field& field, const std::string& message) {
  throw FieldError(field.text() + ": " + message);
}
[[noreturn]] inline void fail(const char* name, const std::string& message) {
  fail(Field{nullptr, 0, name}, message);
}

// Every id in [0, limit).
inline void check_range(const Ids& ids, int limit, const Field& field) {
  for (const int32_t id : ids)
    if (id < 0 || id >= limit)
      fail(field, std::to_string(id) + " is not in [0, " + std::to_string(limit) + ")");
}

inline int64_t length_of(const proto::SequenceData& seq) {
  return int64_t{seq.prompt_token_ids_size()} + seq.output_token_ids_size();
}

// Blocks of a table that has `size` of them.
inline void check_blocks(const SequenceLimits& limits, const Ids& blocks, const Field& field,
                         int size) {
  if (size > limits.num_device_blocks)
    fail(field, std::to_string(size) + " blocks, more than the pool has");
  check_range(blocks, limits.num_device_blocks, field);
}

inline void check_blocks(const SequenceLimits& limits, const Ids& blocks, const Field& field) {
  check_blocks(limits, blocks, field, blocks.size());
}

inline void check_covers(const SequenceLimits& limits, const Ids& blocks, int64_t tokens,
                         const Field& field) {
  if (tokens > int64_t{blocks.size()} * limits.block_size)
    fail(field, std::to_string(blocks.size()) + " blocks of " + std::to_string(limits.block_size) +
                    " tokens do not cover " + std::to_string(tokens) + " tokens");
}

// With beams_ahead: that the chunks of the step, and what is there, make a round of the search or
// none. goes_on: SequenceTable::go_on() was called.
void check_round(const SequenceLimits& limits, const proto::SequenceGroupMetadata& group,
                 bool goes_on);
// Blocks and tokens that only the device knows become 0.
void forget_references(proto::SequenceGroupMetadata& group);

}  // namespace tandem::sequence_table
