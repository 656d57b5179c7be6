#include "server/api/documents/document_store.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace tandem::server {
namespace {

using Stage = StoredDocument::State;

// 32 hexadecimal digits that nobody can guess.
std::string secret() {
  std::array<uint8_t, 16> bytes{};
  TANDEM_CHECK_EQ(getentropy(bytes.data(), bytes.size()), 0);
  std::string out;
  for (const uint8_t byte : bytes) {
    out += "0123456789abcdef"[byte >> 4];
    out += "0123456789abcdef"[byte & 15];
  }
  return out;
}

}  // namespace

StoredDocument DocumentStore::begin(StoredDocument document, Clock::time_point now) {
  document.id = secret();
  document.key = secret() + secret();
  const MutexLock lock(mutex_);
  drop_old(now);
  while (entries_.size() >= kMostDocuments && drop_oldest()) {
  }
  if (entries_.size() >= kMostDocuments)
    throw InputError(
        ErrorKind::kOverloaded,
        std::to_string(kMostDocuments) + " documents are being translated; try again later");
  entries_.push_back({document, {}});
  return document;
}

void DocumentStore::finish(const std::string& id, std::string result, Clock::time_point now) {
  const MutexLock lock(mutex_);
  Entry* entry = entry_of(id);
  if (entry == nullptr) return;
  entry->ended = now;
  if (result.size() > kMostBytes) {
    entry->document.state = Stage::kFailed;
    entry->document.error = "the result is larger than " + std::to_string(kMostBytes) + " bytes";
    return;
  }
  while (bytes_ + result.size() > kMostBytes && drop_oldest()) {
  }
  bytes_ += result.size();
  entry = entry_of(id);  // the others have moved
  entry->document.state = Stage::kDone;
  entry->document.result = std::make_shared<const std::string>(std::move(result));
}

void DocumentStore::fail(const std::string& id, const std::string& error, Clock::time_point now) {
  const MutexLock lock(mutex_);
  Entry* entry = entry_of(id);
  if (entry == nullptr) return;
  entry->ended = now;
  entry->document.state = Stage::kFailed;
  entry->document.error = error;
}

void DocumentStore::erase(const std::string& id) {
  const MutexLock lock(mutex_);
  if (Entry* entry = entry_of(id)) drop(entries_.begin() + (entry - entries_.data()));
}

std::optional<StoredDocument> DocumentStore::find(const std::string& id, Clock::time_point now) {
  const MutexLock lock(mutex_);
  drop_old(now);
  const Entry* entry = entry_of(id);
  return entry == nullptr ? std::nullopt : std::optional(entry->document);
}

DocumentStore::Entry* DocumentStore::entry_of(const std::string& id) {
  const auto it = std::find_if(entries_.begin(), entries_.end(),
                               [&](const Entry& one) { return one.document.id == id; });
  return it == entries_.end() ? nullptr : &*it;
}

void DocumentStore::drop(std::vector<Entry>::iterator entry) {
  if (entry->document.result) bytes_ -= entry->document.result->size();
  entries_.erase(entry);
}

void DocumentStore::drop_old(Clock::time_point now) {
  for (size_t i = entries_.size(); i-- > 0;)
    if (entries_[i].document.state != Stage::kTranslating && now - entries_[i].ended > kLifetime)
      drop(entries_.begin() + static_cast<std::ptrdiff_t>(i));
}

// Of those that have ended.
bool DocumentStore::drop_oldest() {
  auto oldest = entries_.end();
  for (auto it = entries_.begin(); it != entries_.end(); ++it)
    if (it->document.result || it->document.state == Stage::kFailed)
      if (oldest == entries_.end() || it->ended < oldest->ended) oldest = it;
  if (oldest == entries_.end()) return false;
  drop(oldest);
  return true;
}

}  // namespace tandem::server
