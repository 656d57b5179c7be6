// tandem transcribe: files of sound in, text or subtitles out (docs/speech.md).
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/json.h"
#include "base/strings/readable_text.h"
#include "launcher/command_requests.h"
#include "launcher/commands/command.h"
#include "launcher/commands/files/file_arguments.h"
#include "launcher/commands/files/output_folder.h"
#include "launcher/commands/requests.h"
#include "launcher/help.h"
#include "launcher/progress.h"
#include "launcher/speech/audio_request.h"
#include "launcher/speech/live_command.h"
#include "runtime/media/sound/transcript.h"
#include "runtime/protocol/json/options_reader.h"

namespace tandem::launcher {
namespace {

using nlohmann::json;

// The parameters of --vad-filter, by their names in requests.
constexpr std::pair<const char*, const char*> kVadFlags[] = {
    {"vad-threshold", "Speech begins where it is that likely (0.5)"},
    {"vad-neg-threshold", "It ends where it is less likely than that (0.15 less)"},
    {"vad-min-speech-duration-ms", "Shorter speech is none (0)"},
    {"vad-max-speech-duration-s", "Longer speech is cut (never)"},
    {"vad-min-silence-duration-ms", "Shorter silence stays in the speech (2000)"},
    {"vad-speech-pad-ms", "What is kept on both sides of speech (400)"}};

// faster-whisper's, of windows and of words.
constexpr std::pair<const char*, const char*> kNumberFlags[] = {
    {"language-detection-segments", "Windows that may decide which language is spoken (1)"},
    {"language-detection-threshold",
     "The first window that is that sure of a language decides; else most windows do (0.5)"},
    {"hallucination-silence-threshold",
     "With --word-timestamps: skip silence of more seconds where words may be made up"}};

struct TranscribeOptions {
  RequestOptions requests;
  SamplingOptions sampling;
  std::vector<std::string> files;
  std::string language, task, format = "text", folder;
  bool timestamps = false, words = false, highlight = false;
  // Of speech, where they are given.
  std::optional<std::string> prompt, hotwords, prefix, clips;
  std::string temperatures, strides;  // with commas between
  std::optional<double> compression_ratio, logprob, no_speech, chunk_length;
  bool condition_on_prev_tokens = false, vad = false, multilingual = false, live = false;
  std::map<std::string, std::optional<double>> numbers_of;  // by the names of their flags

