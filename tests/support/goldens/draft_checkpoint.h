// Checkpoints that make drafts for a golden one: it again, with fewer layers or other weights.
#pragma once

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/json.h"
#include "tests/support/files/checkpoint_writer.h"
#include "tests/support/files/files.h"
#include "tests/support/goldens/goldens.h"

namespace tandem::testing {

struct DraftCheckpoint {
  // Whether a tensor is left out; by default none.
  std::function<bool(const std::string& name)> drops = {};
  // Whether a tensor of f32 has its signs turned.
  std::function<bool(const std::string& name)> turns = {};
  // Further tensors of f32: copies of those of the golden one, with their signs turned or not.
  struct Copy {
    std::string of;
    bool turned = false;
  };
  std::map<std::string, Copy> copies = {};
  nlohmann::json config = nlohmann::json::object();  // put over config.json

  void write(const std::string& golden, const test::TempDir& dir) const {
    using nlohmann::json;
    for (const auto& file : std::filesystem::directory_iterator(golden_dir(golden)))
      if (const std::string name = file.path().filename().string();
          file.is_regular_file() && name != "model.safetensors" && !name.starts_with("golden"))
        dir.write(name, test::read_file(file.path()));
    json sizes = json_from<json>(test::read_file(dir / "config.json"));
    sizes.update(config);
    dir.write("config.json", sizes.dump());
    const std::string content = test::read_file(golden_dir(golden) / "model.safetensors");
    uint64_t length = 0;
    std::memcpy(&length, content.data(), 8);
    const json header = json_from<json>(content.substr(8, length));
    json out;
    std::string data;
    const auto add = [&](const std::string& name, const json& tensor, bool turned) {
      const size_t begin = tensor["data_offsets"][0], end = tensor["data_offsets"][1];
      std::string bytes = content.substr(8 + length + begin, end - begin);
      for (size_t i = 3; turned && i < bytes.size(); i += 4)
        bytes[i] = static_cast<char>(bytes[i] ^ 0x80);
      out[name] = tensor;
      out[name]["data_offsets"] = {data.size(), data.size() + bytes.size()};
      data += bytes;
    };
    for (const auto& [name, tensor] : header.items())
      if (name != "__metadata__" && !(drops && drops(name)))
        add(name, tensor, turns && turns(name));
    for (const auto& [name, copy] : copies) add(name, header.at(copy.of), copy.turned);
    dir.write("model.safetensors", test::safetensors(out.dump(), data));
  }
};

}  // namespace tandem::testing
