// Keys and values of cross-attention on their way from ranks that run encoders to those that run
// decoders (docs/parallel.md). An encoder's rank computes them in pages of its own, and goes on; a
// thread sends them. A decoder's rank takes them at the beginning of a step, into its own pages.
//
// For each source a rank sends the sequence and the number of blocks, then each block of each
// layer. A receiver gets its layers and its heads only, as they lie in its pages. A device's pages
// go through the host's memory (staged_pages.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "models/model.h"
#include "parallel/communicators/communicator.h"
#include "runtime/execution/ranks/staged_pages.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// The group's ranks: those that run decoders, then those that run encoders.
struct EncoderRanks {
  int first = 0, count = 0;

  int end() const { return first + count; }
};

// Of an encoder's rank. Its thread makes all of the rank's calls of the group.
class EncoderOutbox {
 public:
  // Waits until the decoders' ranks have said what they have of a model with `spec`.
  EncoderOutbox(Context& ctx, std::shared_ptr<Communicator> group, EncoderRanks ranks,
                const KvCacheSpec& spec);
  // Aborts the group: what is not sent yet would be waited for.
  ~EncoderOutbox();
  EncoderOutbox(const EncoderOutbox&) = delete;
  EncoderOutbox& operator=(const EncoderOutbox&) = delete;

  Communicator& group() { return *group_; }
  // A source's blocks in `cache`.
  struct Source {
    int64_t seq_id;
    std::span<const int32_t> blocks;
  };
  // Copies the blocks of the sources, which may change then, and sends them to all decoders' ranks,
  // behind those that were posted before. Throws what a send has thrown.
  void post(const KvCache& cache, std::span<const Source> sources);

 private:
  struct Share {
    int first_layer, layers, first_head, heads;
  };
  struct Letter {
    int64_t seq_id;
    int64_t blocks;
    std::vector<std::vector<std::byte>> contents;  // by rank
  };

  void post(const KvCache& pages, const Source& source);
  void run();
  void send(const Letter& letter);

  std::shared_ptr<Communicator> group_;
  std::optional<StagedPages> staged_;  // of a device
  std::vector<Share> shares_;          // by rank
  Mutex mutex_;
  CondVar changed_;
  std::deque<Letter> letters_ GUARDED_BY(mutex_);
  bool ends_ GUARDED_BY(mutex_) = false;
  std::exception_ptr error_ GUARDED_BY(mutex_);
  std::thread thread_;
};

// Of a decoder's rank.
class EncoderInbox {
 public:
  // Tells the encoders' ranks what this one has. first_layer: of its decoder layers.
  EncoderInbox(Context& ctx, std::shared_ptr<Communicator> group, EncoderRanks ranks,
               const KvCacheSpec& spec, int first_layer);

  Communicator& group() { return *group_; }
  // All that a step takes, in order, into the blocks of `cache` that it names; on a device in the
  // stream's order. Throws std::runtime_error naming the field that is wrong.
  void take(const proto::StepInput& step, const KvCache& cache);

 private:
  void receive(const proto::EncoderTake& take, const KvCache& pages,
               std::span<const int32_t> blocks);

  std::shared_ptr<Communicator> group_;
  EncoderRanks ranks_;
  std::optional<StagedPages> staged_;  // of a device
  std::vector<std::byte> landing_;     // of blocks that lie in two tensors, or that nobody wants
};

}  // namespace tandem