  void add(CLI::App& app);
  // As a request's `params`.
  json params() const;
  // Of --live. Throws InputError naming a flag that has no place there.
  LiveCommand live_command() const;
};

void TranscribeOptions::add(CLI::App& app) {
  const Heading heading(app, "Transcription");
  app.add_option("--language", language,
                 "What is spoken, by name or code; without it the model finds out")
      ->type_name("NAME");
  app.add_option("--task", task,
                 "transcribe writes what is said, translate says it in English; without it what "
                 "the model does by itself")
      ->type_name("NAME");
  app.add_flag("--timestamps", timestamps, "Write from when to when each text is said");
  app.add_flag("--word-timestamps", words,
               "Find out when each word is said: `words` of verbose_json, and subtitles with "
               "--highlight-words");
  app.add_flag("--highlight-words", highlight,
               "Underline each word of subtitles while it is said; with --word-timestamps' times");
  app.add_option("--prompt", prompt, "Text that is taken as said before: names, a style");
  app.add_option("--hotwords", hotwords, "Words to expect, before the prompt of every window");
  app.add_option("--prefix", prefix, "Text that the first window's text begins with");
  app.add_flag("--condition-on-prev-tokens", condition_on_prev_tokens,
               "Begin each window's prompt with what was said before it");
  app.add_option("--temperature-fallback", temperatures,
                 "Decode a window again, at the next of these temperatures, while a threshold is "
                 "crossed, as in 0,0.2,0.4")
      ->type_name("LIST");
  app.add_option("--compression-ratio-threshold", compression_ratio,
                 "Above it a window repeats itself");
  app.add_option("--logprob-threshold", logprob,
                 "Below it, on average of its tokens, a window is unsure (-1, say)");
  app.add_option("--no-speech-threshold", no_speech,
                 "Leave out windows that are unsure, and silent with a probability above it");
  app.add_flag("--vad-filter", vad,
               "Cut out what is no speech first, by Silero's network: pip install silero-vad, or "
               "--vad-model");
  for (const auto& [flag, what] : kVadFlags)
    app.add_option("--" + std::string(flag), numbers_of[flag], what);
  app.add_option("--clip-timestamps", clips,
                 "Transcribe these parts only, as in 0,10.5,60: seconds of begin, end, begin, and "
                 "so on; without the last end to the end of the sound")
      ->type_name("SECONDS");
  app.add_flag("--multilingual", multilingual, "Find out the language of every window");
  for (const auto& [flag, what] : kNumberFlags)
    app.add_option("--" + std::string(flag), numbers_of[flag], what);
  app.add_option(
      "--chunk-length-s", chunk_length,
      "Cut the sound into windows of that many seconds that share their ends, and decode "
      "all at once");
  app.add_option(
         "--stride-length-s", strides,
         "Seconds that neighbours share, on both sides or on the left and the right; without "
         "it a sixth of the window")
      ->type_name("SECONDS");
}

// "0,0.5" → [0, 0.5]; what is none stays a text, which nobody takes for numbers.
json numbers(const std::string& text) {
  json list = json_or_discarded<json>("[" + text + "]");
  return list.is_discarded() ? json(text) : list;
}

json TranscribeOptions::params() const {
  json out = sampling.params();
  if (!language.empty()) out["language"] = language;
  if (!task.empty()) out["task"] = task;
  if (timestamps) out["return_timestamps"] = true;
  if (words || highlight) out["return_token_timestamps"] = true;
  if (prompt) out["prompt"] = *prompt;
  if (hotwords) out["hotwords"] = *hotwords;
  if (prefix) out["prefix"] = *prefix;
  if (clips) out["clip_timestamps"] = *clips;
  if (multilingual) out["multilingual"] = true;
  if (condition_on_prev_tokens) out["condition_on_prev_tokens"] = true;
  if (!temperatures.empty()) out["temperature"] = numbers(temperatures);
  if (compression_ratio) out["compression_ratio_threshold"] = *compression_ratio;
  if (logprob) out["logprob_threshold"] = *logprob;
  if (no_speech) out["no_speech_threshold"] = *no_speech;
  if (vad) out["vad_filter"] = true;
  for (const auto& [flag, value] : numbers_of) {
    if (!value) continue;
    std::string name = flag;
    std::replace(name.begin(), name.end(), '-', '_');
    out[name] = *value;
  }
  if (chunk_length) out["chunk_length_s"] = *chunk_length;
  if (!strides.empty()) out["stride_length_s"] = numbers(strides);
  return out;
}

LiveCommand TranscribeOptions::live_command() const {
  const std::pair<const char*, bool> others[] = {
      {"--timestamps", timestamps},
      {"--word-timestamps", words},
      {"--highlight-words", highlight},
      {"--output-dir", !folder.empty()},
      {"--hotwords", hotwords.has_value()},
      {"--prefix", prefix.has_value()},
      {"--clip-timestamps", clips.has_value()},
      {"--multilingual", multilingual},
      {"--temperature-fallback", !temperatures.empty()},
      {"--chunk-length-s", chunk_length.has_value()},
      {"--lora", !requests.lora.empty()},
      {"--task", !task.empty() && task != "transcribe"},
      {"FILE", !files.empty() && (files.size() > 1 || files.front() != "-")}};
  for (const auto& [flag, given] : others)
    if (given)
      throw invalid_request(flag, "has no place beside --live, which reads standard input");
  if (format != "text" && format != "json")
    throw invalid_request("--format", "must be text or json with --live");
  LiveCommand out;
  out.json = format == "json";
  out.vad_model = requests.engine.config.vad_model();
  out.settings.language = language;
  out.settings.prompt = prompt.value_or("");
  TurnOptions& turns = *out.settings.turns;
  for (const auto& [flag, value] : numbers_of) {
    if (!value) continue;
    if (flag == "vad-threshold")
      turns.threshold = *value;
    else if (flag == "vad-min-silence-duration-ms")
      turns.silence_duration_ms = static_cast<int>(std::clamp(*value, 0.0, 60000.0));
    else if (flag == "vad-speech-pad-ms")
      turns.prefix_padding_ms = static_cast<int>(std::clamp(*value, 0.0, 5000.0));
    else
      throw invalid_request("--" + flag, "has no place beside --live");
  }
  return out;
}

std::string minutes(double seconds) {
  char text[32];
  const auto whole = static_cast<long long>(seconds);
  std::snprintf(text, sizeof(text), "%lld:%02lld", whole / 60, whole % 60);
  return text;
}

// Seconds of sound in a second; nothing while none are done.
std::string rate_of(double done, double seconds) {
  if (!(done > 0 && seconds > 0)) return "";
  char text[40];
  const double rate = done / seconds;
  std::snprintf(text, sizeof(text), rate < 10 ? " (%.1f x real time)" : " (%.0f x real time)",
                rate);
  return text;
}

// Sends the files, and writes what comes back: to a folder as it comes, else in their order.
class Transcriber {
 public:
  // folder: null where the output is standard output.
  Transcriber(EngineApi& engine, const TranscribeOptions& options, TranscriptFormat format,
              const OutputFolder* folder)
      : requests_(engine, options.requests.lora),
        options_(options),
        format_(format),
        folder_(folder) {}

