// Requests of one caller, and the news of them until they are fetched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "python/native/open_engine.h"
#include "runtime/media/media_source.h"

namespace tandem::library {

// Functions may be called from any thread. News of requests that do not stream is their end alone.
class Inbox {
 public:
  explicit Inbox(std::shared_ptr<OpenEngine> engine);
  // Cancels what has not ended.
  ~Inbox();
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  // As tandem_submit() (library.h). Throws InputError.
  void submit(uint64_t number, const nlohmann::json& request, std::optional<MediaSource> sound);
  void cancel(uint64_t number);
  // Readable while there is news.
  int fd() const;

  struct News {
    uint64_t number = 0;
    bool last = false;
    std::string json;
    std::vector<float> values;  // of an embedding
    std::vector<int32_t> ids;   // the encoder's; `json` has none of them
  };
  // Waits for `wanted` of them, `milliseconds` at most: whoever wants many is woken seldom. Texts
  // are made by the thread that calls. One thread at a time.
  std::vector<News> poll(int milliseconds, size_t wanted, size_t most);

 private:
  struct State;

  const std::shared_ptr<OpenEngine> engine_;
  const std::shared_ptr<State> state_;  // the engine's callbacks hold it too
};

}  // namespace tandem::library
