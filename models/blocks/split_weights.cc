#include "models/blocks/split_weights.h"

#include <iterator>
#include <string_view>

#include "base/error.h"

namespace tandem {

const HostTensor* SplitWeights::find(const std::string& name) {
  constexpr std::string_view kParts[] = {".q", ".k", ".v"};
  for (size_t part = 0; part < std::size(kParts); ++part)
    for (const char* kind : {".weight", ".bias"}) {
      const std::string ending = std::string(kParts[part]) + kind;
      if (!name.ends_with(ending)) continue;
      const HostTensor* whole =
          file_.find(name.substr(0, name.size() - ending.size()) + ".qkv" + kind);
      return whole == nullptr ? nullptr : third(*whole, part, name);
    }
  return file_.find(name);
}

const HostTensor* SplitWeights::third(const HostTensor& whole, size_t part,
                                      const std::string& name) {
  if (whole.shape.empty() || whole.shape[0] % 3 != 0)
    throw invalid_model(whole.file, "tensor " + whole.name + " has shape " +
                                        to_string(whole.shape) + ", expected three equal parts");
  found_ = in_layer_type(whole);
  found_.name = name;
  found_.shape[0] /= 3;
  found_.bytes /= 3;
  found_.data += part * found_.bytes;
  return &found_;
}

}  // namespace tandem