  int run() {
    for (size_t i = 0; i < options_.files.size(); ++i) submit(i);
    ProgressBar bar("Transcribing");
    while (open_ > 0) {
      for (const CommandRequests::Finished& finished : requests_.poll()) take(finished);
      const auto [done, total, expected] = requests_.audio_seconds();
      bar.update(static_cast<uint64_t>(done * 1000), static_cast<uint64_t>(expected * 1000),
                 minutes(done) + " of " + minutes(total) + rate_of(done, bar.seconds()) + ", " +
                     std::to_string(options_.files.size() - open_) + " of " +
                     std::to_string(options_.files.size()) + " files");
    }
    return failed_ ? 1 : 0;
  }

 private:
  void submit(size_t i) {
    json line = {
        {"prompt", {{"prompt", ""}, {"multi_modal_data", {{"audio", options_.files[i]}}}}}};
    json params = options_.params();
    if (needs_times(format_)) params["return_timestamps"] = true;
    if (format_ == TranscriptFormat::kVerboseJson) params["no_speech_prob"] = true;
    if (params.contains("task")) task_ = params["task"].get<std::string>();
    ++open_;
    try {
      requests_.submit(i, local_request_from_json(std::move(line), params));
    } catch (const InputError& error) {
      take({i, {}, error, 0});
    }
  }

  void take(const CommandRequests::Finished& finished) {
    --open_;
    const std::string& file = options_.files[finished.number];
    std::string text;
    if (finished.error) {
      tell(file, finished.error->what());
    } else {
      for (const std::string& warning : finished.output.warnings())
        std::fprintf(stderr, "tandem: %s: warning: %s\n", readable(file).c_str(),
                     readable(warning).c_str());
      text = write_transcript(format_, finished.output,
                              {finished.seconds, task_, options_.words, options_.highlight});
      if (folder_ != nullptr) return write_file(finished.number, text);
    }
    texts_[finished.number] = std::move(text);
    for (auto it = texts_.find(written_); it != texts_.end(); it = texts_.find(++written_)) {
      std::cout << it->second << std::flush;
      texts_.erase(it);
    }
  }

  void tell(const std::string& file, const std::string& what) {
    failed_ = true;
    std::fprintf(stderr, "tandem: %s: %s\n", readable(file).c_str(), readable(what).c_str());
  }

  void write_file(size_t i, const std::string& text) {
    const std::string path = folder_->path(i).string(), why = folder_->write(i, text);
    if (!why.empty()) return tell(path, "cannot be written: " + why);
    if (folder_->numbered(i))
      std::fprintf(stderr, "tandem: %s: written to %s\n", readable(options_.files[i]).c_str(),
                   readable(path).c_str());
  }

