#include "runtime/protocol/json/option_kinds.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "runtime/protocol/json/constraint_reader.h"
#include "runtime/protocol/json/options_reader.h"

namespace tandem::option_kinds {

using nlohmann::json;
using Options = proto::GenerationOptions;
using Source = OptionSource;

Kind integer(int64_t lo, int64_t hi) {
  return {[=](const json& value, const Source& source, const Field* field, Options& out) {
            Options::GetReflection()->SetInt64(&out, field, read_int(value, source.name, lo, hi));
          },
          [=](const Options& options, const Field* field, const std::string& name) {
            read_int(Options::GetReflection()->GetInt64(options, field), name, lo, hi);
          }};
}

Kind number(NumberBounds range) {
  return {[=](const json& value, const Source& source, const Field* field, Options& out) {
            Options::GetReflection()->SetDouble(&out, field,
                                                read_number(value, source.name, range));
          },
          [=](const Options& options, const Field* field, const std::string& name) {
            read_number(Options::GetReflection()->GetDouble(options, field), name, range);
          }};
}

Kind boolean() {
  return {[](const json& value, const Source& source, const Field* field, Options& out) {
    Options::GetReflection()->SetBool(&out, field, read_bool(value, source.name));
  }};
}

namespace {

// HuggingFace takes an id as a list of one too.
const json& only_id(const json& value) {
  return value.is_array() && value.size() == 1 ? value[0] : value;
}

}  // namespace

Kind token() {
  Kind kind = integer(0, kAny);
  kind.read = [](const json& value, const Source& source, const Field* field, Options& out) {
    const int64_t most = source.from_model ? source.num_ids - 1 : kAny;
    Options::GetReflection()->SetInt64(&out, field, read_int(only_id(value), source.name, 0, most));
  };
  return kind;
}

Kind descriptive_token() {
  Kind kind = token();
  kind.read = [strict = kind.read](const json& given, const Source& source, const Field* field,
                                   Options& out) {
    const json& value = only_id(given);
    const bool usable = value.is_number_integer() && value.get<double>() >= 0 &&
                        value.get<double>() < source.num_ids;
    if (usable || !source.from_model) strict(given, source, field, out);
  };
  return kind;
}

Kind logprobs() {
  Kind kind = integer(0, kMaxLogprobs);
  kind.read = [number = kind.read](const json& value, const Source& source, const Field* field,
                                   Options& out) {
    if (value == false)
      out.add_off(source.name);
    else if (value == true)
      Options::GetReflection()->SetInt64(&out, field, 0);
    else
      number(value, source, field, out);
  };
  return kind;
}

Kind truncation() {
  const auto check = [](const Options& options, const Field*, const std::string& name) {
    if (options.truncate_prompt_tokens() == 0 || options.truncate_prompt_tokens() < -1)
      throw invalid_request(name, "must be >= 1, or -1 for all that the model takes, not " +
                                      std::to_string(options.truncate_prompt_tokens()));
  };
  return {integer(-1, kAny).read, check};
}

Kind seed() {
  return {[](const json& value, const Source& source, const Field*, Options& out) {
    out.set_seed(read_seed(value, source));
  }};
}

Kind salt() {
  return {[](const json& value, const Source& source, const Field*, Options& out) {
            out.set_cache_salt(read_string(value, source.name));
          },
          [](const Options& options, const Field*, const std::string& name) {
            check_salt(options.cache_salt(), name);
          }};
}

Kind short_name(const char* other_spelling) {
  return {[=](const json& value, const Source& source, const Field* field, Options& out) {
            const auto* reflection = Options::GetReflection();
            std::string text = read_string(value, source.name);
            if (reflection->HasField(out, field) && reflection->GetString(out, field) != text)
              throw invalid_request(source.name, describe(value) + " and " + other_spelling + " " +
                                                     describe(reflection->GetString(out, field)) +
                                                     " contradict each other");
            reflection->SetString(&out, field, std::move(text));
          },
          [](const Options& options, const Field* field, const std::string& name) {
            check_short_name(Options::GetReflection()->GetString(options, field), name);
          }};
}

Kind one_of(std::vector<std::string> words) {
  const auto check = [=](const std::string& word, const std::string& name) {
    if (std::find(words.begin(), words.end(), word) != words.end()) return;
    std::string all;
    for (size_t i = 0; i < words.size(); ++i)
      all += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
    throw invalid_request(name, "must be " + all + ", not " + describe(json(word)));
  };
  return {[](const json& value, const Source& source, const Field* field, Options& out) {
            Options::GetReflection()->SetString(&out, field, read_string(value, source.name));
          },
          [=](const Options& options, const Field* field, const std::string& name) {
            check(Options::GetReflection()->GetString(options, field), name);
          }};
}

Kind early_stopping() {
  return {[](const json& value, const Source& source, const Field*, Options& out) {
            out.set_early_stopping(read_early_stopping(value, source));
          },
          [](const Options& options, const Field*, const std::string& name) {
            if (!proto::SamplingParams::EarlyStopping_IsValid(options.early_stopping()))
              throw invalid_request(name, "must be true, false or \"never\"");
          }};
}

Kind constraint() {
  return {[](const json& value, const Source& source, const Field*, Options& out) {
            auto read = read_constraint(value, source.name);
            if (!read) return;
            if (out.has_constraint())
              throw invalid_request(source.name,
                                    "cannot be combined with " + out.constraint().field());
            *out.mutable_constraint() = *std::move(read);
          },
          [](const Options& options, const Field*, const std::string& name) {
            check_constraint(options.constraint(), name);
          }};
}

}  // namespace tandem::option_kinds
