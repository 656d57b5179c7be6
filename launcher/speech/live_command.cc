#include "launcher/speech/live_command.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/mutex.h"
#include "base/strings/code_points.h"
#include "base/strings/readable_text.h"
#include "runtime/media/sound/live/live_formats.h"
#include "runtime/media/sound/live/live_rate.h"
#include "runtime/media/sound/live/live_request.h"
#include "runtime/media/sound/voice/voice_source.h"

namespace tandem::launcher {
namespace {

using News = LiveEvent::Kind;

constexpr int kRate = 16000;
constexpr int kNapMs = 20;           // between looks at the engine
constexpr double kMostSeconds = 60;  // that wait; then the input does
constexpr size_t kRead = 32768;

// What a file begins with that is no samples, though it could be heard as such.
std::optional<std::string_view> name_of_file(std::string_view begin) {
  using namespace std::string_view_literals;
  struct Kind {
    size_t at;
    std::string_view bytes, name;
  };
  static constexpr std::array kKinds{
      Kind{4, "ftyp"sv, "an MP4 or M4A file"},
      Kind{0, "ID3\2"sv, "an MP3 file"},
      Kind{0, "ID3\3"sv, "an MP3 file"},
      Kind{0, "ID3\4"sv, "an MP3 file"},
      Kind{0, "OggS"sv, "an Ogg file"},
      Kind{0, "fLaC"sv, "a FLAC file"},
      Kind{0, "\x1a\x45\xdf\xa3"sv, "a WebM or MKV file"},
      Kind{0, "FORM"sv, "an AIFF file"},
      Kind{0, "#!AMR"sv, "an AMR file"},
  };
  for (const Kind& kind : kKinds)
    if (begin.size() > kind.at && begin.substr(kind.at).starts_with(kind.bytes)) return kind.name;
  return std::nullopt;
}

// Standard input as samples.
class LiveInput {
 public:
  bool ended() const { return ended_; }
  // Nothing: the rate is not known yet.
  std::optional<int> rate() const { return rate_; }
  // Waits a little while for more.
  void read(std::vector<int16_t>& samples) {
    pollfd p{STDIN_FILENO, POLLIN, 0};
    if (poll(&p, 1, kNapMs) <= 0) return;
    std::array<char, kRead> bytes;
    const ssize_t n = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) return;
    if (n <= 0)
      ended_ = true;
    else
      bytes_.append(bytes.data(), static_cast<size_t>(n));
    if (!rate_ && !begin()) return;
    const size_t whole = bytes_.size() / 2 * 2;
    decode_samples(std::string_view(bytes_).substr(0, whole), LiveCoding::kPcm16, samples);
    bytes_.erase(0, whole);
  }

 private:
  // Whether the samples begin there.
  bool begin() {
    constexpr std::string_view kRiff = "RIFF";
    constexpr size_t kTelling = 8;  // bytes that tell a file from samples
    if (bytes_.size() < kTelling && !ended_) return false;
    if (const auto file = name_of_file(bytes_))
      throw invalid_request("standard input",
                            "is " + std::string(*file) +
                                ", not samples: leave out --live, or let ffmpeg -i FILE -f s16le "
                                "-ac 1 -ar 16000 - make samples of it");
    const bool riff = bytes_.starts_with(kRiff);
    if (!riff && (bytes_.size() >= kRiff.size() || ended_ || !kRiff.starts_with(bytes_))) {
      rate_ = kRate;
      return true;
    }
    WavHeader header;
    if (!riff || !read_wav_header(bytes_, "standard input", header)) {
      if (ended_) throw invalid_request("standard input", "ends in the header of a WAV file");
      return false;
    }
    if (!LiveRate::takes(header.rate))
      throw invalid_request("standard input", "has " + std::to_string(header.rate) +
                                                  " samples a second; 16000 are a good rate");
    bytes_.erase(0, header.bytes);
    rate_ = header.rate;
    return true;
  }

  std::string bytes_;
  std::optional<int> rate_;
  bool ended_ = false;
};

// Text on standard output; on a terminal what is not settled stands behind it, until it is
// replaced.
class LiveText {
 public:
  void tell(const LiveEvent& event) {
    if (event.kind != News::kText && event.kind != News::kCompleted && event.kind != News::kFailed)
      return;
    if (terminal_ && partial_)
      std::fputs(
          "\x1b"
          "8\x1b[J",
          stdout);
    partial_ = false;
    if (event.kind == News::kFailed)
      std::fprintf(stderr, "tandem: %s\n", readable(event.error.message()).c_str());
    if (event.kind == News::kText) {
      std::fputs(event.text.c_str(), stdout);
      column_ += count_code_points(event.text);
      if (terminal_) show(event.partial);
    } else if (column_ > 0) {
      std::fputc('\n', stdout);
      column_ = 0;
    }
    std::fflush(stdout);
  }

