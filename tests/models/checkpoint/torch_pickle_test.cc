#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>

#include "base/json.h"
#include "models/checkpoint/checkpoint.h"
#include "parallel/layers/element_types.h"
#include "tests/support/files/checkpoint_writer.h"
#include "tests/support/files/expect_error.h"
#include "tests/support/files/files.h"

namespace tandem::torch_pickle_test {
namespace {

using test::little_endian;
using test::torch_archive;
using test::zip;
using namespace test::pickled;  // NOLINT: the vocabulary of this test

// The tensors keep the file alive, as they keep a mapping.
std::vector<HostTensor> read(const std::string& file) {
  const auto owned = std::make_shared<const std::string>(file);
  return read_torch_pickle(reinterpret_cast<const std::byte*>(owned->data()), owned->size(),
                           "dir/pytorch_model.bin", owned);
}
// The tensors of a pickled object over storages "0", "1", ...
std::map<std::string, HostTensor> load(const std::string& object,
                                       const std::vector<std::string>& storages) {
  std::map<std::string, HostTensor> out;
  for (HostTensor& t : read(torch_archive(program(object), storages))) out[t.name] = t;
  return out;
}

std::string floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * 4};
}
std::vector<float> values(const HostTensor& t) {
  const Tensor f = to_float(t);
  return {f.data<float>(), f.data<float>() + f.size()};
}

const std::string kSix = floats({0, 1, 2, 3, 4, 5});
std::string six() { return storage("FloatStorage", "0", 6); }
std::string weight(int64_t offset, const std::vector<int64_t>& size,
                   const std::vector<int64_t>& stride) {
  return dict({{"w", tensor(six(), offset, size, stride)}});
}

