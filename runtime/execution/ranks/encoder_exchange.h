// Keys and values of cross-attention on their way from ranks that run encoders to those that run
// decoders (docs/parallel.md). An encoder's rank computes them in pages of its own, and goes on; a
// thread sends them. A decoder's rank takes them at the beginning of a step, into its own pages.
//
// For each source a rank sends the sequence and the number of blocks, then each block of each
// layer. A receiver gets its layers and its heads only, as they lie in its pages. A device's pages
// go through the host's memory (staged_pages.h). Between ranks of one process on one device they
// stay in its memory, if the receiver has all layers and heads: a ticket is sent (shared_pages.h).
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
#include "runtime/execution/ranks/shared_pages.h"
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
  // Waits until the decoders' ranks have said what they have of a model with `spec`, and where.
  EncoderOutbox(Context& ctx, std::shared_ptr<Communicator> group, EncoderRanks ranks,
                const KvCacheSpec& spec, const DevicePlace& place);
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
    bool by_ticket;
  };
  struct Letter {
    int64_t seq_id;
    int64_t blocks;
    std::vector<std::vector<std::byte>> contents;  // by rank
    SharedPages::Pages shared = {};                // for ranks that get a ticket
    int64_t first_shared = 0;                      // its first block there
  };

  bool any_share(bool by_ticket) const;
  void append(const KvCache& pages, std::span<const int32_t> blocks, const Share& share,
              std::vector<std::byte>& out) const;
  void run();
  void send(const Letter& letter);

  std::shared_ptr<Communicator> group_;
  std::optional<StagedPages> staged_;  // of a device
  std::optional<SharedPages> shared_;  // of a device
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
               const KvCacheSpec& spec, int first_layer, const DevicePlace& place);

  Communicator& group() { return *group_; }
  // All that a step takes, in order, into the blocks of `cache` that it names; on a device in the
  // stream's order. Throws std::runtime_error naming the field that is wrong.
  void take(const proto::StepInput& step, const KvCache& cache);
  // Before each step: other ranks' pages that the stream has read can be filled again.
  void let_go();

 private:
  struct Head {  // of what a rank sends for a source
    int64_t seq_id, blocks;
    int64_t ticket;        // 0: the blocks follow
    int64_t first_shared;  // of the ticket's pages
  };
  // Pages that the stream still reads.
  struct Held {
    uint64_t mark;
    SharedPages::Pages pages;
  };

  Head receive_head(const proto::EncoderTake& take);
  void receive(int rank, int64_t blocks, const KvCache& pages, std::span<const int32_t> to);
  void copy_shared(const proto::EncoderTake& take, const Head& head, const KvCache& cache);

  Context& ctx_;
  std::shared_ptr<Communicator> group_;
  EncoderRanks ranks_;
  std::optional<StagedPages> staged_;  // of a device
  std::deque<Held> held_;              // oldest first
  std::vector<std::byte> landing_;     // of blocks that lie in two tensors, or that nobody wants
};

}  // namespace tandem
