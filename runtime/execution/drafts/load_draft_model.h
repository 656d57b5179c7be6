// A model that makes drafts for another one (--draft-model): whether it can, and its weights.
#pragma once

#include <filesystem>
#include <memory>

#include "models/checkpoint/checkpoint.h"
#include "models/load_model.h"
#include "models/model.h"
#include "runtime/scheduling/drafts/step_times.h"

namespace tandem {

struct LoadedDraftModel {
  std::unique_ptr<Model> model;
  // The model's own encoder does for it: it is the same. Then it was not loaded.
  bool shares_encoder = false;
  double rows_of_a_step = kRowsOfAStep;         // step_times.h
  double rows_of_a_target_step = kRowsOfAStep;  // of the model's
};

// Throws InputError naming --draft-model and the difference. These must be equal: the vocabulary's
// size, the tokens that sequences begin and end with, the encoder's kind of input. The draft model
// must not have fewer positions.
void check_draft_model(const ModelConfig& model, const ModelConfig& draft);
// The same of texts' tokens. Reads both tokenizers.
void check_draft_tokenizer(const std::filesystem::path& model, const std::filesystem::path& draft);
// Whether both encoders have the same weights, byte for byte, and sizes. What this misses would
// cost right drafts, no more.
bool have_same_encoder(const ModelConfig& model, const Checkpoint& of_model,
                       const ModelConfig& draft, const Checkpoint& of_draft);

// Loads it, checked. tokenizers: they are compared too.
LoadedDraftModel load_draft_model(const ModelConfig& model, const Checkpoint& of_model,
                                  const std::filesystem::path& draft, Build build, bool tokenizers);

}  // namespace tandem
