#include "runtime/execution/attention_choice.h"

#include <string>

#include "base/error.h"
#include "base/log/log.h"

namespace tandem {

AttentionBackend attention_backend_of(const proto::LoadingConfig& loading) {
  std::string names;
  for (const NamedAttentionBackend& known : kAttentionBackends) {
    if (loading.attention_backend() == known.name) return known.backend;
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  }
  throw invalid_request("--attention-backend",
                        "\"" + loading.attention_backend() + "\" is not one of " + names);
}

std::unique_ptr<AttentionTable> make_attention(const proto::LoadingConfig& loading,
                                               const Context& ctx) {
  const AttentionBackend backend = attention_backend_of(loading);
  if (backend == AttentionBackend::kAuto) return nullptr;
  auto table = std::make_unique<AttentionTable>(ctx, backend);
  std::string lacking;
  for (const std::string& op : table->lacking()) lacking += (lacking.empty() ? "" : ", ") + op;
  log_info("attention backend {}{}", loading.attention_backend(),
           lacking.empty() ? "" : "; the device's own kernels for " + lacking);
  return table;
}

}  // namespace tandem
