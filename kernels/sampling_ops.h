// The ops between logits and the next step: choosing tokens, and the device's own copy of
// sequences, with which it continues before the host knows the tokens. Devices run them. On the CPU
// only tests do, as a reference for devices; the host's sampler (runtime/sampling) shares their row
// arithmetic (kernels/row_math.h, kernels/logit_edits.h). Conventions: kernels/ops.h.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/core/context.h"
#include "kernels/core/tensor.h"

namespace tandem::ops {

// A logits processor's change of one entry of a row, applied in the list's order. `value` is a
// float.
enum class LogitEdit : int32_t {
  kAdd,       // x + value
  kPenalise,  // x < 0 ? x * value : x / value
  kSet,       // value
  kFavour,    // x + |x| * value where x is finite
};
// How a row is processed: bits.
enum : int32_t {
  kRowLogSoftmax = 1,  // processors see x - log_sum rather than x
  kRowMasked = 2,      // every entry is -inf before the edits (a forced token)
};

// The sequence (in SequenceMemory) that a row's processors see. In order:
// 1. `edits_before` of the edits.
// 2. Penalties, once for each distinct token of the sequence. x < 0 ? x * repetition : x /
//    repetition. Then, for tokens that occur n > 0 times from first_output on, x + -(frequency * n)
//    and x + -presence.
// 3. The other edits.
// 4. A mask on tokens that would complete an n-gram of the sequence for the second time.
// 5. A mask on tokens that the row may not have (SelectArgs::masks).
// Tokens outside the row are ignored. Penalties and n-grams compare tokens with tokens: length^2 /
// 2 and length * ngram_size comparisons, by all threads of a row's block. A decoder's 1024 tokens
// fit a cache.
struct RowHistory {
  int32_t place = 0;
  int32_t length = 0;        // tokens of the sequence
  int32_t first_output = 0;  // those before it are the prompt
  int32_t edits_before = 0;  // of the row's edits, how many come before the penalties
  int32_t ngram_size = 0;    // 0: none
  float repetition = 1.0f;   // 1: no penalty
  float presence = 0.0f;     // both 0: no penalty
  float frequency = 0.0f;
};
constexpr int kRowHistoryInts = sizeof(RowHistory) / sizeof(int32_t);

// For each row: computes the log of the sum of its exponentials, applies its processors, then
// selects the k largest entries. Order: largest first, of equals the lower id, NaN before all.
// Processors work in place; rows without any stay as they are. Edits of one entry are adjacent
// (within each of RowHistory's two parts).
struct SelectArgs {
  Tensor logits;          // [R, V] f32
  Tensor flags;           // [R] i32
  Tensor edit_indptr;     // [R + 1] i32, into edits
  Tensor edits;           // [E, 3] i32: id, LogitEdit, the bits of the value
  int k;                  // 1 .. kMaxSelect, at most V
  Tensor log_sums;        // [R] f32: NaN for a row with a NaN or +inf, -inf where all are -inf
  Tensor edited;          // [E] f32: what the entry held before any edit
  Tensor ids;             // [R, k] i32
  Tensor values;          // [R, k] f32
  Tensor best = {};       // [at least R] i32, or empty: ids[r][0] once more
  Tensor histories = {};  // [R, kRowHistoryInts] i32, or empty
  Tensor tokens = {};     // SequenceMemory's, with `histories`
  // [M, ceil(V / 32)] i32, or empty. Bit id % 32 of word id / 32: a row with this mask may have the
  // id. Its other entries become -inf, after all that processors do.
  Tensor masks = {};
  Tensor mask_rows = {};  // [R] i32, with `masks`: each row's; below 0: it has none
};
constexpr int kMaxSelect = 64;
void select(Context& ctx, const SelectArgs& args);

// Draws a token for each row whose rule says so, from the logits after select(). The token and its
// logit before the temperature replace the row's best. HuggingFace's warpers, in its order:
// 1. Temperature.
// 2. Top-k: keeps the k largest and their equals.
// 3. Top-p: drops the least likely that together hold at most `tail`, of equals the lower id first.
// 4. Min-p: keeps those at least min_p times as likely as the best.
// The draw inverts the cumulative distribution, in the order of ids. A row with a NaN or +inf, or
// without candidates, keeps its best.
// A device's likelihoods are fixed-point numbers, multiples of 2^-44 of the best's: their sums do
// not depend on an order, and only exp() rounds. The CPU's are floats, added in the order of ids
// (kernels/row_draw.h). Tokens of the two may differ where a uniform number or a threshold is
// within rounding of a boundary.
struct DrawRule {
  int32_t draws = 0;          // 0: the row is left as it is
  float temperature = 1.0f;   // > 0
  int32_t top_k = 0;          // 0: all
  float tail = 0.0f;          // 1 - top_p, below 1; the least likely, which go; one entry stays
  float min_p = 0.0f;         // at most 1; 0: all
  uint32_t uniform_high = 0;  // 53 bits, times 2^-53
  uint32_t uniform_low = 0;
  int32_t unused = 0;
};
constexpr int kDrawRuleInts = sizeof(DrawRule) / sizeof(int32_t);
struct DrawArgs {
  Tensor logits;     // [R, V] f32
  Tensor rules;      // [R, kDrawRuleInts] i32
  Tensor ids;        // [R, k] i32
  Tensor values;     // [R, k] f32
  Tensor best = {};  // as in SelectArgs
};
void draw(Context& ctx, const DrawArgs& args);

// Logits and ranks of chosen tokens: values[i] = logits[i][id] with id = chosen[rows[i]]; ranks[i]
// is 1 plus the number of entries above it (1 for a NaN).
struct RankTokensArgs {
  Tensor logits;  // [L, V] f32
  Tensor rows;    // [L] i32, into chosen
  Tensor chosen;  // [N] i32
  Tensor values;  // [L] f32
  Tensor ranks;   // [L] i32
};
void rank_tokens(Context& ctx, const RankTokensArgs& args);

// --- Sequences that a device knows before the host does -----------------------------------------

// One place for each sequence; the host assigns the numbers.
struct SequenceMemory {
  Tensor tokens;  // [P, L] i32: the decoder's so far, its prompt first
  Tensor pages;   // [P, B] i32: of a beam: the full pages of its self-attention, in order
  Tensor scores;  // [P] f32: of a running beam
};

// Stores sequences in their places: from data[first ...] the tokens, then the pages.
struct SequenceBegin {
  int32_t place;
  int32_t first;
  int32_t tokens, pages;  // how many
  float score;
  int32_t unused[3] = {};
};
constexpr int kSequenceBeginInts = sizeof(SequenceBegin) / sizeof(int32_t);
struct BeginSequencesArgs {
  SequenceMemory memory;
  Tensor sequences;  // [S, kSequenceBeginInts] i32
  Tensor data;       // [D] i32
};
void begin_sequences(Context& ctx, const BeginSequencesArgs& args);

// tokens[place][length] = chosen[r] with (place, length) = places[r]; a place below 0 is skipped.
struct AppendTokensArgs {
  Tensor chosen;  // [at least R] i32
  Tensor places;  // [R, 2] i32
  Tensor tokens;  // SequenceMemory's
};
void append_tokens(Context& ctx, const AppendTokensArgs& args);

// A round of beam search for each group: from the candidates of its running beams (select()'s, of
// log-softmaxed rows) to the next running beams. Decisions, ties and float32 arithmetic are those
// of runtime/sampling/beam_search.h, without its end: only the host counts steps.
struct BeamRound {
  int32_t first_row;       // of its beams in ids and values
  int32_t rows;            // num_beams; or 1 in the first round: all go on from that row, beam 0's
  int32_t num_beams;       // 0: nothing to do
  int32_t num_candidates;  // of each row, and of all: the best so many decide
  int32_t first_beam;      // in `beams`, and in the outputs
  int32_t length;          // tokens of each beam; the chosen one is put behind them
  int32_t full_pages;      // of each beam, once this step's tokens are in the cache
  int32_t first_end;       // in `ends`: tokens with which a beam ends
  int32_t num_ends;
  int32_t unused[3] = {};
};
constexpr int kBeamRoundInts = sizeof(BeamRound) / sizeof(int32_t);
// A beam of a round. Beams that continue from the same full pages share them. The next page, which
// is not full, is the beam's own: its contents move (move_beam_pages).
struct BeamPlace {
  int32_t place;
  int32_t page;    // behind the full ones; below 0: there are no tokens in it yet
  int32_t filled;  // the page that this step filled, the last of the full ones; below 0: none
  int32_t unused = 0;
};
constexpr int kBeamPlaceInts = sizeof(BeamPlace) / sizeof(int32_t);
constexpr int kMaxDeviceBeams = 32;
struct SearchBeamsArgs {
  Tensor ids;     // [R, k] i32
  Tensor values;  // [R, k] f32
  Tensor rounds;  // [G, kBeamRoundInts] i32
  Tensor beams;   // [N, kBeamPlaceInts] i32
  Tensor ends;    // [E] i32
  // A group's beams change places, then each place gets its token, score and filled page.
  SequenceMemory memory;
  Tensor parents;  // [N] i32 out: which of the group's beams a beam goes on from
  Tensor chosen;   // [N] i32 out: and with which token
  Tensor best;     // [at least N] i32 out: the same tokens once more
};
void search_beams(Context& ctx, const SearchBeamsArgs& args);

// Copies the page (BeamPlace::page) of beam parents[i] to that of beam i, for all beams of a round
// at once. Beams without such a page are skipped.
struct MoveBeamPagesArgs {
  std::span<const Tensor> pools;  // [num_blocks, ...] each
  Tensor rounds, beams, parents;  // as above
};
void move_beam_pages(Context& ctx, const MoveBeamPagesArgs& args);

// An index below 0 stands for a page that only the device knows: -1 - (place << 16 | i) becomes
// pages[place][i].
constexpr int kPlacePageBits = 16;
struct SubstitutePagesArgs {
  Tensor page_indices;  // [N] i32
  Tensor pages;         // SequenceMemory's
};
void substitute_pages(Context& ctx, const SubstitutePagesArgs& args);

// ids[i] below 0 becomes earlier[-1 - ids[i]]: a token that only the device knows so far. If that
// is `padding`, positions[i] becomes -1 (ModelLimits::position_padding).
struct SubstituteIdsArgs {
  Tensor ids;             // [T] i32
  Tensor earlier;         // [N] i32
  Tensor positions = {};  // [T] i32, or empty: they do not depend on ids
  int32_t padding = -1;
};
void substitute_ids(Context& ctx, const SubstituteIdsArgs& args);

// Copies words to page-locked memory for the host, readable there as after a copy. The address is
// an input of the step, so a recorded step writes to a place of its own each time.
struct TellHostArgs {
  Tensor from;  // [N] i32
  Tensor to;    // [2] i32: the address of N words of the host's, its lower half first
};
void tell_host(Context& ctx, const TellHostArgs& args);

}  // namespace tandem::ops
