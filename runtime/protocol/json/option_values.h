// Values of those parameters that are lists, objects or words: how they are read of JSON, and the
// bounds of what was read, or came over the wire. Each function throws an InputError that names the
// parameter.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/protocol/tandem.pb.h"

namespace tandem {

struct OptionSource {
  const std::string& name;
  int num_ids;      // token ids are from 0 to this, exclusive
  bool from_model;  // from a generation_config.json
};

// Ids of tokens that are only compared with: HuggingFace ignores those outside the vocabulary, and
// checkpoints have them.
proto::TokenIds read_compared_ids(const nlohmann::json& value, const OptionSource& source);
proto::TokenIds read_ids(const nlohmann::json& value, const OptionSource& source);
proto::TokenIdLists read_id_lists(const nlohmann::json& value, const OptionSource& source);
proto::Texts read_texts(const nlohmann::json& value, const OptionSource& source);
// As read_texts(), without the blanks in front, which are vLLM's to put there.
proto::Texts read_bad_words(const nlohmann::json& value, const OptionSource& source);
proto::LogitBias read_logit_bias(const nlohmann::json& value, const OptionSource& source);
proto::SequenceBiases read_sequence_bias(const nlohmann::json& value, const OptionSource& source);
proto::ExponentialDecay read_decay(const nlohmann::json& value, const OptionSource& source);
proto::SamplingParams::EarlyStopping read_early_stopping(const nlohmann::json& value,
                                                         const OptionSource& source);
// Positions of the encoder's sequence: integers from 0, whose number the encoder's length limits.
// `name`: what messages call them.
proto::Positions read_positions(const nlohmann::json& value, const std::string& name);
proto::Positions read_position_option(const nlohmann::json& value, const OptionSource& source);
// Any 64 bits, signed or unsigned.
int64_t read_seed(const nlohmann::json& value, const OptionSource& source);

// `name`: of the parameter. Ids are not compared with a vocabulary.
void check_allowed_ids(const proto::TokenIds& value, const std::string& name);
void check_positions(const proto::Positions& value, const std::string& name);
void check_id_lists(const proto::TokenIdLists& value, const std::string& name);
void check_stop_strings(const proto::Texts& value, const std::string& name);
void check_bad_words(const proto::Texts& value, const std::string& name);
void check_short_name(const std::string& value, const std::string& name);
void check_salt(const std::string& value, const std::string& name);
void check_logit_bias(const proto::LogitBias& value, const std::string& name);
void check_sequence_bias(const proto::SequenceBiases& value, const std::string& name);
void check_decay(const proto::ExponentialDecay& value, const std::string& name);

}  // namespace tandem
