// Chunks of sound that share their ends → one text: what HuggingFace's pipeline makes of them
// (_decode_asr and _find_longest_common_sequence of tokenization_whisper.py).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/media/sound/speech_settings.h"
#include "runtime/media/sound/words/token_times.h"
#include "runtime/protocol/tandem.pb.h"
#include "text/tokenizer.h"

namespace tandem {

// Merges the tokens of neighbouring chunks, which arrive in order. A common part of two neighbours
// appears once: its first half from the left one, its second half from the right one. Tokens of the
// right one that were said before the left one's are not the same; without times all are said at 0.
class TokenMerger {
 public:
  using Tokens = std::vector<SpokenToken>;
  // Appends to `out` what is certain from now on.
  void add(Tokens tokens, Tokens& out);
  // The rest; as new behind it.
  void finish(Tokens& out);
  bool empty() const { return count_ == 0; }       // nothing has come
  bool has_tokens() const { return has_tokens_; }  // something that was not empty

 private:
  Tokens left_;
  size_t count_ = 0;
  bool has_tokens_ = false;
};

class ChunkMerger {
 public:
  struct Chunk {
    std::vector<int32_t> tokens;             // of all its windows, times among them
    double length = 0, left = 0, right = 0;  // seconds; what it shares with its neighbours
    proto::SpeechSegment facts = {};         // how its first window was decoded
    // With times of words: the same tokens, in seconds of the chunk; and the language's code.
    std::vector<SpokenToken> spoken = {};
    std::string language = {};
  };

  // settings and tokenizer outlive it. timestamps: whether texts are cut at the model's times.
  // seconds: length of the whole sound, the end of a text without one.
  ChunkMerger(const SpeechSettings& settings, const Tokenizer& tokenizer, bool timestamps,
              double seconds);

  // The next one. Appends to `out` what is certain from now on: without times, parts of one text.
  void add(const Chunk& chunk, std::vector<proto::SpeechSegment>& out);
  // Behind the last one.
  void finish(std::vector<proto::SpeechSegment>& out);

 private:
  struct Place;
  SpokenToken said(const Chunk& chunk, size_t i) const;
  void add_time(int32_t token, Place& place, std::vector<proto::SpeechSegment>& out);
  void add_language(const std::string& language, std::vector<proto::SpeechSegment>& out);
  void end_text(double time, std::vector<proto::SpeechSegment>& out);
  void emit(double time, std::vector<proto::SpeechSegment>& out, bool ends = false);

  const SpeechSettings& settings_;
  const Tokenizer& tokenizer_;
  bool timestamps_;
  double seconds_;
  double seconds_per_time_;
  double offset_ = 0;            // where the chunk begins, seconds
  bool skip_ = false;            // the next time too
  std::optional<double> start_;  // of the text that is open, once a time has said it
  double given_to_ = 0;          // seconds
  proto::SpeechSegment facts_;   // of the last chunk, without times, text and tokens
  std::string language_;
  bool words_ = false;             // their times are asked for
  std::string language_of_words_;  // the last chunk's
  TokenMerger::Tokens current_;    // of the chunk, behind the last text that ended in it
  TokenMerger merger_;
  TokenMerger::Tokens resolved_;  // certain, and not given yet
  std::optional<Detokenizer> text_;
};

}  // namespace tandem
