// Answers in tags, as JSON.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tandem {

// token2json() of HuggingFace's DonutProcessor: <s_name>…</s_name> are objects, <sep/> stands
// between the members of a list. `text` is valid UTF-8, with its special tokens. is_added: whether
// a text is a token that was added to the vocabulary; <word/> then means word. Throws InputError
// for tags that are nested too deep, and for texts of more than kMaxTaggedBytes.
nlohmann::ordered_json tag_tree(std::string_view text,
                                const std::function<bool(const std::string&)>& is_added);
inline constexpr size_t kMaxTaggedBytes = 64 * 1024;

// What the examples of that processor do before: end and padding go, then the first tag.
std::string without_task_tag(std::string text, std::string_view end, std::string_view padding);

}  // namespace tandem
