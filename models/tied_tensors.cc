#include "models/tied_tensors.h"

#include <cstring>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "base/strings/printable.h"

namespace tandem {
namespace {

// The tensor that has one of these names, the first of them first; nullptr: there is none.
const HostTensor* find_any_of(const Checkpoint& checkpoint,
                              std::initializer_list<std::string_view> endings) {
  for (const std::string_view ending : endings) {
    const std::string part = std::string(1, '.').append(ending);
    for (const auto& [name, tensor] : checkpoint.tensors())
      if (name == ending || name.ends_with(part)) return &tensor;
  }
  return nullptr;
}

bool differ(const HostTensor& a, const HostTensor& b) {
  if (a.data == b.data || a.shape != b.shape || a.dtype_name() != b.dtype_name()) return false;
  return std::memcmp(a.data, b.data, a.bytes) != 0;
}

}  // namespace

std::vector<std::string> untied_warnings(const ModelConfig& config, const Checkpoint& checkpoint) {
  if (!config.tie_word_embeddings) return {};
  constexpr std::string_view kShared = "shared.weight", kDecoder = "decoder.embed_tokens.weight",
                             kEncoder = "encoder.embed_tokens.weight";
  const bool apart = config.encoder_vocab_size > 0;  // the encoder's table is its own
  const HostTensor* first = apart ? find_any_of(checkpoint, {kDecoder, kShared})
                                  : find_any_of(checkpoint, {kShared, kDecoder, kEncoder});
  if (first == nullptr) return {};
  std::vector<const HostTensor*> others = {
      find_any_of(checkpoint, {"lm_head.weight", "proj_out.weight", "lm_head.out_proj.weight"}),
      find_any_of(checkpoint, {kDecoder})};
  if (!apart) others.push_back(find_any_of(checkpoint, {kEncoder}));
  std::vector<std::string> lines;
  for (const HostTensor* other : others)
    if (other != nullptr && differ(*first, *other))
      lines.push_back(checkpoint.location() + ": " + printable(other->name) + " and " +
                      printable(first->name) +
                      " have different values, although config.json says tie_word_embeddings; "
                      "each is used as it is stored, as in HuggingFace");
  return lines;
}

}  // namespace tandem
