// tandem transcribe: files of sound in, text or subtitles out (docs/speech.md).
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <utility>

#include "base/readable_text.h"
#include "launcher/backend.h"
#include "launcher/commands/command.h"
#include "launcher/commands/requests.h"
#include "launcher/progress.h"
#include "launcher/speech/audio_request.h"
#include "runtime/media/sound/transcript.h"
#include "runtime/protocol/options_reader.h"

namespace tandem::launcher {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct TranscribeOptions {
  RequestOptions requests;
  SamplingOptions sampling;
  std::vector<std::string> files;
  std::string language, format = "text", folder;
  bool timestamps = false;
};

std::string minutes(double seconds) {
  char text[32];
  const auto whole = static_cast<long long>(seconds);
  std::snprintf(text, sizeof(text), "%lld:%02lld", whole / 60, whole % 60);
  return text;
}

// Sends the files, and writes what comes back: to a folder as it comes, else in their order.
class Transcriber {
 public:
  Transcriber(Backend& backend, const TranscribeOptions& options, TranscriptFormat format)
      : backend_(backend), options_(options), format_(format) {}

  int run() {
    for (size_t i = 0; i < options_.files.size(); ++i) submit(i);
    ProgressBar bar("Transcribing");
    while (open_ > 0) {
      for (const Backend::Finished& finished : backend_.poll()) take(finished);
      const auto [done, total] = backend_.audio_seconds();
      bar.update(static_cast<uint64_t>(done * 1000), static_cast<uint64_t>(total * 1000),
                 minutes(done) + " of " + minutes(total) + ", " +
                     std::to_string(options_.files.size() - open_) + " of " +
                     std::to_string(options_.files.size()) + " files");
    }
    return failed_ ? 1 : 0;
  }

 private:
  void submit(size_t i) {
    json line = {
        {"prompt", {{"prompt", ""}, {"multi_modal_data", {{"audio", options_.files[i]}}}}}};
    json params = options_.sampling.params();
    if (!options_.language.empty()) params["language"] = options_.language;
    if (options_.timestamps || needs_times(format_)) params["return_timestamps"] = true;
    if (params.contains("task")) task_ = params["task"].get<std::string>();
    ++open_;
    try {
      backend_.submit(i, local_request_from_json(std::move(line), params));
    } catch (const InputError& error) {
      take({i, {}, error, 0});
    }
  }

  void take(const Backend::Finished& finished) {
    --open_;
    const std::string& file = options_.files[finished.number];
    std::string text;
    if (finished.error) {
      failed_ = true;
      std::fprintf(stderr, "tandem: %s: %s\n", readable(file).c_str(),
                   readable(finished.error->what()).c_str());
    } else {
      text = write_transcript(format_, finished.output, {finished.seconds, task_});
      if (!options_.folder.empty()) return write_file(file, text);
    }
    texts_[finished.number] = std::move(text);
    for (auto it = texts_.find(written_); it != texts_.end(); it = texts_.find(++written_)) {
      std::cout << it->second << std::flush;
      texts_.erase(it);
    }
  }

  void write_file(const std::string& file, const std::string& text) {
    const fs::path path = fs::path(options_.folder) /
                          (fs::path(file).filename().string() + "." + extension_of(format_));
    std::ofstream out(path, std::ios::binary);
    out << text;
    out.close();
    if (out) return;
    failed_ = true;
    std::fprintf(stderr, "tandem: cannot write %s\n", readable(path.string()).c_str());
  }

  Backend& backend_;
  const TranscribeOptions& options_;
  TranscriptFormat format_;
  std::string task_ = "transcribe";
  size_t open_ = 0;
  bool failed_ = false;
  std::map<size_t, std::string> texts_;  // whose turn has not come
  size_t written_ = 0;
};

int run(TranscribeOptions& options) {
  const auto format = transcript_format(options.format);
  if (!format)
    throw UsageError("--format", "must be text, srt, vtt, json or verbose_json, not " +
                                     readable(options.format));
  return run_on_backend(
      options.requests, [] {},
      [&](Backend& backend) { return Transcriber(backend, options, *format).run(); });
}

}  // namespace

Run add_transcribe(CLI::App& app) {
  auto options = std::make_shared<TranscribeOptions>();
  options->requests.command = "tandem transcribe";
  options->requests.bar = "Transcribing";
  app.option_defaults()->group("Input and output");
  app.add_option("FILE", options->files, "Files of sound: WAV, FLAC, Ogg, MP3 and others")
      ->required();
  app.add_option("--language", options->language,
                 "What is spoken, by name or code; without it the model finds out")
      ->type_name("NAME");
  app.add_flag("--timestamps", options->timestamps, "Write from when to when each text is said");
  app.add_option("--format", options->format, "text, srt, vtt, json or verbose_json")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--output-dir", options->folder,
                 "Write a file for each, of its name and that of the format")
      ->type_name("DIR");
  options->requests.add(app);
  options->sampling.add(app);
  return [options] { return run(*options); };
}

}  // namespace tandem::launcher
