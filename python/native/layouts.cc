#include "python/native/layouts.h"

#include <map>
#include <string>
#include <utility>

#include "base/error.h"
#include "kernels/layouts/layout_call.h"

namespace tandem::library {
namespace {

constexpr int kMostThreads = 1024;

DType type_of(const std::string& name, const std::string& type) {
  static const std::map<std::string, DType> kTypes = {
      {"float32", DType::kF32}, {"float16", DType::kF16}, {"bfloat16", DType::kBF16},
      {"int32", DType::kI32},   {"int64", DType::kI64},   {"uint8", DType::kU8},
      {"bool", DType::kU8}};
  const auto found = kTypes.find(type);
  if (found == kTypes.end()) throw invalid_request(name, "is " + type + ", which no op takes");
  return found->second;
}

// One of the request's values, of the type that it is asked for as.
template <class Value>
Value value_of(const nlohmann::json& request, const char* name, Value otherwise) {
  const auto found = request.find(name);
  if (found == request.end() || found->is_null()) return otherwise;
  try {
    return found->get<Value>();
  } catch (const nlohmann::json::exception&) {
    throw invalid_request(name, "is of the wrong type");
  }
}

}  // namespace

void run_attention(const nlohmann::json& request, const tandem_array* arrays, size_t count) {
  LayoutCall call;
  call.op = value_of<std::string>(request, "op", "");
  const auto layout = value_of<std::string>(request, "kv_layout", "NHD");
  if (layout != "NHD" && layout != "HND")
    throw invalid_request("kv_layout", "is \"" + layout + "\", neither NHD nor HND");
  call.layout = layout == "NHD" ? KvLayout::kNHD : KvLayout::kHND;
  call.causal = value_of(request, "causal", false);
  if (request.contains("sm_scale") && !request.at("sm_scale").is_null())
    call.sm_scale = value_of(request, "sm_scale", 1.0f);
  call.logits_soft_cap = value_of(request, "logits_soft_cap", 0.0f);
  const int threads = value_of(request, "threads", 1);
  if (threads < 1 || threads > kMostThreads)
    throw invalid_request("threads", "is " + std::to_string(threads) + ", not in [1, " +
                                         std::to_string(kMostThreads) + "]");
  for (size_t i = 0; i < count; ++i) {
    const tandem_array& array = arrays[i];
    const std::string name = array.name;
    // (A tensor has five dimensions at most, and one at least.)
    if (array.rank < 1 || array.rank > 5)
      throw invalid_request(name, "has " + std::to_string(array.rank) + " dimensions");
    call.tensors[name] = Tensor::borrow(array.data, Shape(array.shape, array.shape + array.rank),
                                        type_of(name, array.dtype));
  }
  Context ctx(threads);
  run_layout_call(ctx, call);
}

}  // namespace tandem::library
