#include "runtime/execution/groups/group_checks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "runtime/sampling/beam_search.h"
#include "runtime/sampling/token_choice.h"

namespace tandem {
namespace {

using Ids = std::span<const int32_t>;

[[noreturn]] void fail(const MessageField& field, const std::string& message) {
  throw MessageError(field, message);
}
[[noreturn]] void fail(const char* name, const std::string& message) {
  throw MessageError(name, message);
}

// Every id in [0, limit).
void check_range(Ids ids, int limit, const MessageField& field) {
  for (const int32_t id : ids)
    if (id < 0 || id >= limit)
      fail(field, std::to_string(id) + " is not in [0, " + std::to_string(limit) + ")");
}

void check_tokens(const SequenceLimits& limits, Ids ids, const MessageField& field) {
  if (limits.vocab_size > 0) check_range(ids, limits.vocab_size, field);
}

void check_encoder_tokens(const SequenceLimits& limits, Ids ids, const MessageField& field) {
  if (limits.encoder_vocab_size == 0) return check_tokens(limits, ids, field);
  check_range(ids, limits.encoder_vocab_size, field);
}

void check_given_ids(const SequenceLimits& limits, const WorkerEncoder& encoder,
                     const char* field) {
  if (encoder.tokens.empty()) fail(field, "missing");
  check_encoder_tokens(limits, encoder.tokens, {nullptr, 0, field});
}

void check_ids(const SequenceLimits& limits, const WorkerEncoder& encoder) {
  const char* const field = "encoder_seq_data.prompt_token_ids";
  if (encoder.frames.count != 0 || encoder.frames.width != 0 || !encoder.frames.values.empty())
    fail("encoder_seq_data.frames", "the model's encoder reads token ids");
  check_given_ids(limits, encoder, field);
  if (encoder.tokens.size() != static_cast<size_t>(encoder.length))
    fail("encoder_seq_data.encoder_length", std::to_string(encoder.length) + ", but there are " +
                                                std::to_string(encoder.tokens.size()) + " tokens");
}

void check_frame_shape(const FrameLimits& limits, const WorkerFrames& frames) {
  if (frames.count < 1)
    fail("encoder_seq_data.frames.num_frames",
         frames.count == 0 ? "missing" : std::to_string(frames.count) + " is negative");
  if (frames.width != limits.width)
    fail("encoder_seq_data.frames.width",
         std::to_string(frames.width) + " instead of " + std::to_string(limits.width));
}

// Values that have been computed need not be there. Returns whether they are.
bool check_values(const WorkerEncoder& encoder) {
  const WorkerFrames& frames = encoder.frames;
  const bool computed = encoder.length > 0 && encoder.done();
  if (computed && frames.values.empty()) return false;
  const int64_t size = int64_t{frames.count} * frames.width;
  if (std::ssize(frames.values) != size)
    fail("encoder_seq_data.frames.values",
         std::to_string(frames.values.size()) + " numbers instead of " + std::to_string(size));
  for (size_t i = 0; i < frames.values.size(); ++i)
    if (!std::isfinite(frames.values[i]))
      fail("encoder_seq_data.frames.values", "number " + std::to_string(i) + " is not finite");
  return true;
}

// Ids, perhaps with frames.
void check_both(const SequenceLimits& limits, const FramesBesideIds& beside,
                const WorkerEncoder& encoder) {
  const char* const field = "encoder_seq_data.prompt_token_ids";
  if (encoder.frames.count == 0 && encoder.frames.width == 0 && encoder.frames.values.empty() &&
      !beside.has_boxes)
    return check_ids(limits, encoder);
  check_given_ids(limits, encoder, field);
  const int64_t frames = encoder.frames.count;
  const int64_t patches = limits.frames->image ? limits.frames->image->count() : 0,
                boxes = beside.has_boxes ? std::ssize(encoder.tokens) : 0;
  if (frames != patches + boxes && (boxes == 0 || frames != boxes))
    fail("encoder_seq_data.frames.num_frames", std::to_string(frames));
  const int64_t of_image =
      std::count(encoder.tokens.begin(), encoder.tokens.end(), beside.image_id);
  if (beside.image_id >= 0 && of_image != beside.image_positions)
    fail(field, std::to_string(of_image) + " positions of the image instead of " +
                    std::to_string(beside.image_positions));
  check_frame_shape(*limits.frames, encoder.frames);
  if (!check_values(encoder)) return;
  const int64_t length = beside.length_of(encoder.tokens, encoder.frames.values);
  if (encoder.length != length)
    fail("encoder_seq_data.encoder_length", std::to_string(encoder.length) +
                                                ", but the model makes " + std::to_string(length) +
                                                " positions");
}

void check_frames(const FrameLimits& limits, const WorkerEncoder& encoder) {
  if (!encoder.tokens.empty())
    fail("encoder_seq_data.prompt_token_ids", "the model's encoder reads frames");
  check_frame_shape(limits, encoder.frames);
  const int64_t length = limits.length_of(encoder.frames.count);
  if (encoder.length != length)
    fail("encoder_seq_data.encoder_length",
         std::to_string(encoder.length) + ", but the model makes " + std::to_string(length) +
             " positions of " + std::to_string(encoder.frames.count) + " frames");
  check_values(encoder);
}

void check_global_positions(const SequenceLimits& limits, const WorkerEncoder& encoder) {
  const char* const field = "encoder_seq_data.global_attention";
  if (!limits.global_attention && !encoder.global_positions.empty())
    fail(field, "the model has no global attention");
  check_range(encoder.global_positions, encoder.length, {nullptr, 0, field});
  for (size_t i = 1; i < encoder.global_positions.size(); ++i)
    if (encoder.global_positions[i - 1] >= encoder.global_positions[i])
      fail(field, "is not ascending");
}

void check_encoder(const SequenceLimits& limits, const WorkerGroup& group) {
  const WorkerEncoder& encoder = group.encoder;
  const int length = encoder.length;
  const int64_t given = std::max<int64_t>(length, std::ssize(encoder.tokens));
  if (limits.max_encoder_positions > 0 && given > limits.max_encoder_positions)
    fail(limits.frames ? "encoder_seq_data.encoder_length" : "encoder_seq_data.prompt_token_ids",
         std::to_string(given) + (limits.frames ? " positions" : " tokens") +
             ", but the model has " + std::to_string(limits.max_encoder_positions) + " positions");
  if (limits.frames && limits.frames->beside_ids)
    check_both(limits, *limits.frames->beside_ids, encoder);
  else if (limits.frames)
    check_frames(*limits.frames, encoder);
  else
    check_ids(limits, encoder);
  if (length < 1) fail("encoder_seq_data.encoder_length", std::to_string(length));
  check_global_positions(limits, encoder);
  // Indivisible: computed, to be computed in this step, or neither.
  const int chunk = group.compute_encoder ? length : 0;
  if (encoder.chunk != chunk)
    fail("encoder_seq_data.token_chunk_size",
         std::to_string(encoder.chunk) + " instead of " + std::to_string(chunk));
  if (encoder.num_computed != 0 && (encoder.num_computed != length || group.compute_encoder))
    fail("encoder_seq_data.num_computed_tokens",
         std::to_string(encoder.num_computed) + ", but an encoder input is not divided");
  if (group.pools()) return;  // no keys and values come of it
  const MessageField blocks{nullptr, 0, "cross_block_table.blocks"};
  check_blocks(limits, encoder.blocks, blocks, encoder.blocks.size());
  check_covers(limits, encoder.blocks, length, blocks);
}

// One sequence without tokens, and no blocks; nothing is left to do for it in a later step.
void check_pooled(const WorkerGroup& group) {
  if (group.seqs.size() != 1)
    fail("seq_data", std::to_string(group.seqs.size()) + " sequences, but it is pooled");
  const WorkerSequence& seq = group.seqs[0];
  if (seq.length() != 0 || seq.chunk != 0 || seq.num_computed != 0)
    fail({"seq_data", 0, "prompt_token_ids"}, "tokens, but it is pooled");
  if (!seq.blocks.empty()) fail({"block_tables", 0, "blocks"}, "blocks, but it is pooled");
  if (!group.encoder.blocks.empty()) fail("cross_block_table.blocks", "blocks, but it is pooled");
  if (!proto::Pooling::Kind_IsValid(group.params.pooling().kind()))
    fail("sampling_params.pooling.kind", "unknown");
}

// One sequence, whose prompt is all that it has.
void check_head(const SequenceLimits& limits, const WorkerGroup& group) {
  if (!limits.output_head) fail("sampling_params.pooling.kind", "the model has no such head");
  if (group.seqs.size() != 1 || !group.seqs[0].output.empty())
    fail("seq_data", "a head reads one sequence, without output");
}

// The same; of heads that the model has, over positions that the encoder has.
void check_alignment(const SequenceLimits& limits, const WorkerGroup& group) {
  if (group.seqs.size() != 1 || !group.seqs[0].output.empty())
    fail("seq_data", "an alignment reads one sequence, without output");
  const proto::Alignment& wanted = group.params.pooling().alignment();
  const char* const field = "sampling_params.pooling.alignment";
  if (wanted.heads().empty()) fail(field, "no heads");
  for (const proto::AttentionHead& head : wanted.heads())
    if (head.layer() < 0 || head.layer() >= limits.decoder_layers || head.head() < 0 ||
        head.head() >= limits.decoder_heads)
      fail(field, "head " + std::to_string(head.head()) + " of layer " +
                      std::to_string(head.layer()) + ", but there are " +
                      std::to_string(limits.decoder_layers) + " layers of " +
                      std::to_string(limits.decoder_heads));
  if (wanted.positions() < 1 || wanted.positions() > group.encoder.length)
    fail(field, std::to_string(wanted.positions()) + " of " + std::to_string(group.encoder.length) +
                    " positions");
  if (wanted.first_token() < 0 || wanted.first_token() >= group.seqs[0].length())
    fail(field, "from token " + std::to_string(wanted.first_token()) + " of " +
                    std::to_string(group.seqs[0].length()));
}

void check_sequence(const SequenceLimits& limits, const WorkerSequence& seq, int i) {
  check_blocks(limits, seq.blocks, {"block_tables", i, "blocks"}, seq.blocks.size());
  if (seq.prompt.empty()) fail({"seq_data", i, "prompt_token_ids"}, "missing");
  check_tokens(limits, seq.prompt, {"seq_data", i, "prompt_token_ids"});
  check_tokens(limits, seq.output, {"seq_data", i, "output_token_ids"});
  if (seq.index < 0) fail({"seq_data", i, "index"}, std::to_string(seq.index) + " is negative");
  if (seq.num_computed < 0 || seq.num_computed > seq.length())
    fail({"seq_data", i, "num_computed_tokens"},
         std::to_string(seq.num_computed) + " of " + std::to_string(seq.length()) + " tokens");
  if (seq.chunk < 0)
    fail({"seq_data", i, "token_chunk_size"}, std::to_string(seq.chunk) + " is negative");
  check_chunk(limits, seq, {"seq_data", i, "token_chunk_size"});
}

}  // namespace

void check_blocks(const SequenceLimits& limits, Ids blocks, const MessageField& field,
                  size_t size) {
  if (size > static_cast<size_t>(limits.num_device_blocks))
    fail(field, std::to_string(size) + " blocks, more than the pool has");
  check_range(blocks, limits.num_device_blocks, field);
}

void check_covers(const SequenceLimits& limits, Ids blocks, int64_t tokens,
                  const MessageField& field) {
  if (tokens > static_cast<int64_t>(blocks.size()) * limits.block_size)
    fail(field, std::to_string(blocks.size()) + " blocks of " + std::to_string(limits.block_size) +
                    " tokens do not cover " + std::to_string(tokens) + " tokens");
}

void check_token(const SequenceLimits& limits, int32_t token, const MessageField& field) {
  const int32_t limit =
      limits.vocab_size > 0 ? limits.vocab_size : std::numeric_limits<int32_t>::max();
  check_range({&token, 1}, limit, field);
}

void check_chunk(const SequenceLimits& limits, const WorkerSequence& seq,
                 const MessageField& field) {
  const int64_t chunk_end = int64_t{seq.num_computed} + seq.chunk;
  if (chunk_end > seq.length())
    fail(field, std::to_string(seq.num_computed) + " computed and " + std::to_string(seq.chunk) +
                    " scheduled of " + std::to_string(seq.length()) + " tokens");
  const int64_t end = chunk_end + std::max<int64_t>(std::ssize(seq.drafts), seq.num_drafts);
  if (limits.max_decoder_positions > 0 && end > limits.max_decoder_positions)
    fail(field, "ends at token " + std::to_string(end) + ", but the model has " +
                    std::to_string(limits.max_decoder_positions) + " positions");
  check_covers(limits, seq.blocks, end, field);
}

void check_whole_prompt(const WorkerGroup& group, const WorkerSequence& seq,
                        const MessageField& field) {
  const int64_t end = int64_t{seq.num_computed} + seq.chunk, prompt = std::ssize(seq.prompt);
  if (group.whole_prompt && seq.chunk > 0 && end < prompt)
    fail(field, "ends at token " + std::to_string(end) + " of a prompt of " +
                    std::to_string(prompt) + ", which is not divided");
}

void check_drafts(const SequenceLimits& limits, const WorkerGroup& group, const WorkerSequence& seq,
                  const MessageField& field) {
  const int64_t asked = seq.num_drafts, given = std::ssize(seq.drafts);
  if (asked == 0 && given == 0) return;
  if (asked < 0) fail(field, std::to_string(asked) + " drafts");
  if (asked > 0 && given > 0) fail(field, "drafts are given, and asked for");
  if (asked > 0 && !limits.draft_model) fail(field, "this worker has no draft model");
  if (!(seq.least_likelihood >= 0 && seq.least_likelihood <= 1))
    fail(field, "least_likelihood is not from 0 to 1");
  if (std::max(asked, given) > limits.max_drafts)
    fail(field, std::to_string(std::max(asked, given)) + " drafts, at most " +
                    std::to_string(limits.max_drafts) + " are verified");
  if (uses_beams(group.params)) fail(field, "drafts of a beam");
  if (!seq.samples()) fail(field, "the chunk does not end at the last token");
  for (const int32_t token : seq.drafts) check_token(limits, token, field);
}

void check_group(const SequenceLimits& limits, const WorkerGroup& group) {
  check_encoder(limits, group);
  if (group.pools()) return check_pooled(group);
  if (group.has_head())
    check_head(limits, group);
  else if (group.has_weights())
    check_alignment(limits, group);
  else if (!limits.language_head)
    fail("sampling_params.pooling", "missing, but the model generates nothing");
  bool any_chunk = false;
  for (size_t i = 0; i < group.seqs.size(); ++i) {
    const int at = static_cast<int>(i);
    check_sequence(limits, group.seqs[i], at);
    check_whole_prompt(group, group.seqs[i], {"seq_data", at, "token_chunk_size"});
    any_chunk = any_chunk || group.seqs[i].chunk > 0;
  }
  if (any_chunk && !group.compute_encoder && !group.encoder.done())
    fail("compute_encoder", "tokens are scheduled, but the encoder has not run");
}

void check_round(const SequenceLimits& limits, const WorkerGroup& group) {
  const int vocabulary = limits.vocab_size > 0 ? limits.vocab_size : ops::kMaxSelect;
  if (!limits.searches_beams || !searches_ahead(group.params, vocabulary))
    fail("beams_ahead", "this worker does not search these beams");
  const int n = static_cast<int>(group.seqs.size());
  if (n != group.params.num_beams())
    fail("seq_data", std::to_string(n) + " sequences of " +
                         std::to_string(group.params.num_beams()) + " beams");
  const WorkerSequence& first = group.seqs[0];
  const bool started = !first.output.empty(), round = first.samples();
  for (int i = 0; i < n; ++i) {
    const WorkerSequence& seq = group.seqs[static_cast<size_t>(i)];
    if (seq.index != i) fail({"seq_data", i, "index"}, std::to_string(seq.index));
    if (!started && i > 0 && seq.chunk > 0)
      fail({"seq_data", i, "token_chunk_size"}, "the search has not begun");
    if (seq.length() != first.length() || seq.prompt.size() != first.prompt.size())
      fail({"seq_data", i, "output_token_ids"}, "beams of different lengths");
    if (started && seq.samples() != round)
      fail({"seq_data", i, "token_chunk_size"}, "a round has all beams or none");
    if (group.goes_on && seq.chunk > 0 && !seq.samples())
      fail({"seq_data", i, "token_chunk_size"}, "not a round");
    if (round) check_covers(limits, seq.blocks, first.length(), {"block_tables", i, "blocks"});
  }
}

void check_copies(const SequenceLimits& limits, const proto::StepInput& step) {
  const auto check = [](const auto& copies, int src_blocks, int dst_blocks, const char* list) {
    for (int i = 0; i < copies.size(); ++i) {
      const int32_t src = copies[i].src(), dst = copies[i].dst();
      if (src < 0 || src >= src_blocks || dst < 0 || dst >= dst_blocks)
        throw std::runtime_error("step input: " + MessageField{list, i, ""}.text() + ": " +
                                 std::to_string(src) + " to " + std::to_string(dst) +
                                 " is not in the pools");
    }
  };
  const int device = limits.num_device_blocks;
  check(step.swap_out(), device, limits.num_host_blocks, "swap_out");
  check(step.swap_in(), limits.num_host_blocks, device, "swap_in");
  check(step.copy(), device, device, "copy");
  for (int i = 0; i < step.takes_size(); ++i) {
    for (const int32_t block : step.takes(i).blocks())
      if (block < 0 || block >= device)
        throw std::runtime_error("step input: " + MessageField{"takes", i, "blocks"}.text() + ": " +
                                 std::to_string(block) + " is not in [0, " +
                                 std::to_string(device) + ")");
  }
}

}  // namespace tandem
