// The attention backends of the CPU. "reference": the plain functions of kernels/reference.h, with
// which tests compare all others. They sum in double, one key after another, on one thread.
#include "kernels/backends/attention_backend.h"
#include "kernels/layouts/reference_layouts.h"
#include "kernels/reference.h"

namespace tandem {
namespace {

template <auto kPlain, class Args>
void on_cpu(Context&, const Args& args) {
  kPlain(args);
}

constexpr AttentionOps kReference = {
#define TANDEM_ATTENTION_ENTRY(name, Args) on_cpu<reference::name, ops::Args>,
    TANDEM_ATTENTION_OPS(TANDEM_ATTENTION_ENTRY)
#undef TANDEM_ATTENTION_ENTRY
};

}  // namespace

const AttentionOps* cpu_attention_ops(AttentionBackend backend) {
  switch (backend) {
    case AttentionBackend::kAuto: return nullptr;
    case AttentionBackend::kReference: return &kReference;
  }
  return nullptr;
}

}  // namespace tandem