 private:
  // As far as the line goes: the place to come back to must stay where it is.
  void show(const std::string& partial) {
    winsize size{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20) return;
    // (Characters of double width are counted as such where there are any.)
    const size_t room = size.ws_col - 1 - column_ % size.ws_col;
    std::string text;
    size_t used = 0;
    for (size_t at = 0; at < partial.size();) {
      size_t end = at + 1;
      while (end < partial.size() && (static_cast<unsigned char>(partial[end]) & 0xc0) == 0x80)
        ++end;
      used += end - at > 2 ? 2 : 1;
      if (used > room) break;
      text += partial.substr(at, end - at);
      at = end;
    }
    std::printf(
        "\x1b"
        "7\x1b[2m%s\x1b[0m",
        text.c_str());
    partial_ = true;
  }

  const bool terminal_ = isatty(STDOUT_FILENO) == 1;
  bool partial_ = false;
  size_t column_ = 0;  // characters of the line
};

// The same as lines of JSON.
void tell_json(const LiveEvent& event) {
  nlohmann::ordered_json line;
  const auto begin = [&](const char* type) { line = {{"type", type}, {"item", event.item}}; };
  switch (event.kind) {
    case News::kStarted:
      begin("speech_started");
      line["audio_start_ms"] = event.ms;
      break;
    case News::kStopped:
      begin("speech_stopped");
      line["audio_end_ms"] = event.ms;
      break;
    case News::kCommitted: begin("committed"); break;
    case News::kText:
      begin("delta");
      line["delta"] = event.text;
      line["partial"] = event.partial;
      break;
    case News::kCompleted:
      begin("completed");
      line["transcript"] = event.text;
      line["seconds"] = static_cast<double>(event.ms) / 1000;
      break;
    case News::kFailed:
      begin("failed");
      line["error"] = {{"type", event.error.type()}, {"message", event.error.message()}};
      break;
  }
  std::printf("%s\n", dump_ordered_line(line).c_str());
  std::fflush(stdout);
}

// What the engine's threads leave.
struct Inbox {
  Mutex mutex;
  std::vector<proto::RequestChunk> chunks GUARDED_BY(mutex);
};

class LiveRun {
 public:
  LiveRun(EngineApi& engine, const LiveCommand& command)
      : engine_(engine), command_(command), voice_(command.vad_model) {}

  int run() {
    LiveInput input;
    std::vector<int16_t> samples;
    while (!input.ended() || (live_ && !live_->idle())) {
      const bool full = live_ && live_->seconds_waiting() > kMostSeconds;
      if (input.ended() || full)
        poll(nullptr, 0, kNapMs);
      else
        input.read(samples);
      if (!live_ && input.rate()) begin(*input.rate());
      if (!live_) continue;
      live_->add(std::exchange(samples, {}));
      if (input.ended() && !std::exchange(finished_, true)) live_->finish();
      take();
      pump();
    }
    return failed_ ? 1 : 0;
  }

 private:
  void begin(int rate) {
    live_.emplace(command_.settings, rate, /*prompts=*/true,
                  [this](int meter) { return make_voice_meter(voice_.weights(), meter); });
  }

  void pump() {
    for (bool more = true; more;) {
      for (const LiveEvent& event : live_->events()) {
        failed_ = failed_ || event.kind == News::kFailed;
        if (command_.json)
          tell_json(event);
        else
          text_.tell(event);
      }
      auto window = live_->next();
      more = window.has_value();
      if (more) {
        window_ = std::move(*window);
        submit();
      }
    }
  }

  void submit() {
    answer_ = {};
    EngineApi::Request request;
    request.id = "live-" + std::to_string(getpid()) + "-" + std::to_string(serial_++);
    request.prompt = live_prompt(window_, live_->rate(), model_, "standard input");
    engine_.submit(std::move(request), [inbox = inbox_](proto::RequestChunk chunk) {
      const MutexLock lock(inbox->mutex);
      inbox->chunks.push_back(std::move(chunk));
    });
  }

  void take() {
    std::vector<proto::RequestChunk> chunks;
    {
      const MutexLock lock(inbox_->mutex);
      chunks.swap(inbox_->chunks);
    }
    for (const proto::RequestChunk& chunk : chunks) answer_.add(chunk);
    if (chunks.empty() || !answer_.ended()) return;
    if (!answer_.error()) return live_->take(window_.number, answer_.hypothesis());
    if (does_without(answer_.error()->param())) return submit();
    live_->fail(window_.number, *answer_.error());
  }

  // Models differ in what they can be asked; each says so by the parameter's name.
  bool does_without(const std::string& param) {
    bool LiveModel::*const can = param == "return_timestamps"                 ? &LiveModel::times
                                 : param == "task"                            ? &LiveModel::tasks
                                 : param == "prompt" || param == "prompt_ids" ? &LiveModel::prompts
                                                                              : nullptr;
    return can != nullptr && command_.settings.prompt.empty() && std::exchange(model_.*can, false);
  }

  EngineApi& engine_;
  const LiveCommand& command_;
  const VoiceSource voice_;
  LiveModel model_{.times = true, .tasks = true, .prompts = true};
  std::optional<LiveTranscriber> live_;
  LiveText text_;
  LiveWindow window_;  // under way
  LiveAnswer answer_;
  const std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  uint64_t serial_ = 0;
  bool finished_ = false, failed_ = false;
};

}  // namespace

int transcribe_live(EngineApi& engine, const LiveCommand& command) {
  return LiveRun(engine, command).run();
}

}  // namespace tandem::launcher