TEST(TorchPickle, ReadsTensors) {
  const auto tensors =
      load(dict({{"a", tensor(six(), 0, {2, 3}, {3, 1})},
                 {"half", tensor(storage("HalfStorage", "1", 2), 1, {1}, {1})},
                 {"bf", tensor(storage("BFloat16Storage", "1", 2), 0, {1, 2}, {2, 1})},
                 {"scalar", tensor(six(), 5, {}, {})},
                 {"empty", tensor(six(), 0, {0, 3}, {3, 1})},
                 {"ids", tensor(storage("LongStorage", "2", 1), 0, {1}, {1})},
                 {"wide", tensor(storage("DoubleStorage", "2", 1), 0, {1}, {1})}}),
           {kSix, little_endian(0x3f80, 2) + little_endian(0x4000, 2), little_endian(7, 8)});
  ASSERT_EQ(tensors.size(), 7u);
  EXPECT_EQ(tensors.at("a").shape, (Shape{2, 3}));
  EXPECT_EQ(tensors.at("a").file, "dir/pytorch_model.bin");
  EXPECT_EQ(values(tensors.at("a")), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(values(tensors.at("half")), (std::vector<float>{2}));
  EXPECT_EQ(values(tensors.at("bf")), (std::vector<float>{1, 2}));
  EXPECT_EQ(values(tensors.at("scalar")), (std::vector<float>{5}));
  EXPECT_EQ(tensors.at("empty").bytes, 0u);
  EXPECT_EQ(tensors.at("ids").dtype, DType::kI64);
  EXPECT_EQ(tensors.at("wide").dtype_name(), "float64");
}

TEST(TorchPickle, ViewsThatAreNotContiguousAreCopied) {
  const auto tensors = load(dict({{"transposed", tensor(six(), 0, {3, 2}, {1, 3})},
                                  {"again", tensor(six(), 0, {3, 2}, {1, 3})},
                                  {"column", tensor(six(), 1, {2}, {3})},
                                  {"one", tensor(six(), 4, {1, 1}, {77, 99})}}),
                            {kSix});
  EXPECT_EQ(values(tensors.at("transposed")), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(values(tensors.at("column")), (std::vector<float>{1, 4}));
  EXPECT_EQ(values(tensors.at("one")), (std::vector<float>{4}));
  EXPECT_NE(tensors.at("transposed").keep_alive, nullptr);
  EXPECT_EQ(tensors.at("transposed").data, tensors.at("again").data);
}

TEST(TorchPickle, TiedTensorsShareTheirBytes) {
  // The second name fetches the first one's tensor from the memo, as torch.save() writes it.
  const std::string tied = tensor(six(), 0, {6}, {1}) + "q\x05";
  const auto tensors = load(dict({{"shared", tied}, {"head", "h\x05"}}), {kSix});
  EXPECT_EQ(tensors.at("shared").data, tensors.at("head").data);
}

TEST(TorchPickle, OrderedDictParametersAndStateDict) {
  const std::string parameter = call(global("torch._utils", "_rebuild_parameter"),
                                     tuple({tensor(six(), 0, {6}, {1}), "\x88", ordered_dict()}));
  // An OrderedDict with attributes (_metadata).
  const std::string state = "}" + string("_metadata") + ordered_dict() + "s";
  const std::string object = ordered_dict() + "(" + string("w") + parameter + "u" + state + "b";
  EXPECT_EQ(values(load(object, {kSix}).at("w")).size(), 6u);
  const auto inner = load(
      dict({{"epoch", "K\x03"}, {"lr", "G" + std::string(8, 0)}, {"state_dict", object}}), {kSix});
  EXPECT_EQ(inner.size(), 1u);
  const std::string size = call(global("torch", "Size"), tuple({integers({2, 3})}));
  const std::string sized =
      call(global("torch._utils", "_rebuild_tensor_v2"),
           tuple({six(), integer(0), size, integers({3, 1}), "\x89", ordered_dict()}));
  EXPECT_EQ(load(dict({{"w", sized}}), {kSix}).at("w").shape, (Shape{2, 3}));
}

TEST(TorchPickle, LaterProtocols) {
  const auto short_string = [](const std::string& s) {
    return "\x8c" + little_endian(s.size(), 1) + s;
  };
  const std::string rebuild =
      short_string("torch._utils") + short_string("_rebuild_tensor_v2") + "\x93\x94";
  const std::string type = short_string("torch") + short_string("FloatStorage") + "\x93";
  const std::string stored =
      "(" + short_string("storage") + type + short_string("0") + short_string("cpu") + "K\x06tQ";
  const std::string body = "}\x94(" + short_string("w") + rebuild + "(" + stored + "K" +
                           std::string(1, 0) + "K\x06\x85K\x01\x85\x89N" + "tRu.";
  const std::string file =
      torch_archive("\x80\x04\x95" + little_endian(body.size(), 8) + body, {kSix});
  const auto tensors = read(file);
  ASSERT_EQ(tensors.size(), 1u);
  EXPECT_EQ(values(tensors[0]), (std::vector<float>{0, 1, 2, 3, 4, 5}));
}

// Files that torch wrote, and what its tensors are in float32 (scripts/goldens/make_pickles.py).
TEST(TorchPickle, WhatTorchWrote) {
  const std::filesystem::path folder = test::test_root() / "tests/data/pickles";
  const nlohmann::json all = load_json(folder / "values.json");
  for (const char* file :
       {"zip.bin", "remarks.bin", "protocol-4.bin", "before-1.6.bin", "nested-before-1.6.bin"}) {
    const bool old = std::string_view(file).find("before") != std::string_view::npos;
    const auto tensors = read(test::read_file(folder / file));
    EXPECT_EQ(tensors.size(), all.size() - (old ? 5 : 0)) << file;
    for (const HostTensor& t : tensors) {
      ASSERT_TRUE(is_layer_type(t) || becomes_float(t)) << file << " " << t.name;
      const nlohmann::json& right = all.at(t.name);
      EXPECT_EQ(t.shape, right.at("shape").get<Shape>()) << file << " " << t.name;
      EXPECT_EQ(values(is_layer_type(t) ? t : as_float(t)),
                right.at("values").get<std::vector<float>>())
          << file << " " << t.name;
    }
  }
}

TEST(TorchPickleErrors, DamagedFilesFromBeforeZip) {
  const std::string good =
      test::read_file(test::test_root() / "tests/data/pickles" / "before-1.6.bin");
  for (size_t n = 0; n < good.size(); ++n)
    EXPECT_THROW(read(good.substr(0, n)), InputError) << "first " << n << " bytes";
  const auto patched = [&](std::string_view from, std::string_view to) {
    std::string bad = good;
    return bad.replace(bad.find(from), to.size(), to);
  };
  EXPECT_INPUT_ERROR(read(patched("little_endianq\x02\x88", "little_endianq\x02\x89")),
                     "big-endian");
  EXPECT_INPUT_ERROR(read(patched("M\xe9\x03", "M\xe8\x03")), "unknown version");
  EXPECT_INPUT_ERROR(read(patched("l\xfc\x9c", "l\xfc\x9d")), "torch.save() did not make");
  // Sizes of storages that the file does not have.
  const size_t storages = good.rfind("e.");
  for (const uint64_t count : {uint64_t{1} << 40, ~uint64_t{0}}) {
    std::string bad = good;
    bad.replace(storages + 2, 8, little_endian(count, 8));
    EXPECT_INPUT_ERROR(read(bad), "dir/pytorch_model.bin: storage \"", "the file ends before");
  }
}

TEST(TorchPickle, Zip64AndComments) {
  for (const test::ZipOptions& options :
       {test::ZipOptions{.zip64 = true}, test::ZipOptions{.comment = "PK\x05\x06 made by hand"}})
    EXPECT_EQ(read(torch_archive(program(weight(0, {6}, {1})), {kSix}, options)).size(), 1u);
}

TEST(TorchPickleErrors, RunsNoCode) {
  EXPECT_INPUT_ERROR(load(call(global("os", "system"), tuple({string("true")})), {}),
                     "dir/pytorch_model.bin", "refuses the global os.system", "no code is run");
  EXPECT_INPUT_ERROR(load(call(global("builtins", "eval"), tuple({string("1")})), {}),
                     "builtins.eval");
  EXPECT_INPUT_ERROR(load(global("torch", "load"), {}), "torch.load");
  EXPECT_INPUT_ERROR(load(global("torch._utils", "_rebuild_tensor_v2\x1b[2J"), {}), "\\x1b[2J");
  // The same by STACK_GLOBAL, INST, OBJ, NEWOBJ, an extension code, and a call of something else.
  EXPECT_INPUT_ERROR(load(string("os") + string("system") + "\x93", {}), "os.system");
  EXPECT_INPUT_ERROR(load("(ios\nsystem\n", {}), "opcode i is refused");
  EXPECT_INPUT_ERROR(load("(" + ordered_dict() + "o", {}), "opcode o is refused");
  EXPECT_INPUT_ERROR(load(global("collections", "OrderedDict") + ")\x81", {}), "\\x81 is refused");
  EXPECT_INPUT_ERROR(load("\x82\x01", {}), "\\x82 is refused");
  EXPECT_INPUT_ERROR(load(call(string("os.system"), ")"), {}), "refuses to call a string");
  EXPECT_INPUT_ERROR(load(call(global("torch", "FloatStorage"), ")"), {}),
                     "refuses to call FloatStorage");
  EXPECT_INPUT_ERROR(load(global("collections", "OrderedDict") + "}b", {}),
                     "refuses to set attributes of a global");
}

TEST(TorchPickleErrors, BombsAreBounded) {
  // Billion laughs: each list holds the one before ten times. Sharing keeps it small, and the
  // result is not a dict.
  std::string laughs("]q\0", 3);
  for (int level = 1; level < 200; ++level) {
    laughs += "](";
    for (int i = 0; i < 10; ++i) laughs.append("h").append(little_endian(level - 1, 1));
    laughs.append("eq").append(little_endian(level, 1));
  }
  EXPECT_INPUT_ERROR(load(laughs, {}), "contains a list, expected a dict");
  EXPECT_INPUT_ERROR(load(std::string(3'000'000, ']'), {}), "more than 2097152 values");
  EXPECT_INPUT_ERROR(load(std::string(3'000'000, '('), {}), "more than 2097152 marks");
  EXPECT_INPUT_ERROR(load("N" + std::string(3'000'000, '\x94'), {}), "memorised values");
  EXPECT_INPUT_ERROR(load("B" + little_endian(17 << 20, 4) + std::string(17 << 20, 'N'), {}),
                     "more than 16777216 bytes");
  // Nested a million deep: nothing recurses.
  EXPECT_INPUT_ERROR(load(std::string(1'000'000, ')') + std::string(999'999, '\x86'), {}),
                     "contains a tuple");
  // A list that contains itself.
  EXPECT_INPUT_ERROR(load(std::string("]q\x01h\x01") + "a", {}), "contains a list");
  EXPECT_INPUT_ERROR(load("\x8b" + little_endian(0xffffffff, 4), {}),
                     "integer of 4294967295 bytes");
  EXPECT_INPUT_ERROR(load("\x8a\x11" + std::string(17, 1), {}), "integer of 17 bytes");
  EXPECT_INPUT_ERROR(load("X" + little_endian(0xffffffff, 4), {}), "truncated");
  EXPECT_INPUT_ERROR(load("\x8d" + little_endian(~uint64_t{0}, 8), {}), "truncated");
}

TEST(TorchPickleErrors, MalformedPrograms) {
  EXPECT_INPUT_ERROR(read(torch_archive("", {})), "pickle, offset 0", "truncated");
  EXPECT_INPUT_ERROR(read(torch_archive("\x80\x02}", {})), "offset 3", "truncated");
  EXPECT_INPUT_ERROR(read(torch_archive("\x80\x06}.", {})), "protocol 6");
  for (const char* ops : {"0", "1", "2", "R", "b", "a", "s", "Q", "\x85", "}s", "}N", "(0R", "(]a"})
    EXPECT_THROW(load(std::string(ops) + "(", {}), InputError) << ops;
  EXPECT_INPUT_ERROR(load("}(Nu", {}), "a key without a value");
  EXPECT_INPUT_ERROR(load("NNa", {}), "expected a list, found a None");
  EXPECT_INPUT_ERROR(load("h\x07", {}), "nothing is memorised as 7");
  EXPECT_INPUT_ERROR(load("N(0u", {}), "no mark");
  EXPECT_INPUT_ERROR(load("NQ", {}), "persistent id that is not a storage");
  EXPECT_INPUT_ERROR(load("N", {}), "contains a None, expected a dict");
  EXPECT_INPUT_ERROR(load("}", {}), "contains no tensors");
  EXPECT_INPUT_ERROR(load(dict({{"epoch", "K\x03"}}), {}), "contains no tensors");
  EXPECT_INPUT_ERROR(load("}K\x01Ns", {}), "a tensor has a int for a name");
  EXPECT_INPUT_ERROR(
      load(dict({{"w", tensor(six(), 0, {6}, {1})}, {"w", tensor(six(), 0, {6}, {1})}}), {kSix}),
      "tensor \"w\": appears twice");
}

TEST(TorchPickleErrors, StoragesSizesAndStrides) {
  const auto refused = [](const std::string& object, const std::string& text) {
    return test::throws_input_error([&] { load(object, {kSix}); },
                                    {"dir/pytorch_model.bin", "tensor \"w\"", text});
  };
  const auto of = [](const std::string& stored) {
    return dict({{"w", tensor(stored, 0, {1}, {1})}});
  };
  constexpr int64_t kMax = INT64_MAX;
  EXPECT_TRUE(refused(of(storage("FloatStorage", "9", 6)), "model/data/9\" is missing"));
  EXPECT_TRUE(refused(of(storage("FloatStorage", "../byteorder", 1)), "is missing"));
  EXPECT_TRUE(refused(of(storage("FloatStorage", "0", 7)), "24 bytes, too few for 7"));
  EXPECT_TRUE(refused(of(storage("FloatStorage", "0", kMax)), "too few"));
  EXPECT_TRUE(refused(of(storage("FloatStorage", "0", -1)), "storage size is -1"));
  EXPECT_TRUE(refused(of("N"), "storage is a None"));
  EXPECT_TRUE(refused(weight(0, {7}, {1}), "beyond its storage of 6 elements"));
  EXPECT_TRUE(refused(weight(6, {1}, {1}), "beyond its storage"));
  EXPECT_TRUE(refused(weight(1, {2, 3}, {3, 1}), "beyond its storage"));
  EXPECT_TRUE(refused(weight(0, {2, 3}, {4, 1}), "beyond its storage"));
  EXPECT_TRUE(refused(weight(-1, {1}, {1}), "storage offset is -1"));
  EXPECT_TRUE(refused(weight(0, {-1}, {1}), "size is -1"));
  EXPECT_TRUE(refused(weight(0, {1}, {-1}), "stride is -1"));
  EXPECT_TRUE(refused(weight(0, {2, 3}, {3}), "2 dimensions and 1 strides"));
  EXPECT_TRUE(refused(weight(0, {kMax, kMax, kMax}, {1, 1, 1}), "beyond its storage"));
  EXPECT_TRUE(refused(weight(kMax, {kMax}, {kMax}), "beyond its storage"));
  EXPECT_TRUE(refused(weight(0, {kMax, 1, 1}, {0, 0, 0}), "9223372036854775807 elements over"));
  EXPECT_TRUE(refused(weight(0, {2, 6}, {0, 1}), "12 elements over a storage of 6"));
  EXPECT_TRUE(
      refused(weight(0, std::vector<int64_t>(17, 1), std::vector<int64_t>(17, 1)), "more than 16"));
}

TEST(TorchPickleErrors, ManyStridedViewsDoNotMultiplyTheFile) {
  const std::string big(1 << 16, 'x');
  std::vector<std::pair<std::string, std::string>> items;
  for (int i = 0; i < 2000; ++i)
    items.push_back({std::to_string(i), tensor(storage("ByteStorage", "0", 1 << 16), i % 100,
                                               {32, 1000 + i / 100}, {1, 32})});
  EXPECT_INPUT_ERROR(load(dict(items), {big}), "tensor \"", "too many views");
}

TEST(TorchPickleErrors, NotAnArchive) {
  EXPECT_INPUT_ERROR(read(""), "dir/pytorch_model.bin", "not a zip archive");
  EXPECT_INPUT_ERROR(read("version https://git-lfs.github.com/spec/v1\n"), "not a zip archive");
  EXPECT_INPUT_ERROR(read("\x80\x02K\x01."), "is a pickle that torch.save() did not make");
  EXPECT_INPUT_ERROR(read(std::string(257, 'x') + "ustar" + std::string(10, 'x')), "tar archive");
  const std::string good = torch_archive(program(weight(0, {6}, {1})), {kSix});
  ASSERT_EQ(read(good).size(), 1u);
  for (size_t n = 0; n < good.size(); ++n)
    EXPECT_THROW(read(good.substr(0, n)), InputError) << "first " << n << " bytes";
}

TEST(TorchPickleErrors, ArchivesThatTorchDidNotWrite) {
  const std::string pickle = program(weight(0, {6}, {1}));
  EXPECT_INPUT_ERROR(read(zip({{"a.txt", "x"}})), "no data.pkl");
  EXPECT_INPUT_ERROR(read(zip({{"a/data.pkl", pickle}, {"b/data.pkl", pickle}})), "two data.pkl");
  EXPECT_INPUT_ERROR(read(zip({{"a/data.pkl", pickle, 8}})), "entry \"a/data.pkl\"",
                     "compressed (method 8)");
  EXPECT_INPUT_ERROR(read(zip({{"a/data.pkl", pickle, 0, 1}})), "encrypted");
  EXPECT_INPUT_ERROR(read(zip({{"a/x", "1"}, {"a/x", "2"}})), "\"a/x\" appears twice");
  EXPECT_INPUT_ERROR(
      read(zip({{"a/data.pkl", pickle}, {"a/byteorder", "big"}, {"a/data/0", kSix}})),
      "byteorder is \"big\"");
}

TEST(TorchPickleErrors, LyingZipSizesAndOffsets) {
  const std::string good = torch_archive(program(weight(0, {6}, {1})), {kSix});
  const size_t directory = good.find("PK\x01\x02"), end = good.find("PK\x05\x06");
  const auto patched = [&](size_t at, uint64_t value, int bytes) {
    std::string bad = good;
    return bad.replace(at, static_cast<size_t>(bytes), little_endian(value, bytes));
  };
  EXPECT_INPUT_ERROR(read(patched(directory + 42, 0xfffffff0, 4)), "model/data.pkl",
                     "no header at offset");
  EXPECT_INPUT_ERROR(read(patched(directory + 42, 1, 4)), "no header at offset 1");
  std::string longer = patched(directory + 20, 0x7fffffff, 4);
  longer.replace(directory + 24, 4, little_endian(0x7fffffff, 4));
  EXPECT_INPUT_ERROR(read(longer), "model/data.pkl", "outside of the file");
  EXPECT_INPUT_ERROR(read(patched(directory + 20, 1, 4)), "is compressed");
  EXPECT_INPUT_ERROR(read(patched(end + 16, 0xfffffff0, 4)), "central directory");
  EXPECT_INPUT_ERROR(read(patched(end + 12, 0xfffffff0, 4)), "central directory");
  EXPECT_INPUT_ERROR(read(patched(end + 10, 0xffff, 2)), "65535 entries");
  EXPECT_INPUT_ERROR(read(patched(directory + 28, 0xffff, 2)), "damaged");
}

}  // namespace
}  // namespace tandem::torch_pickle_test
