// The table of the models that there are.
#include <string>

#include "base/strings/printable.h"
#include "text/pipeline/models/bpe_model.h"
#include "text/pipeline/models/unigram_model.h"
#include "text/pipeline/models/word_models.h"
#include "text/pipeline/text_pipeline.h"

namespace tandem {
namespace {

// Files of the library's first versions do not name the type.
std::string type_of(const JsonView& json) {
  if (const auto type = json.find("type")) return type->string();
  if (json.find("merges")) return "BPE";
  if (json.find("continuing_subword_prefix")) return "WordPiece";
  if (json.find("unk_token")) return "WordLevel";
  return "Unigram";
}

}  // namespace

std::unique_ptr<TokenModel> make_token_model(const JsonView& json) {
  const std::string type = type_of(json);
  if (type == "BPE") return std::make_unique<BpeModel>(json);
  if (type == "Unigram") return make_unigram_model(json);
  if (type == "WordPiece") return make_word_piece_model(json);
  if (type == "WordLevel") return make_word_level_model(json);
  json.at("type").fail_unsupported("there is no token model " + printable(type));
}

}  // namespace tandem
