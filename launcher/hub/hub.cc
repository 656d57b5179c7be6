// The way of huggingface_hub's snapshot_download: ask for the revision's commit and files, fetch
// what the cache lacks; if there is no answer, be content with what was fetched last time.
#include "launcher/hub/hub.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/log/log.h"
#include "base/strings/printable.h"
#include "launcher/hub/answers.h"
#include "launcher/hub/download.h"
#include "launcher/hub/http_client.h"
#include "launcher/progress.h"
#include "models/checkpoint/other_formats.h"

namespace tandem::hub {
namespace {

namespace fs = std::filesystem;

constexpr int kRequestTries = 5, kTriesIfCached = 2;

std::string megabytes(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", static_cast<double>(bytes) / 1e6);
  return text;
}

// All files of one command; a bar on a terminal, else a line for each file.
class Progress {
 public:
  void expect(uint64_t bytes) { total_ += bytes; }
  void update(const std::string& name, uint64_t have, uint64_t fresh) {
    const double seconds = bar_.seconds();
    const auto brought = static_cast<double>(fresh_ + fresh);
    const auto rate = static_cast<uint64_t>(seconds > 0 ? brought / seconds : 0);
    bar_.update(done_ + have, total_,
                megabytes(done_ + have) + "/" + megabytes(total_) + " MB, " + megabytes(rate) +
                    " MB/s, " + name);
    last_fresh_ = fresh;
  }
  void finish(const RemoteFile& file) {
    done_ += file.size;
    fresh_ += std::exchange(last_fresh_, 0);
    if (isatty(2) != 1)
      log_info("{} is here, {} MB; {} of {} MB in {:.1f} s", file.name, megabytes(file.size),
               megabytes(done_), megabytes(total_), bar_.seconds());
  }
  void erase() { bar_.erase(); }

 private:
  launcher::ProgressBar bar_{"Downloading"};
  uint64_t total_ = 0, done_ = 0, fresh_ = 0, last_fresh_ = 0;
};

class Hub {
 public:
  Hub(const ModelSource& source, const Settings& settings, std::function<bool()> stop)
      : source_(source),
        settings_(settings),
        repository_{source.model, source.revision, settings.endpoint},
        cache_(source.download_dir.empty() ? settings.cache : fs::path(source.download_dir),
               source.model),
        hooks_{std::move(stop), [this](const std::string& message) {
                 progress_.erase();
                 log_warning("{}", message);
               }} {}

  fs::path find() {
    const std::optional<fs::path> cached = find_cached();
    if (settings_.offline) {
      if (cached) return *cached;
      throw model_error(ErrorKind::kInvalidRequest,
                        not_cached() + ", and HF_HUB_OFFLINE forbids to download it" + way_out());
    }
    if (!is_web_address(settings_.endpoint))
      throw invalid_request("HF_ENDPOINT",
                            "is not an address http://HOST or https://HOST (without a user)");
    try {
      HttpClient http(settings_, hooks_);
      return fetch(http, cached ? kTriesIfCached : kRequestTries);
    } catch (const ConnectionError& e) {
      if (cached && !e.lasting()) return instead(*cached, e.what());
      throw model_error(ErrorKind::kUnavailable,
                        (cached ? repository_.described() + " cannot be downloaded"
                                : not_cached() + ", and cannot be downloaded") +
                            " from " + settings_.endpoint + ": " + e.what() +
                            (cached ? "" : way_out()));
    } catch (const StatusError& e) {
      // As huggingface_hub: a token may have run out. But a revision that is gone is gone.
      const InputError error = status_error(e.response, repository_, !settings_.token.empty());
      if (cached && e.response.header("x-error-code") != "RevisionNotFound")
        return instead(*cached, error.what());
      throw error;
    } catch (const InputError& e) {
      if (cached && e.kind() == ErrorKind::kResource) return instead(*cached, e.what());
      throw;
    }
  }

 private:
  // Without any request; none if something is missing.
  std::optional<fs::path> find_cached() {
    const auto commit = cache_.commit_of(source_.revision);
    if (!commit) return std::nullopt;
    missing_ = missing_from(cache_.snapshot(*commit), source_.part);
    if (!missing_.empty()) return std::nullopt;
    return cache_.snapshot(*commit);
  }

  std::string not_cached() const {
    return repository_.described() + " is not a directory, and not in the cache " +
           cache_.root().string() +
           (missing_.empty() ? "" : " completely (" + printable(missing_) + " is missing)");
  }

  // For a machine that reaches no hub.
  std::string way_out() const {
    return "; without a network, download it elsewhere (hf download " + source_.model +
           " --local-dir DIR), copy DIR here and give it as the model";
  }

  fs::path instead(const fs::path& cached, const std::string& why) {
    hooks_.warn(why + "; using what is in the cache: " + cached.string());
    return cached;
  }

  Response send(HttpClient& http, const Request& request, int tries) {
    Response answer = http.send_patiently(request, tries);
    // A redirect that HEAD does not follow says what the file is.
    if (answer.status >= (request.head ? 400 : 300)) throw StatusError{std::move(answer)};
    return answer;
  }

