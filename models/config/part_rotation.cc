#include "models/config/part_rotation.h"

#include <string>

namespace tandem {

PartRotation read_part_rotation(const ConfigReader& in, int head_dim, double part,
                                double own_part) {
  const nlohmann::json* own = in.find("rope_parameters");
  if (own == nullptr) own = in.find("rope_scaling");
  if (own != nullptr && !own->is_object()) in.fail("rope_parameters", "is not an object");
  const nlohmann::json none = nlohmann::json::object();
  const ConfigReader rope(in.file() + ": rope_parameters", own != nullptr ? *own : none);
  const char* type = rope.find("rope_type") ? "rope_type" : "type";
  if (rope.find(type) && rope.string(type) != "default")
    throw not_supported(rope.file() + ": " + type,
                        "is " + rope.show(*rope.find(type)) + ", which is not supported here");
  const auto holder = [&](const char* name) -> const ConfigReader& {
    return rope.find(name) ? rope : in;
  };
  const char* key = "partial_rotary_factor";
  if (holder(key).positive(key, 0.5f) > 1.0f) holder(key).fail(key, "is more than 1");
  const nlohmann::json* factor = holder(key).find(key);
  // (In doubles, as there: 0.9f * 40 is less than 36.)
  const auto dims = static_cast<int>(head_dim * (factor           ? factor->get<double>()
                                                 : own != nullptr ? own_part
                                                                  : part));
  if (dims < 1 || dims + dims % 2 > head_dim)
    holder(key).fail(key, "leaves " + std::to_string(dims) + " of " + std::to_string(head_dim) +
                              " elements of a head");
  return {dims, holder("rope_theta").positive("rope_theta", 1e4f)};
}

}  // namespace tandem
