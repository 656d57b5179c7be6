// Where tags do not belong together the Python code is followed to the letter, in the order of its
// searches.
#include "text/answers/tag_tree.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/strings/utf8.h"
#include "text/replaced.h"
#include "text/unicode/python_space.h"

namespace tandem {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr int kMaxDepth = 100;
constexpr std::string_view kSeparator = "<sep/>", kOpening = "<s_", kClosing = "</s_";

// re.IGNORECASE
bool same_letter(char32_t a, char32_t b) {
  const UChar32 x = u_tolower(static_cast<UChar32>(a)), y = u_tolower(static_cast<UChar32>(b));
  return x == y || u_toupper(x) == u_toupper(y);
}

// The length of what `text` has at `at`, in bytes, if that is `what` in any case.
std::optional<size_t> match_any_case(std::string_view text, size_t at, std::string_view what) {
  const size_t begin = at;
  for (size_t i = 0; i < what.size();) {
    if (at >= text.size()) return std::nullopt;
    const CodePoint a = code_point_at(text, at), b = code_point_at(what, i);
    if (!same_letter(a.value, b.value)) return std::nullopt;
    at += static_cast<size_t>(a.length);
    i += static_cast<size_t>(b.length);
  }
  return at - begin;
}

struct Found {
  size_t at, length;
};

std::optional<Found> find_any_case(std::string_view text, std::string_view what, size_t from = 0) {
  for (size_t at = text.find('<', from); at != text.npos; at = text.find('<', at + 1))
    if (const auto length = match_any_case(text, at, what)) return Found{at, *length};
  return std::nullopt;
}

class TagReader {
 public:
  explicit TagReader(const std::function<bool(const std::string&)>& is_added)
      : is_added_(is_added) {}

  OrderedJson read(std::string tokens, bool inner, int depth) const {
    if (depth > kMaxDepth)
      throw InputError(ErrorKind::kResource, "the answer's tags are nested too deep");
    OrderedJson list = OrderedJson::array(), node = OrderedJson::object();
    while (!tokens.empty()) {
      const auto start = find_any_case(tokens, kOpening);
      if (!start) break;
      const size_t close = tokens.find('>', start->at);
      if (close == tokens.npos) break;
      const std::string tag = tokens.substr(start->at, close + 1 - start->at), key = key_of(tag);
      const auto end = find_any_case(tokens, std::string(kClosing) + key + ">");
      if (!end) {
        tokens = replaced(tokens, tag, "");
        continue;
      }
      const std::string end_tag = tokens.substr(end->at, end->length);
      if (const auto content = between(tokens, start->at, tag, end_tag))
        add(key, *content, depth, node);
      tokens = stripped(std::string_view(tokens).substr(tokens.find(end_tag) + end_tag.size()));
      if (!tokens.starts_with(kSeparator)) continue;
      // The next member of a list, whatever was asked for.
      list.push_back(std::exchange(node, OrderedJson::object()));
      tokens.erase(0, kSeparator.size());
      inner = true;
    }
    if (!list.empty()) {
      if (!node.empty()) list.push_back(std::move(node));
      return list;
    }
    if (inner) return node.empty() ? list : OrderedJson::array({std::move(node)});
    if (node.empty()) node["text_sequence"] = tokens;
    return node;
  }

 private:
  // Python counts characters: a tag's first three are "<s_", or "<ſ_".
  static std::string key_of(const std::string& tag) {
    size_t at = 0;
    for (int i = 0; i < 3; ++i) at += static_cast<size_t>(code_point_at(tag, at).length);
    return tag.substr(at, tag.size() - 1 - std::min(at, tag.size() - 1));
  }

  static std::optional<std::string> between(const std::string& tokens, size_t from,
                                            const std::string& tag, const std::string& end_tag) {
    const auto start = find_any_case(tokens, tag, from);
    if (!start) return std::nullopt;
    const size_t begin = start->at + start->length;
    const auto end = find_any_case(tokens, end_tag, begin);
    if (!end) return std::nullopt;
    return std::string(stripped(std::string_view(tokens).substr(begin, end->at - begin)));
  }

  void add(const std::string& key, const std::string& content, int depth, OrderedJson& to) const {
    if (content.find(kOpening) != content.npos && content.find(kClosing) != content.npos) {
      OrderedJson value = read(content, /*inner=*/true, depth + 1);
      if (value.empty()) return;
      to[key] = value.size() == 1 ? OrderedJson(value[0]) : std::move(value);
      return;
    }
    OrderedJson leaves = OrderedJson::array();
    for (size_t at = 0; at != content.npos;) {
      const size_t end = content.find(kSeparator, at);
      leaves.push_back(leaf(content.substr(at, end - at)));
      at = end == content.npos ? end : end + kSeparator.size();
    }
    to[key] = leaves.size() == 1 ? OrderedJson(leaves[0]) : std::move(leaves);
  }

  std::string leaf(const std::string& text) const {
    std::string out(stripped(text));
    if (out.starts_with('<') && out.ends_with("/>") && is_added_(out))
      return out.substr(1, out.size() - 3);
    return out;
  }

  const std::function<bool(const std::string&)>& is_added_;
};

}  // namespace

nlohmann::ordered_json tag_tree(std::string_view text,
                                const std::function<bool(const std::string&)>& is_added) {
  if (text.size() > kMaxTaggedBytes)
    throw InputError(ErrorKind::kResource, "the answer is too long for its tags to be read");
  return TagReader(is_added).read(std::string(text), /*inner=*/false, 0);
}

std::string without_task_tag(std::string text, std::string_view end, std::string_view padding) {
  for (const std::string_view token : {end, padding})
    if (!token.empty()) text = replaced(text, token, "");
  // re.sub("<.*?>", "", text, count=1)
  for (size_t at = text.find('<'); at != text.npos; at = text.find('<', at + 1)) {
    const size_t stop = text.find_first_of(">\n", at);
    if (stop == text.npos) break;
    if (text[stop] == '\n') continue;
    text.erase(at, stop + 1 - at);
    break;
  }
  return std::string(stripped(text));
}

}  // namespace tandem