  CommandRequests requests_;
  const TranscribeOptions& options_;
  TranscriptFormat format_;
  const OutputFolder* folder_;
  std::string task_ = "transcribe";
  size_t open_ = 0;
  bool failed_ = false;
  std::map<size_t, std::string> texts_;  // whose turn has not come
  size_t written_ = 0;
};

// Other programs call OpenAI's models by their sizes.
void check_name(const std::string& model) {
  static constexpr std::string_view kSizes[] = {
      "tiny",      "tiny.en", "base",     "base.en",  "small",    "small.en",      "medium",
      "medium.en", "large",   "large-v1", "large-v2", "large-v3", "large-v3-turbo"};
  const std::string size = model == "turbo" ? "large-v3-turbo" : model;
  std::error_code error;
  if (std::find(std::begin(kSizes), std::end(kSizes), size) == std::end(kSizes) ||
      std::filesystem::exists(model, error))
    return;
  throw invalid_request(
      "MODEL", "\"" + model + "\" is OpenAI's name; at the hub it is openai/whisper-" + size);
}

// Formats without a place for them.
void check_words(const TranscribeOptions& options, TranscriptFormat format) {
  const bool subtitles = format == TranscriptFormat::kSrt || format == TranscriptFormat::kVtt;
  if (options.highlight && !subtitles)
    throw invalid_request("--highlight-words", "needs --format srt or vtt");
  if (options.words && !options.highlight && format != TranscriptFormat::kVerboseJson)
    throw invalid_request("--word-timestamps",
                          "needs --format verbose_json, or --highlight-words with srt or vtt");
}

int run_live(TranscribeOptions& options) {
  options.requests.settle_model(&options.files);
  check_name(options.requests.engine.model);
  const LiveCommand command = options.live_command();
  return run_on_engine(
      options.requests, [] {}, [&](EngineApi& engine) { return transcribe_live(engine, command); });
}

int run(TranscribeOptions& options) {
  if (options.live) return run_live(options);
  const auto format = transcript_format(options.format);
  if (!format)
    throw invalid_request("--format", "must be text, srt, vtt, tsv, json or verbose_json, not " +
                                          readable(options.format));
  if (!options.task.empty() && options.task != "transcribe" && options.task != "translate")
    throw invalid_request("--task",
                          "must be transcribe or translate, not " + readable(options.task));
  check_words(options, *format);
  options.requests.settle_model(&options.files);
  take_pipe(options.files);
  if (options.files.empty())
    throw invalid_request("FILE", "is missing: " + options.requests.engine.model_argument() +
                                      "behind it come files of sound, or - for standard input");
  if (std::count(options.files.begin(), options.files.end(), "-") > 1)
    throw invalid_request("-", "standard input is read once");
  check_name(options.requests.engine.model);
  options.files = expand_files(options.files, sound_files());
  std::optional<OutputFolder> folder;
  const auto work = [&](EngineApi& engine) {
    return Transcriber(engine, options, *format, folder ? &*folder : nullptr).run();
  };
  return run_on_engine(
      options.requests,
      [&] {
        if (!options.folder.empty())
          folder.emplace(options.folder, options.files, [&](const std::filesystem::path& file) {
            return file.string() + "." + extension_of(*format);
          });
      },
      work);
}

}  // namespace

Run add_transcribe(CLI::App& app) {
  auto options = std::make_shared<TranscribeOptions>();
  options->requests.command = "tandem transcribe";
  options->requests.bar = "Transcribing";
  app.option_defaults()->group("Input and output");
  options->requests.engine.add_model_argument(app);
  app.add_option("FILE", options->files,
                 "Files of sound, or films, such as WAV, MP3, M4A, MP4, WebM; folders of them, "
                 "patterns such as \"talks/*.mp3\"; - is standard input");
  app.add_flag("--live", options->live,
               "Transcribe standard input while it comes: samples of 16 bits (s16le), one channel, "
               "16000 a second, or a WAV file; --format text or json (docs/speech.md)");
  app.add_option("--format", options->format, "text, srt, vtt, tsv, json or verbose_json")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--output-dir", options->folder,
                 "Write a file for each, of its name and that of the format, to this folder, which "
                 "is made where there is none")
      ->type_name("DIR");
  options->add(app);
  options->requests.add(app);
  options->sampling.add(app, /*without=*/"task");
  return [options] { return run(*options); };
}

}  // namespace tandem::launcher
