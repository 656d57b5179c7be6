// The constraints of requests' outputs, compiled: made where requests are prepared, off the path of
// steps, and looked up by the workers of the same process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/mutex.h"
#include "runtime/protocol/tandem.pb.h"
#include "text/grammar/token_constraint.h"
#include "text/grammar/token_vocabulary.h"

namespace tandem {

// Of one model. Keeps the constraints that were used last. Usable from any thread.
class ConstraintStore {
 public:
  // The process's store of the checkpoint in `directory`, whose tokenizer is read when the first
  // constraint is asked for. vocab_size: the model's.
  static std::shared_ptr<ConstraintStore> of(const std::filesystem::path& directory,
                                             int32_t vocab_size);

  ConstraintStore(std::filesystem::path directory, int32_t vocab_size)
      : directory_(std::move(directory)), vocab_size_(vocab_size) {}

  // Throws InputError naming the constraint's field: it is wrong, too large, or has no text that
  // the model's tokens can write.
  std::shared_ptr<const TokenConstraint> get(const proto::Constraint& constraint);

 private:
  using Entry = std::pair<std::string, std::shared_ptr<const TokenConstraint>>;

  std::shared_ptr<const TokenVocabulary> vocabulary();
  std::shared_ptr<const TokenConstraint> find(const std::string& key);

  const std::filesystem::path directory_;
  const int32_t vocab_size_;
  Mutex vocabulary_mutex_;
  std::shared_ptr<const TokenVocabulary> vocabulary_ GUARDED_BY(vocabulary_mutex_);
  Mutex mutex_;
  std::list<Entry> entries_ GUARDED_BY(mutex_);  // the one used last first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_key_ GUARDED_BY(mutex_);
};

}  // namespace tandem
