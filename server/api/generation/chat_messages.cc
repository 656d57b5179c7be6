#include "server/api/generation/chat_messages.h"

#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "runtime/protocol/json/prompt_reader.h"

namespace tandem::server {
namespace {

struct Content {
  std::string text;
  std::optional<proto::PromptPart> image;
};

// {"type": "image_url", "image_url": {"url": …, "detail": …}}; what is in `detail` says nothing
// here.
proto::PromptPart image_of(const nlohmann::json& part, const std::string& field) {
  const auto it = part.find("image_url");
  const std::string name = field + ".image_url.url";
  if (it == part.end() || !it->is_object() || !it->contains("url") || !(*it)["url"].is_string())
    throw invalid_request(name, "expected a URL");
  proto::PromptPart out;
  out.set_image(read_image_url((*it)["url"].get_ref<const std::string&>(), name));
  out.set_field(name);
  return out;
}

// OpenAI's {"type": "file", "file": {"file_data": a data URL, "filename": …}}.
proto::PromptPart file_of(const nlohmann::json& part, const std::string& field) {
  const auto it = part.find("file");
  const std::string name = field + ".file.file_data";
  if (it != part.end() && it->is_object() && it->contains("file_id"))
    throw not_supported(field + ".file.file_id", "no files are kept here; give file_data");
  if (it == part.end() || !it->is_object() || !it->contains("file_data") ||
      !(*it)["file_data"].is_string())
    throw invalid_request(name, "expected a URL");
  proto::PromptPart out;
  out.set_image(read_image_url((*it)["file_data"].get_ref<const std::string&>(), name));
  out.set_field(name);
  return out;
}

Content read_content(const nlohmann::json& content, const std::string& field) {
  Content out;
  if (content.is_string()) return {content.get<std::string>(), std::nullopt};
  if (!content.is_array()) throw invalid_request(field, "expected a string or a list of parts");
  for (const nlohmann::json& part : content) {
    const auto type = part.is_object() ? part.value("type", nlohmann::json()) : nlohmann::json();
    if (type == "image_url" || type == "file") {
      if (out.image) throw not_supported(field, "more than one image");
      out.image = type == "file" ? file_of(part, field) : image_of(part, field);
      continue;
    }
    if (type != "text")
      throw not_supported(field, "parts of type " + json_text(type).substr(0, 40) +
                                     " (there are text, image_url and file)");
    const auto it = part.find("text");
    if (it == part.end() || !it->is_string()) throw invalid_request(field, "a part has no text");
    out.text += it->get<std::string>();
  }
  return out;
}

// Whether the model reads a text beside it is found out where the model is known.
proto::PromptPart with_image(Content content, std::string text, const std::string& field) {
  if (content.text.find_first_not_of(" \t\r\n") == std::string::npos)
    return std::move(*content.image);
  proto::PromptPart out;
  out.set_text(std::move(text));
  out.set_picture(std::move(*content.image->mutable_image()));
  out.set_field(field);
  return out;
}

// In one pass: what stands in the texts is no template.
std::string fill_template(const std::string& pattern, const std::string& system,
                          const std::string& user) {
  constexpr std::string_view kSystem = "{system}", kUser = "{user}";
  std::string text;
  for (size_t at = 0; at < pattern.size();) {
    if (pattern.compare(at, kSystem.size(), kSystem) == 0) {
      text += system;
      at += kSystem.size();
    } else if (pattern.compare(at, kUser.size(), kUser) == 0) {
      text += user;
      at += kUser.size();
    } else {
      text += pattern[at++];
    }
  }
  return text;
}

}  // namespace

proto::PromptPart read_messages(const nlohmann::json& messages, const std::string& pattern) {
  if (!messages.is_array() || messages.empty())
    throw invalid_request("messages", "expected a list of messages");
  std::optional<Content> user;
  std::optional<std::string> system;
  std::string user_field;
  for (size_t i = 0; i < messages.size(); ++i) {
    const nlohmann::json& m = messages[i];
    const std::string field = "messages[" + std::to_string(i) + "]";
    if (!m.is_object() || !m.contains("role") || !m["role"].is_string())
      throw invalid_request(field + ".role", "is missing");
    const std::string role = m["role"];
    const bool is_system = role == "system" || role == "developer";
    if (!is_system && role != "user" && role != "assistant")
      throw invalid_request(
          field + ".role",
          "\"" + role.substr(0, 40) + "\" is not one of user, system, developer, assistant");
    if (role == "assistant") continue;
    if (!m.contains("content")) throw invalid_request(field + ".content", "is missing");
    Content content = read_content(m["content"], field + ".content");
    if (is_system && content.image)
      throw not_supported(field + ".content", "images are the user's");
    if (role == "user") {
      user = std::move(content);
      user_field = field + ".content";
    } else if (!system) {
      system = std::move(content.text);
    }
  }
  // A developer's message alone is the text, as a chat model would answer it.
  if (!user && system) return read_prompt_part(fill_template(pattern, "", *system), "messages");
  if (!user) throw invalid_request("messages", "there is no message of the user");
  std::string text = fill_template(pattern, system.value_or(""), user->text);
  if (user->image) return with_image(std::move(*user), std::move(text), user_field);
  return read_prompt_part(text, "messages");
}

}  // namespace tandem::server