  fs::path fetch(HttpClient& http, int tries) {
    Request request;
    request.url = settings_.endpoint + "/api/models/" + source_.model + "/revision/" +
                  url_escaped(source_.revision);
    const Listing listing = parse_listing(send(http, request, tries).body, repository_);
    const Selection selection = select_files(listing.files, source_.part);
    std::vector<std::string> files = selection.files;
    if (!selection.weights.empty()) files.push_back(selection.weights);
    fetch_files(http, listing.commit, files);
    const fs::path snapshot = cache_.snapshot(listing.commit);
    if (!selection.index.empty())
      fetch_files(http, listing.commit,
                  shards_of(load_json(snapshot / selection.index), selection.index, listing.files));
    progress_.erase();
    for (const std::string& name : selection.absent) cache_.note_absent(listing.commit, name);
    try {
      // Last: until then the revision stays what is there completely.
      cache_.remember(source_.revision, listing.commit);
    } catch (const InputError& e) {
      hooks_.warn(e.what());
    }
    return snapshot;
  }

  void fetch_files(HttpClient& http, const std::string& commit,
                   const std::vector<std::string>& names) {
    std::vector<RemoteFile> files;
    uint64_t bytes = 0;
    for (const std::string& name : names) {
      if (cache_.has(commit, name)) continue;
      Request request;
      request.head = true;
      request.url =
          settings_.endpoint + "/" + source_.model + "/resolve/" + commit + "/" + url_escaped(name);
      files.push_back(
          parse_file_head(send(http, request, kRequestTries), name, request.url, commit));
      bytes += files.back().size;
    }
    if (files.empty()) return;
    cache_.make_folders(commit);
    progress_.expect(bytes);
    std::error_code error;
    const fs::space_info space = fs::space(cache_.root(), error);
    if (!error && space.available < bytes)
      hooks_.warn(cache_.root().string() + " has " + megabytes(space.available) +
                  " MB free, the download needs " + megabytes(bytes) + " MB");
    for (const RemoteFile& file : files) fetch_file(http, commit, file);
  }

  void fetch_file(HttpClient& http, const std::string& commit, const RemoteFile& file) {
    const FileLock lock(cache_.lock_file(file.etag), hooks_);
    const fs::path blob = cache_.blob(file.etag);
    std::error_code error;
    // Another name, another commit or another process may have brought it.
    if (!fs::is_regular_file(blob, error) || fs::file_size(blob, error) != file.size)
      download(http, file, blob, hooks_,
               [&](uint64_t have, uint64_t fresh) { progress_.update(file.name, have, fresh); });
    cache_.link(commit, file.name, file.etag);
    progress_.finish(file);
  }

  const ModelSource& source_;
  const Settings& settings_;
  Repository repository_;
  Cache cache_;
  Progress progress_;
  Hooks hooks_;
  std::string missing_;  // of what is in the cache
};

}  // namespace

namespace {

// What somebody may have meant by a name that is none.
std::string advice_on(const std::string& model) {
  std::error_code error;
  const fs::path path(model);
  if (fs::is_regular_file(path, error)) {
    if (fs::exists(path.parent_path() / "config.json", error)) {
      const std::string directory = path.has_parent_path() ? path.parent_path().string() : ".";
      return "; the model is its directory, " + printable(directory);
    }
    const std::string format = other_format(std::vector{path.filename().string()});
    return format.empty() ? "" : "; this is " + format;
  }
  for (const std::string_view start : {"https://huggingface.co/", "http://huggingface.co/",
                                       "huggingface.co/", "https://hf.co/", "hf.co/", "hf://"}) {
    if (!model.starts_with(start)) continue;
    std::string id = model.substr(start.size());
    const size_t slash = id.find('/');
    if (slash != id.npos) id.resize(std::min(id.find('/', slash + 1), id.size()));
    return is_repository_id(id) ? "; its id is " + id : "";
  }
  if (const size_t mark = model.find_first_of(":@");
      mark != model.npos && is_repository_id(model.substr(0, mark)))
    return "; a revision is a flag: " + model.substr(0, mark) + " --revision " +
           printable(model.substr(mark + 1));
  if (!model.empty() && (model[0] == '/' || model[0] == '.' || model[0] == '~'))
    return "; there is no such directory";
  return "";
}

}  // namespace

fs::path find_model(const ModelSource& source, const Settings& settings,
                    const std::function<bool()>& stop) {
  std::error_code error;
  if (fs::is_directory(source.model, error)) return source.model;
  // (A file may be called as a model at the hub could be: m.gguf.)
  if (!is_repository_id(source.model) || fs::is_regular_file(source.model, error))
    throw model_error(ErrorKind::kInvalidRequest,
                      in_quotes(source.model) +
                          (fs::exists(source.model, error) ? " is a file, " : " is ") +
                          "neither a directory nor the id of a model at the hub "
                          "(NAME or ORGANISATION/NAME)" +
                          advice_on(source.model));
  check_revision(source.revision);
  return Hub(source, settings, stop).find();
}

}  // namespace tandem::hub
