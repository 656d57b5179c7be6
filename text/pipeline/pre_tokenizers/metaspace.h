// SentencePiece's way with spaces, as tokenizers of the library have it: a symbol stands for each,
// and words begin with it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "text/pipeline/text_pipeline.h"

namespace tandem {

// Splits at white space, which goes.
class WhitespaceSplitPreTokenizer final : public PreTokenizer {
 public:
  void split(std::string_view text, const TextSink& word) const override;
};

// The settings of the JSON component "Metaspace". Throws InputError for those that are not built.
struct Metaspace {
  explicit Metaspace(const JsonView& json);
  Metaspace(std::string replacement, bool prepend)
      : replacement(std::move(replacement)), prepend(prepend) {}
  std::string replacement;
  bool prepend = true;  // before each text that does not begin with it
  bool split = true;    // before each replacement
};

class MetaspacePreTokenizer final : public PreTokenizer {
 public:
  explicit MetaspacePreTokenizer(const JsonView& json) : settings_(json) {}
  void split(std::string_view text, const TextSink& word) const override;

 private:
  Metaspace settings_;
};

class MetaspaceDecoder final : public Decoder {
 public:
  // `bytes`: tokens such as <0xE2> stand for bytes. `strips`: a text loses a space at its start,
  // also that of a byte.
  MetaspaceDecoder(Metaspace settings, bool bytes, bool strips = false)
      : settings_(std::move(settings)), bytes_(bytes), strips_(strips) {}
  std::string token_bytes(std::string_view token) const override { return decode(token, " "); }
  std::string first_token_bytes(std::string_view token) const override;
  std::optional<char> byte_of(std::string_view token) const override;

 private:
  std::string decode(std::string_view token, std::string_view space) const;

  Metaspace settings_;
  bool bytes_, strips_;
};

// Of one component "Metaspace", or of a "Sequence": "ByteFallback" and that one, or "Replace" of a
// symbol by a space, "ByteFallback" and "Fuse", and perhaps "Strip" of a space at the start.
std::unique_ptr<Decoder> make_metaspace_decoder(const JsonView& json);

}  // namespace tandem
