// The hub's protocol, as far as it is read here (huggingface_hub's hf_api.py, file_download.py and
// utils/_http.py).
#include "launcher/hub/answers.h"

#include <charconv>
#include <system_error>

#include "base/json.h"
#include "base/strings/printable.h"
#include "launcher/hub/checksum.h"

namespace tandem::hub {
namespace {

InputError no_hub(const std::string& host, const std::string& what) {
  return model_error(ErrorKind::kUnavailable,
                     host + " does not answer as a hub does: " + what + " (HF_ENDPOINT)");
}

}  // namespace

std::string Repository::described() const {
  return in_quotes(id) + " (revision " + printable(revision) + ")";
}

Listing parse_listing(const std::string& body, const Repository& repository) {
  nlohmann::json answer;
  try {
    answer = parse_json(body, "the list of files");
  } catch (const InputError& e) {
    throw no_hub(repository.endpoint, e.what());
  }
  Listing listing;
  if (answer.is_object() && answer.contains("sha") && answer["sha"].is_string())
    listing.commit = answer["sha"].get<std::string>();
  if (!is_commit(listing.commit)) throw no_hub(repository.endpoint, "the list names no commit");
  if (!answer.contains("siblings") || !answer["siblings"].is_array())
    throw no_hub(repository.endpoint, "the list has no files");
  for (const auto& file : answer["siblings"])
    if (file.is_object() && file.contains("rfilename") && file["rfilename"].is_string())
      listing.files.insert(file["rfilename"].get<std::string>());
  return listing;
}

RemoteFile parse_file_head(const Response& answer, const std::string& name, const std::string& url,
                           const std::string& commit) {
  RemoteFile file{name, url, plain_etag(answer.header("x-linked-etag")), 0};
  if (file.etag.empty()) file.etag = plain_etag(answer.header("etag"));
  const std::string linked = answer.header("x-linked-size");
  const std::string size = linked.empty() ? answer.header("content-length") : linked;
  const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), file.size);
  if (answer.header("x-repo-commit") != commit)
    throw no_hub(answer.host, name + " is not said to be of commit " + commit);
  if (!is_blob_name(file.etag)) throw no_hub(answer.host, name + " has no usable ETag");
  if (size.empty() || error != std::errc() || end != size.data() + size.size() ||
      file.size > uint64_t{1} << 50)
    throw no_hub(answer.host, name + " has no size");
  return file;
}

InputError status_error(const Response& answer, const Repository& repository, bool has_token) {
  const std::string code = answer.header("x-error-code");
  const std::string id = in_quotes(repository.id);
  const std::string token = has_token ? " (the one that is set does not do)" : " (none is set)";
  if (answer.status == 404 && code == "RevisionNotFound")
    return model_error(
        ErrorKind::kInvalidRequest,
        id + " has no revision " + in_quotes(repository.revision) + " at " + repository.endpoint);
  if (answer.status == 404 && code == "EntryNotFound")
    return model_error(ErrorKind::kInvalidModel, id + " lacks a file that it lists");
  if (answer.status == 404)
    return model_error(ErrorKind::kInvalidRequest,
                       id + " is neither a directory here nor a model at " + repository.endpoint);
  if (code == "GatedRepo")
    return model_error(ErrorKind::kInvalidRequest,
                       id + " is gated: its terms must be accepted at " + repository.endpoint +
                           "/" + repository.id +
                           ", and HF_TOKEN be a token of the account that did" + token);
  if (answer.status == 401 || answer.status == 403)
    return model_error(ErrorKind::kInvalidRequest,
                       id + " is neither a directory here nor a model that " + repository.endpoint +
                           " shows (HTTP status " + std::to_string(answer.status) +
                           "): where it is private or gated, HF_TOKEN must be a token that may "
                           "read it" +
                           token);
  return model_error(ErrorKind::kUnavailable, id + ": " + describe_status(answer));
}

}  // namespace tandem::hub
