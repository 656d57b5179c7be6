// Attention backends: sets of functions for the ops of attention, of which --attention-backend
// chooses one at start. "auto" is none of them: then the device's table (kernels/op_table.h) is as
// it stands.
//
// A new backend is an enumerator and a line of kAttentionBackends here, and an AttentionOps on each
// device that has it: kernels/backends/cpu_attention.cc, kernels/cuda/backends/cuda_attention.cu.
// It need not have every op. Where it has none, the device's own function stays.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/core/context.h"

namespace tandem {

struct OpTable;  // kernels/op_table.h

enum class AttentionBackend : uint8_t { kAuto, kReference };

struct NamedAttentionBackend {
  const char* name;
  AttentionBackend backend;
};
inline constexpr NamedAttentionBackend kAttentionBackends[] = {
    {"auto", AttentionBackend::kAuto},
    {"reference", AttentionBackend::kReference},
};

// The ops of kernels/op_list.h that a backend may have functions for
// (tests/scripts/op_files_test.sh: all of attention*, but for what appends and packs).
// clang-format off
#define TANDEM_ATTENTION_OPS(OP)                     \
  OP(ragged_attention, RaggedAttentionArgs)          \
  OP(picture_attention, PictureAttentionArgs)        \
  OP(relative_attention, RelativeAttentionArgs)      \
  OP(channel_attention, ChannelAttentionArgs)        \
  OP(box_attention, BoxAttentionArgs)                \
  OP(bucket_attention, BucketAttentionArgs)          \
  OP(paged_attention, PagedAttentionArgs)            \
  OP(merge_attention, MergeAttentionArgs)            \
  OP(attention_weights, AttentionWeightsArgs)        \
  OP(attend_ragged, AttendRaggedArgs)                \
  OP(attend_pages, AttendPagesArgs)                  \
  OP(attend_latent, AttendLatentArgs)                \
  OP(merge_states, MergeStatesArgs)
// clang-format on

// Of attention_ops.h, sound_ops.h and layouts/layout_ops.h.
namespace ops {
#define TANDEM_ATTENTION_ARGS(name, Args) struct Args;
TANDEM_ATTENTION_OPS(TANDEM_ATTENTION_ARGS)
#undef TANDEM_ATTENTION_ARGS
}  // namespace ops

// A backend's functions on a device, called with checked arguments as those of OpTable are; null:
// it has none.
struct AttentionOps {
#define TANDEM_ATTENTION_ENTRY(name, Args) void (*name)(Context&, const ops::Args&) = nullptr;
  TANDEM_ATTENTION_OPS(TANDEM_ATTENTION_ENTRY)
#undef TANDEM_ATTENTION_ENTRY
};

// The CPU's functions of a backend; null: it has none there. (A plugin's: DevicePlugin.)
const AttentionOps* cpu_attention_ops(AttentionBackend backend);

// A device's ops with a backend's functions in their places. One for each worker.
class AttentionTable {
 public:
  // The chosen backend on the device of `ctx`. Throws InputError that names both, if the backend
  // has no function there.
  AttentionTable(const Context& ctx, AttentionBackend backend);
  AttentionTable(const Context& ctx, const AttentionOps& attention);
  ~AttentionTable();

  const OpTable& ops() const { return *ops_; }
  // The ops for which the device's own functions stay.
  const std::vector<std::string>& lacking() const { return lacking_; }

 private:
  std::unique_ptr<OpTable> ops_;
  std::vector<std::string> lacking_;
};

// While it lives, ops of that context that this thread calls go to that table. Null: to the
// device's.
class AttentionScope {
 public:
  AttentionScope(const Context& ctx, const AttentionTable* table);
  ~AttentionScope();
  AttentionScope(const AttentionScope&) = delete;
  AttentionScope& operator=(const AttentionScope&) = delete;

  // The innermost scope's table for that context; null: none.
  static const OpTable* table_of(const Context& ctx);

 private:
  const Context& ctx_;
  const AttentionTable* const table_;
  const AttentionScope* const outer_;
};

}  // namespace tandem
