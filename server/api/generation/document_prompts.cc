#include "server/api/generation/document_prompts.h"

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/media/image/document_pages.h"
#include "server/api/fields/json_body.h"

namespace tandem::server {
namespace {

// Null: the prompt has none.
std::string* document_of(proto::Prompt& prompt) {
  proto::PromptPart& part = *prompt.mutable_encoder();
  std::string* const image = part.has_image()     ? part.mutable_image()
                             : part.has_picture() ? part.mutable_picture()
                                                  : nullptr;
  return image != nullptr && is_document(*image) ? image : nullptr;
}

}  // namespace

void take_page_options(nlohmann::json& body, GenerationRequest& r) {
  if (const auto pages = take_string(body, "pages")) r.pages = read_page_ranges(*pages, "pages");
  r.dpi = static_cast<int>(take_int(body, "dpi", kLeastDpi, kMostDpi).value_or(kDefaultDpi));
}

bool has_documents(const GenerationRequest& r) {
  for (const proto::Prompt& prompt : r.prompts) {
    const proto::PromptPart& part = prompt.encoder();
    if (is_document(part.has_image() ? part.image() : part.picture())) return true;
  }
  return false;
}

void replace_documents(GenerationRequest& r, const ServerConfig& config) {
  std::vector<proto::Prompt> prompts;
  std::vector<std::string> echoes;
  size_t bytes = 0;
  for (size_t i = 0; i < r.prompts.size(); ++i) {
    proto::Prompt& prompt = r.prompts[i];
    const auto add = [&](proto::Prompt one) {
      prompts.push_back(std::move(one));
      if (!r.echoes.empty()) echoes.push_back(r.echoes[i]);
    };
    std::string* const document = document_of(prompt);
    if (document == nullptr) {
      add(std::move(prompt));
      continue;
    }
    const std::string field =
        prompt.encoder().field().empty() ? r.list_field : prompt.encoder().field();
    const MediaSource source = MediaSource::of_bytes(*document, field);
    const std::vector<int> pages = pages_of(source, r.pages, field);
    if (prompts.size() + pages.size() > static_cast<size_t>(config.max_prompts))
      throw invalid_request(field, std::to_string(pages.size()) +
                                       " pages at once; the server takes at most " +
                                       std::to_string(config.max_prompts));
    for (const int page : pages) {
      *document = page_image(source, page, r.dpi, field);
      bytes += document->size();
      if (bytes > kMostPageBytes)
        throw InputError(ErrorKind::kResource,
                         field + ": the images of the pages take more than " +
                             std::to_string(kMostPageBytes >> 20) + " MiB",
                         field);
      add(prompt);
    }
  }
  r.prompts = std::move(prompts);
  r.echoes = std::move(echoes);
}

}  // namespace tandem::server
