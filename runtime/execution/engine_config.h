// What an engine is started with: what is made of the message, and what is wrong with it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/core/quantization.h"
#include "kernels/core/types.h"
#include "models/model.h"
#include "runtime/execution/cache_size.h"
#include "runtime/protocol/tandem.pb.h"
#include "runtime/scheduling/scheduler.h"

namespace tandem {

// Throws InputError naming the flag if the value is not in [least, most].
void check_range(const char* flag, int64_t value, int64_t least, int64_t most);

// runtime/protocol/engine_config.proto.
using EngineConfig = proto::EngineConfig;

// Every value that has limits. Throws InputError naming the flag.
void check_config(const EngineConfig& config);

// What the names say; absent: "auto". Throw InputError naming the flag.
std::optional<DType> asked_dtype(const EngineConfig& config);
std::optional<DType> kv_cache_dtype_of(const EngineConfig& config);
Quantization quantization_of(const EngineConfig& config);
// What layers compute in, and how a device stores their weights.
struct StoredType {
  DType dtype;
  Quantization quantization = Quantization::kNone;
  bool operator==(const StoredType&) const = default;
};
// That of the draft model beside a model. "auto" on a CPU is int8, because no draft changes a
// token, or the model's own if that is int4; on a device it is the model's. Throws InputError
// naming the flag.
StoredType draft_type_of(const EngineConfig& config, const StoredType& of_model, bool on_cpu);
inline int stages_of(const EngineConfig& config) {
  return config.parallel().pipeline_parallel_size();
}
// Ranks of a group besides those that run decoders.
inline int encoder_ranks_of(const EngineConfig& config) {
  return config.parallel().encoder_ranks();
}
// Whether what stages hand to each other goes from device to device, if there is a library for it.
// Not if one device is named for all ranks, nor with TANDEM_STAGES_BY_HOST=1 in the environment.
bool stages_use_devices(const EngineConfig& config);
PreemptionMode preemption_of(const EngineConfig& config);

// "auto": bfloat16 for a checkpoint stored so, else float32 (float16 widens to float32: its range
// does not fit bfloat16's precision). Never int8 or int4, which change tokens more than a request
// expects. On a GPU float16 stays float16. On a CPU --quantization int8 and int4 are the types of
// these names; throws InputError for others, and for types that they do not go with. On a GPU int8
// and int4 are how weights are stored: it computes in bfloat16, or in the checkpoint's float16.
DType resolve_dtype(const EngineConfig& config, std::optional<DType> checkpoint_dtype);
// That of the config, or on a GPU that of an integer dtype. Throws InputError where they differ.
Quantization resolve_quantization(const EngineConfig& config);

// Where the model of a rank runs: the device that the config names. Throws InputError: no such
// device, or one that does not compute in `dtype`. `rank`: among the ranks of this host.
std::unique_ptr<Context> make_context(const EngineConfig& config, DType dtype, int threads,
                                      int rank = 0);

// Throws InputError for --batch-invariant with GPUs of so many ranks of tensor parallelism that the
// order of their sums may depend on the number of rows.
void check_sums_of_ranks(const EngineConfig& config, const Context& ctx, int ranks);

// What cudagraph_capture_sizes says: each a padded_size(), none twice, the largest first, no more
// than max_num_seqs needs. Where it says nothing, all of those up to 512 sequences; none with
// enforce_eager.
std::vector<int> recorded_sizes(const EngineConfig& config);

int default_threads();

SchedulerConfig scheduler_config(const EngineConfig& config, const CacheSize& cache,
                                 const ModelConfig& model);

// "4GiB", "512M", "1073741824" → bytes. Throws InputError with the flag's name.
size_t parse_bytes(const std::string& text, const std::string& flag);

}  // namespace tandem
