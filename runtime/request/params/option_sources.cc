#include "runtime/request/params/option_sources.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <vector>

namespace tandem {
namespace {

using Options = proto::GenerationOptions;
using Field = google::protobuf::FieldDescriptor;
using google::protobuf::Message;

std::vector<const Field*> fields_of(const Message& message) {
  std::vector<const Field*> fields;
  message.GetReflection()->ListFields(message, &fields);
  return fields;
}

template <class Ids>
void check_option_ids(const Ids& ids, const std::string& name, int vocab_size) {
  for (int i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= vocab_size)
      throw invalid_request(
          name, "token id at position " + std::to_string(i) + " must be an integer from 0 to " +
                    std::to_string(vocab_size - 1) + ", not " + std::to_string(ids[i]));
}

void check_id(int64_t id, const std::string& name, int vocab_size) {
  if (id < 0 || id >= vocab_size)
    throw invalid_request(name, "must be an integer from 0 to " + std::to_string(vocab_size - 1) +
                                    ", not " + std::to_string(id));
}

void check_bias(const proto::LogitBias& bias, const std::string& name, int vocab_size) {
  for (const auto& [id, value] : bias.of())
    if (id < 0 || id >= vocab_size)
      throw invalid_request(name, "keys must be token ids from 0 to " +
                                      std::to_string(vocab_size - 1) + ", not \"" +
                                      std::to_string(id) + "\"");
}

}  // namespace

bool is_off(const Options& options, const std::string& name) {
  return std::find(options.off().begin(), options.off().end(), name) != options.off().end();
}

// By the fields' types and names, so that none is forgotten.
void check_vocabulary(const Options& options, int vocab_size) {
  for (const Field* field : fields_of(options)) {
    const std::string& name = field->name();
    if (field->is_repeated()) continue;
    if (field->cpp_type() == Field::CPPTYPE_INT64 && name.ends_with("_token_id"))
      check_id(Options::GetReflection()->GetInt64(options, field), name, vocab_size);
    if (field->cpp_type() != Field::CPPTYPE_MESSAGE) continue;
    const Message& value = Options::GetReflection()->GetMessage(options, field);
    if (const auto* ids = dynamic_cast<const proto::TokenIds*>(&value)) {
      check_option_ids(ids->ids(), name, vocab_size);
    } else if (const auto* lists = dynamic_cast<const proto::TokenIdLists*>(&value)) {
      for (const auto& list : lists->lists()) check_option_ids(list.ids(), name, vocab_size);
    } else if (const auto* biases = dynamic_cast<const proto::SequenceBiases*>(&value)) {
      for (const auto& bias : biases->biases()) check_option_ids(bias.ids(), name, vocab_size);
    } else if (const auto* bias = dynamic_cast<const proto::LogitBias*>(&value)) {
      check_bias(*bias, name, vocab_size);
    }
  }
}

}  // namespace tandem
