#include "python/native/inbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <deque>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/mutex.h"
#include "client/tandem_client.h"
#include "launcher/speech/audio_request.h"
#include "runtime/media/image/image_file.h"
#include "runtime/media/sound/transcript.h"
#include "runtime/protocol/output_cursor.h"
#include "runtime/request/request_error.h"
#include "runtime/request/request_json.h"

namespace tandem::library {
namespace {

using nlohmann::json;

constexpr const char* kSoundField = "sound";

json number_or_null(double value) { return std::isfinite(value) ? json(value) : json(); }

json score_json(const proto::RequestOutput& output) {
  const client::Score score = client::score_of(output);
  json out = {{"token_ids", score.token_ids},
              {"token_logprobs", json::array()},
              {"cumulative_logprob", number_or_null(score.sum)},
              {"mean_logprob", number_or_null(score.mean)},
              {"perplexity", number_or_null(score.perplexity)}};
  for (const double logprob : score.logprobs)
    out["token_logprobs"].push_back(number_or_null(logprob));
  return out;
}

json error_json(const proto::Error& error) {
  return {{"error",
           {{"message", error.message()},
            {"type", error.type()},
            {"param", error.param().empty() ? json() : json(error.param())},
            {"code", error.code().empty() ? json() : json(error.code())}}}};
}

struct Waiting {
  std::string id;
  bool stream = false, score = false;
  double seconds = 0;  // of its sound
  AnswerReader::Question question;
  proto::RequestOutput output;  // so far
};

// What has come of a request: a chunk, or the end.
struct Piece {
  uint64_t number = 0;
  bool last = false;
  proto::RequestChunk chunk;  // of a stream, or with an error
  std::unique_ptr<Waiting> ended;
};

void write_end(Waiting& request, const OpenEngine& engine, Inbox::News& news) {
  proto::RequestOutput& output = request.output;
  if (request.score) {
    try {
      news.json = dump_line(score_json(output));
    } catch (const client::ClientError& error) {
      proto::Error as_sent;
      as_sent.set_type(error.type());
      as_sent.set_message(error.what());
      news.json = dump_line(error_json(as_sent));
    }
    return;
  }
  if (output.has_embedding()) {
    const auto& values = output.embedding().values();
    news.values.assign(values.begin(), values.end());
    proto::RequestOutput rest = output;
    rest.clear_embedding();
    news.json = dump_line(result_to_json(rest, json()));
    return;
  }
  if (output.has_inputs()) {
    auto& ids = *output.mutable_inputs()->mutable_encoder_prompt_token_ids();
    news.ids.assign(ids.begin(), ids.end());
    ids.Clear();
  }
  json out = result_to_json(output, json());
  if (request.seconds > 0) {
    out["duration"] = request.seconds;
    out["language"] = spoken_language_name(output.language());
  }
  for (int i = 0; i < output.outputs_size(); ++i)  // as a text, whose keys keep their order
    if (std::string parsed = engine.parsed(request.question, output, i); !parsed.empty())
      out["outputs"][static_cast<size_t>(i)]["parsed"] = std::move(parsed);
  news.json = dump_line(out);
}

void write_chunk(const proto::RequestChunk& chunk, Inbox::News& news) {
  json out = chunk_to_json(chunk, json(), news.number);
  if (chunk.has_progress())
    out["progress"] = {chunk.progress().seconds_done(), chunk.progress().seconds()};
  if (!chunk.language().empty()) out["language"] = chunk.language();
  news.json = dump_line(out);
}

}  // namespace

struct Inbox::State {
  Mutex mutex;
  CondVar changed;
  // By number: have not ended.
  std::unordered_map<uint64_t, std::unique_ptr<Waiting>> waiting GUARDED_BY(mutex);
  std::deque<Piece> pieces GUARDED_BY(mutex);
  size_t wanted GUARDED_BY(mutex) = 1;  // pieces, by whoever waits
  int fd = -1;
  std::string prefix;  // of its requests' ids

