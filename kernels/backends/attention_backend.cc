// A device's table with a backend's functions in it, and which thread's ops go there.
#include "kernels/backends/attention_backend.h"

#include "base/error.h"
#include "kernels/core/plugin.h"
#include "kernels/op_table.h"

namespace tandem {
namespace {

thread_local const AttentionScope* innermost = nullptr;

const char* name_of(AttentionBackend backend) {
  for (const NamedAttentionBackend& known : kAttentionBackends)
    if (known.backend == backend) return known.name;
  return "?";
}

const AttentionOps& attention_ops(const Context& ctx, AttentionBackend backend) {
  static constexpr AttentionOps kNone = {};  // of "auto"
  if (backend == AttentionBackend::kAuto) return kNone;
  const AttentionOps* const found =
      ctx.on_cpu() ? cpu_attention_ops(backend) : cuda_plugin()->attention_ops(backend);
  if (found == nullptr)
    throw not_supported("--attention-backend", std::string(name_of(backend)) +
                                                   " has no kernels for " +
                                                   (ctx.on_cpu() ? "CPUs" : "CUDA devices"));
  return *found;
}

}  // namespace

AttentionTable::AttentionTable(const Context& ctx, AttentionBackend backend)
    : AttentionTable(ctx, attention_ops(ctx, backend)) {}

AttentionTable::AttentionTable(const Context& ctx, const AttentionOps& attention)
    : ops_(std::make_unique<OpTable>(ctx.on_cpu() ? kCpuOps : ctx.backend_or_null()->ops())) {
#define TANDEM_ATTENTION_ENTRY(name, Args) \
  if (attention.name != nullptr)           \
    ops_->name = attention.name;           \
  else                                     \
    lacking_.emplace_back(#name);
  TANDEM_ATTENTION_OPS(TANDEM_ATTENTION_ENTRY)
#undef TANDEM_ATTENTION_ENTRY
}

AttentionTable::~AttentionTable() = default;

AttentionScope::AttentionScope(const Context& ctx, const AttentionTable* table)
    : ctx_(ctx), table_(table), outer_(innermost) {
  innermost = this;
}

AttentionScope::~AttentionScope() { innermost = outer_; }

const OpTable* AttentionScope::table_of(const Context& ctx) {
  for (const AttentionScope* scope = innermost; scope != nullptr; scope = scope->outer_)
    if (&scope->ctx_ == &ctx) return scope->table_ == nullptr ? nullptr : &scope->table_->ops();
  return nullptr;
}

}  // namespace tandem
