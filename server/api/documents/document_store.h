// Translated files until they are fetched: in bounded memory, for a bounded time.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"

namespace tandem::server {

struct StoredDocument {
  enum class State { kTranslating, kDone, kFailed };
  std::string id, key;     // random; whoever has both may fetch it
  std::string file;        // name for the result
  std::string media_type;  // of the result
  State state = State::kTranslating;
  std::shared_ptr<const std::string> result;  // of kDone
  std::string error;                          // of kFailed
  size_t characters = 0;                      // of the source
};

// Any thread.
class DocumentStore {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kMostDocuments = 1000;
  static constexpr size_t kMostBytes = size_t{128} << 20;  // of all results
  static constexpr std::chrono::minutes kLifetime{60};     // since the result is there

  // A document under way, which gets its id and key. Throws InputError (kOverloaded): there are as
  // many under way as are taken.
  StoredDocument begin(StoredDocument document, Clock::time_point now = Clock::now());
  // The oldest results give way where there is no room for this one.
  void finish(const std::string& id, std::string result, Clock::time_point now = Clock::now());
  void fail(const std::string& id, const std::string& error, Clock::time_point now = Clock::now());
  void erase(const std::string& id);
  // Nothing: there is none, or there is none any more.
  std::optional<StoredDocument> find(const std::string& id, Clock::time_point now = Clock::now());

 private:
  struct Entry {
    StoredDocument document;
    Clock::time_point ended = {};
  };
  void drop_old(Clock::time_point now) REQUIRES(mutex_);
  bool drop_oldest() REQUIRES(mutex_);
  void drop(std::vector<Entry>::iterator entry) REQUIRES(mutex_);
  Entry* entry_of(const std::string& id) REQUIRES(mutex_);

  Mutex mutex_;
  std::vector<Entry> entries_ GUARDED_BY(mutex_);  // in the order of their making
  size_t bytes_ GUARDED_BY(mutex_) = 0;
};

}  // namespace tandem::server
