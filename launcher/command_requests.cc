#include "launcher/command_requests.h"

#include <array>
#include <cstdio>
#include <random>
#include <utility>

#include "base/mutex.h"
#include "runtime/protocol/output_cursor.h"
#include "runtime/request/request_error.h"

namespace tandem::launcher {
namespace {

constexpr std::chrono::milliseconds kLongestPoll{50};

std::string random_prefix() {
  std::random_device random;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "req-%08x%08x-", random(), random());
  return text.data();
}

}  // namespace

// What the engine has said since the last poll().
struct CommandRequests::Inbox {
  struct News {
    uint64_t number;
    proto::RequestChunk chunk;
    Clock::time_point at;
  };
  Mutex mutex;
  CondVar changed;
  // Every chunk is waited for, not only the last ones.
  bool streams GUARDED_BY(mutex) = false;
  std::vector<News> news GUARDED_BY(mutex);

  void add(uint64_t number, proto::RequestChunk chunk) {
    const bool last = chunk.finished() || chunk.has_error();
    const bool read = chunk.has_progress();  // there may be room for more sound
    bool awaited = false;
    {
      const MutexLock lock(mutex);
      news.push_back({number, std::move(chunk), Clock::now()});
      awaited = last || read || streams;
    }
    if (awaited) changed.notify_one();
  }
};

CommandRequests::CommandRequests(EngineApi& engine, std::string lora)
    : engine_(engine),
      prefix_(random_prefix()),
      lora_(std::move(lora)),
      inbox_(std::make_shared<Inbox>()) {}

void CommandRequests::stream_to(ChunkSink sink) {
  sink_ = std::move(sink);
  const MutexLock lock(inbox_->mutex);
  inbox_->streams = static_cast<bool>(sink_);
}

void CommandRequests::submit(uint64_t number, JsonRequest json) {
  if (!lora_.empty() && !json.options.has_lora()) json.options.set_lora(lora_);
  if (!json.audio.empty()) return sounds_.add(number, std::move(json));
  EngineApi::Request request;
  request.prompt = std::move(json.prompt);
  request.options = std::move(json.options);
  request.priority = json.priority;
  send(number, std::move(request));
}

void CommandRequests::send(uint64_t number, EngineApi::Request request) {
  request.id = prefix_ + std::to_string(number);
  outputs_[number].set_request_id(request.id);
  engine_.submit(std::move(request), [inbox = inbox_, number](proto::RequestChunk chunk) {
    inbox->add(number, std::move(chunk));
  });
}

void CommandRequests::send_sounds(std::vector<Finished>& out) {
  while (const auto number = sounds_.next()) {
    try {
      send(*number, sounds_.open(*number));
    } catch (const InputError& error) {
      out.push_back({*number, {}, error, sounds_.end(*number)});
    }
  }
}

std::vector<CommandRequests::Finished> CommandRequests::poll() {
  std::vector<Finished> out;
  send_sounds(out);
  if (!out.empty()) return out;  // before what waits
  std::vector<Inbox::News> news;
  {
    const auto deadline = Clock::now() + kLongestPoll;
    const MutexLock lock(inbox_->mutex);
    while (inbox_->news.empty() && inbox_->changed.wait_until(inbox_->mutex, deadline)) continue;
    news.swap(inbox_->news);
  }
  for (const auto& [number, chunk, at] : news) {
    const auto it = outputs_.find(number);
    sounds_.note(number, chunk);
    append_chunk(it->second, chunk);
    if (sink_) sink_(number, chunk, at);
    if (!chunk.finished() && !chunk.has_error()) continue;
    Finished& finished = out.emplace_back(Finished{number, {}, {}, sounds_.end(number)});
    if (chunk.has_error())
      finished.error = to_input_error(chunk.error());
    else
      finished.output = std::move(it->second);
    outputs_.erase(it);
  }
  return out;
}

}  // namespace tandem::launcher