  State() : fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (fd < 0)
      throw InputError(ErrorKind::kResource,
                       std::string("no descriptor for news: ") + std::strerror(errno));
    static std::atomic<uint64_t> count{0};
    prefix = "library-" + std::to_string(count++) + "-";
  }
  ~State() { ::close(fd); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void ring() const {
    const uint64_t one = 1;
    (void)!::write(fd, &one, sizeof one);  // (only a full counter refuses, which rings too)
  }

  // From the engine.
  void take(uint64_t number, proto::RequestChunk chunk) {
    const MutexLock lock(mutex);
    const auto it = waiting.find(number);
    if (it == waiting.end()) return;
    Waiting& request = *it->second;
    const bool silent = pieces.empty();
    Piece piece{number, chunk.finished() || chunk.has_error(), {}, nullptr};
    if (chunk.has_progress()) request.seconds = chunk.progress().seconds();
    if (chunk.has_error()) {
      piece.chunk = std::move(chunk);
    } else {
      append_chunk(request.output, chunk);
      if (request.stream && !piece.last) piece.chunk = std::move(chunk);
    }
    if (!piece.last && !request.stream) return;
    // The last chunk of a stream is news of its own before the end.
    if (piece.last && request.stream && !piece.chunk.has_error() && chunk.outputs_size() > 0)
      pieces.push_back({number, false, std::move(chunk), nullptr});
    if (piece.last) {
      piece.ended = std::move(it->second);
      waiting.erase(it);
    }
    if (silent) ring();
    pieces.push_back(std::move(piece));
    if (pieces.size() >= wanted) changed.notify_all();
  }
};

Inbox::Inbox(std::shared_ptr<OpenEngine> engine)
    : engine_(std::move(engine)), state_(std::make_shared<State>()) {}

Inbox::~Inbox() {
  std::vector<std::string> open;
  {
    const MutexLock lock(state_->mutex);
    for (const auto& [number, request] : state_->waiting) open.push_back(request->id);
    state_->waiting.clear();
    state_->pieces.clear();
  }
  for (const std::string& id : open) engine_->cancel(id);
}

int Inbox::fd() const { return state_->fd; }

void Inbox::submit(uint64_t number, const json& request, std::optional<MediaSource> sound) {
  const bool score = request.value("kind", "generate") == "score";
  JsonRequest read =
      score ? score_request_from_json(request.at("line"), json::object(), true, read_image_file)
            : launcher::local_request_from_json(request.at("line"), json::object());
  EngineApi::Request to_send;
  to_send.prompt = std::move(read.prompt);
  to_send.options = std::move(read.options);
  to_send.priority = read.priority;
  to_send.timeout = request.value("timeout", 0.0);
  if (!sound && !read.audio.empty()) sound = MediaSource::open(read.audio, kSoundField);
  if (sound) {
    proto::PromptPart& part = *to_send.prompt.mutable_encoder();
    part.set_field(kSoundField);
    proto::Sound& message = *part.mutable_sound();
    if (read.speech) *message.mutable_params() = *read.speech;
    to_send.sound = std::move(sound);
  }
  auto waiting = std::make_unique<Waiting>();
  waiting->id = to_send.id = state_->prefix + std::to_string(number);
  waiting->stream = request.value("stream", false);
  waiting->score = score;
  if (!score) waiting->question = engine_->question(to_send.prompt);
  waiting->output.set_request_id(to_send.id);
  {
    const MutexLock lock(state_->mutex);
    if (!state_->waiting.emplace(number, std::move(waiting)).second)
      throw invalid_request("number", std::to_string(number) + " is that of a request under way");
  }
  engine_->submit(std::move(to_send), [state = state_, number](proto::RequestChunk chunk) {
    state->take(number, std::move(chunk));
  });
}

void Inbox::cancel(uint64_t number) {
  std::string id;
  {
    const MutexLock lock(state_->mutex);
    const auto it = state_->waiting.find(number);
    if (it == state_->waiting.end()) return;
    id = it->second->id;
  }
  engine_->cancel(id);
}

std::vector<Inbox::News> Inbox::poll(int milliseconds, size_t wanted, size_t most) {
  std::vector<Piece> taken;
  {
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
    const MutexLock lock(state_->mutex);
    if (milliseconds > 0) {
      state_->wanted = std::clamp<size_t>(wanted, 1, most);
      while (state_->pieces.size() < state_->wanted &&
             state_->changed.wait_until(state_->mutex, deadline))
        continue;
      state_->wanted = 1;
    }
    while (!state_->pieces.empty() && taken.size() < most) {
      taken.push_back(std::move(state_->pieces.front()));
      state_->pieces.pop_front();
    }
    if (state_->pieces.empty()) {
      uint64_t count = 0;
      (void)!::read(state_->fd, &count, sizeof count);
    }
  }
  std::vector<News> out;
  for (const Piece& piece : taken) {
    News& news = out.emplace_back();
    news.number = piece.number;
    news.last = piece.last;
    if (piece.chunk.has_error())
      news.json = dump_line(error_json(piece.chunk.error()));
    else if (piece.last)
      write_end(*piece.ended, *engine_, news);
    else
      write_chunk(piece.chunk, news);
  }
  return out;
}

}  // namespace tandem::library
