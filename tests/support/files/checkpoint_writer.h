// Writers of the formats that models/ reads, byte by byte, so that tests can write what no honest
// program would.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem::test {

inline std::string little_endian(uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i, value >>= 8) out += static_cast<char>(value & 0xff);
  return out;
}

inline std::string safetensors(std::string_view header, std::string_view data) {
  return little_endian(header.size(), 8).append(header).append(data);
}

// --- Zip ---------------------------------------------------------------------------------------

struct ZipEntry {
  std::string name;
  std::string content;
  uint16_t method = 0;
  uint16_t flags = 0;
};

struct ZipOptions {
  bool zip64 = false;        // sizes and offsets in 64-bit fields
  std::string comment = {};  // at the end of the archive
};

inline std::string zip(const std::vector<ZipEntry>& entries, const ZipOptions& options = {}) {
  std::string out, directory;
  for (const ZipEntry& e : entries) {
    const uint64_t offset = out.size(), size = e.content.size();
    const std::string common = little_endian(e.flags, 2) + little_endian(e.method, 2) +
                               little_endian(0, 8);  // time, date, checksum
    // Sizes in the local header are zero, as streaming writers leave them.
    out += "PK\x03\x04" + little_endian(20, 2) + common + little_endian(0, 8) +
           little_endian(e.name.size(), 2) + little_endian(0, 2) + e.name + e.content;
    const std::string extra = options.zip64 ? little_endian(1, 2) + little_endian(24, 2) +
                                                  little_endian(size, 8) + little_endian(size, 8) +
                                                  little_endian(offset, 8)
                                            : "";
    const uint64_t field = options.zip64 ? 0xffffffff : size;
    directory += "PK\x01\x02" + little_endian(20, 2) + little_endian(20, 2) + common +
                 little_endian(field, 4) + little_endian(field, 4) +
                 little_endian(e.name.size(), 2) + little_endian(extra.size(), 2) +
                 little_endian(0, 10) +  // comment, disk, attributes
                 little_endian(options.zip64 ? 0xffffffff : offset, 4) + e.name + extra;
  }
  const uint64_t start = out.size(), size = directory.size(), count = entries.size();
  out += directory;
  if (options.zip64) {
    const uint64_t end = out.size();
    out += "PK\x06\x06" + little_endian(44, 8) + little_endian(45, 2) + little_endian(45, 2) +
           little_endian(0, 8) + little_endian(count, 8) + little_endian(count, 8) +
           little_endian(size, 8) + little_endian(start, 8);
    out += "PK\x06\x07" + little_endian(0, 4) + little_endian(end, 8) + little_endian(1, 4);
  }
  out += std::string("PK\x05\x06") + little_endian(0, 4) +
         little_endian(options.zip64 ? 0xffff : count, 2) +
         little_endian(options.zip64 ? 0xffff : count, 2) +
         little_endian(options.zip64 ? 0xffffffff : size, 4) +
         little_endian(options.zip64 ? 0xffffffff : start, 4) +
         little_endian(options.comment.size(), 2) + options.comment;
  return out;
}

// --- Pickle (protocol 2), as torch.save() writes it ----------------------------------------------

namespace pickled {

inline std::string string(std::string_view s) {
  return std::string("X").append(little_endian(s.size(), 4)).append(s);
}
inline std::string integer(int64_t v) {
  return std::string("\x8a\x08") + little_endian(static_cast<uint64_t>(v), 8);
}
inline std::string tuple(const std::vector<std::string>& items) {
  std::string out = "(";
  for (const std::string& i : items) out += i;
  return out + "t";
}
inline std::string integers(const std::vector<int64_t>& values) {
  std::vector<std::string> items;
  for (int64_t v : values) items.push_back(integer(v));
  return tuple(items);
}
inline std::string global(const std::string& module, const std::string& name) {
  return std::string("c").append(module).append("\n").append(name).append("\n");
}
inline std::string call(const std::string& callable, const std::string& arguments) {
  return callable + arguments + "R";
}
inline std::string ordered_dict() { return call(global("collections", "OrderedDict"), ")"); }
inline std::string storage(const std::string& type, const std::string& key, int64_t elements) {
  return tuple({string("storage"), global("torch", type), string(key), string("cpu"),
                integer(elements)}) +
         "Q";
}
inline std::string tensor(const std::string& storage, int64_t offset,
                          const std::vector<int64_t>& size, const std::vector<int64_t>& stride) {
  return call(
      global("torch._utils", "_rebuild_tensor_v2"),
      tuple({storage, integer(offset), integers(size), integers(stride), "\x89", ordered_dict()}));
}
// A whole pickle: an object with its protocol and its end.
inline std::string program(const std::string& object) { return "\x80\x02" + object + "."; }
inline std::string dict(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string out = "}(";
  for (const auto& [key, value] : items) out += string(key) + value;
  return out + "u";
}

}  // namespace pickled

// A torch.save() archive of a pickle and of storages "0", "1", ...
inline std::string torch_archive(const std::string& pickle,
                                 const std::vector<std::string>& storages,
                                 const ZipOptions& options = {}) {
  std::vector<ZipEntry> entries = {{"model/data.pkl", pickle}, {"model/byteorder", "little"}};
  for (size_t i = 0; i < storages.size(); ++i)
    entries.push_back({"model/data/" + std::to_string(i), storages[i]});
  entries.push_back({"model/version", "3\n"});
  return zip(entries, options);
}

}  // namespace tandem::test
