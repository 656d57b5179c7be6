#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>

#include "models/checkpoint/checkpoint.h"
#include "tests/support/files/checkpoint_writer.h"
#include "tests/support/files/expect_error.h"

namespace tandem::safetensors_test {
namespace {

using test::little_endian;
using test::safetensors;

// The tensors keep the file alive, as they keep a mapping.
std::vector<HostTensor> read(const std::string& file) {
  const auto owned = std::make_shared<const std::string>(file);
  return read_safetensors(reinterpret_cast<const std::byte*>(owned->data()), owned->size(),
                          "dir/x.safetensors", owned);
}

std::map<std::string, HostTensor> by_name(const std::string& file) {
  std::map<std::string, HostTensor> out;
  for (HostTensor& t : read(file)) out[t.name] = t;
  return out;
}

// One tensor "w" with that description, over `bytes` of data.
std::string one(const std::string& description, size_t bytes) {
  return safetensors("{\"w\":{" + description + "}}", std::string(bytes, 'x'));
}

TEST(Safetensors, ReadsNamesTypesShapesAndData) {
  std::string data;
  for (float f : {1.0f, -2.0f, 0.5f}) data.append(reinterpret_cast<const char*>(&f), 4);
  data += little_endian(0x3f80, 2) + little_endian(0x3c00, 2) + little_endian(7, 8) + "\x01";
  // Entries stand in any order; padding and a byte of misalignment are legal.
  const auto tensors = by_name(safetensors(
      R"({"__metadata__":{"format":"pt"},
          "flag":{"dtype":"BOOL","shape":[1],"data_offsets":[24,25]},
          "a.b":{"dtype":"F32","shape":[3,1],"data_offsets":[0,12]},
          "bf":{"shape":[],"dtype":"BF16","data_offsets":[12,14]},
          "h":{"data_offsets":[14,16],"dtype":"F16","shape":[1,1,1]},
          "ids":{"dtype":"I64","shape":[1],"data_offsets":[16,24]},
          "none":{"dtype":"F32","shape":[0,5],"data_offsets":[25,25]}}   )",
      data));
  ASSERT_EQ(tensors.size(), 6u);
  const HostTensor& a = tensors.at("a.b");
  EXPECT_EQ(a.shape, (Shape{3, 1}));
  EXPECT_EQ(a.dtype, DType::kF32);
  EXPECT_EQ(a.file, "dir/x.safetensors");
  EXPECT_EQ(a.bytes, 12u);
  EXPECT_EQ(to_float(a).data<float>()[1], -2.0f);
  EXPECT_EQ(to_float(tensors.at("bf")).data<float>()[0], 1.0f);
  EXPECT_EQ(to_float(tensors.at("h")).data<float>()[0], 1.0f);
  EXPECT_EQ(tensors.at("bf").shape, Shape{});
  EXPECT_EQ(tensors.at("ids").dtype, DType::kI64);
  EXPECT_EQ(tensors.at("flag").dtype, DType::kU8);
  EXPECT_EQ(tensors.at("none").bytes, 0u);
}

TEST(Safetensors, AnEmptyFileOfTensorsIsLegal) {
  EXPECT_TRUE(read(safetensors("{}      ", "")).empty());
  EXPECT_TRUE(read(safetensors(R"({"__metadata__":null})", "")).empty());
}

TEST(Safetensors, NamesOtherTypesAsTorch) {
  const auto tensors = by_name(safetensors(
      R"({"d":{"dtype":"F64","shape":[2],"data_offsets":[0,16]},
          "q":{"dtype":"F4","shape":[2,3],"data_offsets":[16,19]}})",
      std::string(19, 0)));
  EXPECT_EQ(tensors.at("d").dtype_name(), "float64");
  EXPECT_EQ(tensors.at("q").foreign_dtype, "float4");
}

TEST(Safetensors, IgnoresFieldsThatItDoesNotKnow) {
  const auto tensors =
      by_name(one(R"("extra":{"a":[1,{"b":null}],"dtype":"F16"},"dtype":"U8","x":-1.5,"shape":[2],)"
                  R"("data_offsets":[0,2])",
                  2));
  EXPECT_EQ(tensors.at("w").dtype, DType::kU8);
}

TEST(SafetensorsErrors, FileAndHeaderSize) {
  EXPECT_INPUT_ERROR(read(""), "dir/x.safetensors", "0 bytes");
  EXPECT_INPUT_ERROR(read("1234567"), "7 bytes, too short");
  EXPECT_INPUT_ERROR(read(little_endian(3, 8) + "{}"), "header of 3 bytes", "file has 10",
                     "truncated");
  EXPECT_INPUT_ERROR(read(little_endian(100'000'001, 8) + "{}"), "header of 100000001 bytes");
  EXPECT_INPUT_ERROR(read(little_endian(~uint64_t{0}, 8) + "{}"),
                     "header of 18446744073709551615 bytes");
  EXPECT_INPUT_ERROR(read(little_endian(0, 8)), "does not begin with {");
}

TEST(SafetensorsErrors, HeaderIsNotAnObjectOfTensors) {
  EXPECT_INPUT_ERROR(read(safetensors("[]", "")), "dir/x.safetensors", "does not begin with {");
  EXPECT_INPUT_ERROR(read(safetensors(" {}", "")), "does not begin with {");
  EXPECT_INPUT_ERROR(read(safetensors("{\"a\":\n x}", "")), "malformed JSON", "line 2, column 2");
  EXPECT_INPUT_ERROR(read(safetensors("{} {}", "")), "malformed JSON");
  EXPECT_INPUT_ERROR(read(safetensors(std::string("{}\0\0", 4), "")), "NUL");
  EXPECT_INPUT_ERROR(read(safetensors("{\"w\xff\":{}}", "")), "malformed JSON", "UTF-8");
  EXPECT_INPUT_ERROR(read(safetensors(R"({"w":[1]})", "")), "tensor \"w\"", "is an array");
  EXPECT_INPUT_ERROR(read(safetensors(R"({"w":3})", "")), "tensor \"w\"", "is a number");
  EXPECT_INPUT_ERROR(read(safetensors(R"({"__metadata__":{"a":1}})", "")), "__metadata__",
                     "a number");
  EXPECT_INPUT_ERROR(read(safetensors(R"({"__metadata__":{"a":{"b":"c"}}})", "")), "__metadata__");
}

TEST(SafetensorsErrors, DepthBombs) {
  const std::string deep(1'000'000, '[');
  EXPECT_INPUT_ERROR(read(safetensors("{\"w\":{\"shape\":" + deep, "")), "tensor \"w\"",
                     "shape contains an array");
  EXPECT_INPUT_ERROR(read(safetensors("{\"w\":{\"later\":" + deep, "")), "tensor \"w\"",
                     "nested too deep");
  std::string objects = "{\"w\":{\"later\":";
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_INPUT_ERROR(read(safetensors(objects, "")), "nested too deep");
}

TEST(SafetensorsErrors, Duplicates) {
  EXPECT_INPUT_ERROR(read(safetensors(R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},
                           "w":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                                      "xx")),
                     "dir/x.safetensors", "tensor \"w\"", "appears twice");
  EXPECT_INPUT_ERROR(read(one(R"("dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1])", 1)),
                     "tensor \"w\"", "dtype appears twice");
  EXPECT_INPUT_ERROR(read(one(R"("dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1])", 1)),
                     "tensor \"w\"", "shape appears twice");
}

TEST(SafetensorsErrors, Fields) {
  EXPECT_INPUT_ERROR(read(one(R"("shape":[1],"data_offsets":[0,1])", 1)), "tensor \"w\"",
                     "dtype is missing");
  EXPECT_INPUT_ERROR(read(one(R"("dtype":"U8","data_offsets":[0,1])", 1)), "shape is missing");
  EXPECT_INPUT_ERROR(read(one(R"("dtype":"U8","shape":[1])", 1)), "data_offsets is missing");
  EXPECT_INPUT_ERROR(read(one(R"("dtype":"F33","shape":[1],"data_offsets":[0,4])", 4)),
                     "dir/x.safetensors", "tensor \"w\"", "unknown dtype \"F33\"");
  EXPECT_INPUT_ERROR(read(one(R"("dtype":5,"shape":[1],"data_offsets":[0,4])", 4)),
                     "dtype is a number");
  EXPECT_INPUT_ERROR(read(one(R"("dtype":"U8","shape":4,"data_offsets":[0,4])", 4)),
                     "shape is a number");
  EXPECT_INPUT_ERROR(read(one(R"("dtype":"U8","shape":[-4],"data_offsets":[0,4])", 4)),
                     "tensor \"w\"", "shape has the negative value -4");
  EXPECT_INPUT_ERROR(read(one(R"("dtype":"U8","shape":[4.0],"data_offsets":[0,4])", 4)),
                     "shape contains a fraction");
  EXPECT_INPUT_ERROR(read(one(R"("dtype":"U8","shape":["4"],"data_offsets":[0,4])", 4)),
                     "shape contains a string");
  EXPECT_INPUT_ERROR(
      read(one(R"("dtype":"U8","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"data_offsets":[0,1])",
               1)),
      "shape has more than 16");
  EXPECT_INPUT_ERROR(read(one(R"("dtype":"U8","shape":[4],"data_offsets":[0])", 4)),
                     "data_offsets has 1 values");
  EXPECT_INPUT_ERROR(read(one(R"("dtype":"U8","shape":[4],"data_offsets":[0,2,4])", 4)),
                     "data_offsets has 3 values");
  EXPECT_INPUT_ERROR(read(one(R"("dtype":"U8","shape":[4],"data_offsets":[0,"4"])", 4)),
                     "data_offsets contains a string");
}

TEST(SafetensorsErrors, SizesThatOverflow) {
  EXPECT_INPUT_ERROR(
      read(one(R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0])", 0)),
      "tensor \"w\"", "shape [4294967296, 4294967296]");
  EXPECT_INPUT_ERROR(
      read(one(R"("dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0])", 0)),
      "tensor \"w\"");
  EXPECT_INPUT_ERROR(
      read(one(R"("dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,0])", 0)),
      "tensor \"w\"");
  // Beyond 64 bits a number is a fraction to the parser.
  EXPECT_INPUT_ERROR(
      read(one(R"("dtype":"U8","shape":[99999999999999999999],"data_offsets":[0,0])", 0)),
      "tensor \"w\"");
  EXPECT_INPUT_ERROR(read(one(R"("dtype":"F4","shape":[1],"data_offsets":[0,1])", 1)),
                     "do not fit dtype F4");
}

TEST(SafetensorsErrors, Offsets) {
  EXPECT_INPUT_ERROR(read(one(R"("dtype":"U8","shape":[4],"data_offsets":[4,0])", 4)),
                     "tensor \"w\"", "end before they begin");
  EXPECT_INPUT_ERROR(read(one(R"("dtype":"U8","shape":[8],"data_offsets":[0,8])", 4)),
                     "dir/x.safetensors", "tensor \"w\"", "[0, 8]", "outside of the data of 4");
  EXPECT_INPUT_ERROR(
      read(one(
          R"("dtype":"U8","shape":[1],"data_offsets":[18446744073709551614,18446744073709551615])",
          4)),
      "outside of the data");
  EXPECT_INPUT_ERROR(read(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])", 4)),
                     "do not fit dtype F32 and shape [2] (8 bytes)");
  EXPECT_INPUT_ERROR(read(one(R"("dtype":"U8","shape":[3],"data_offsets":[1,4])", 4)),
                     "tensor \"w\"", "hole behind byte 0");
  EXPECT_INPUT_ERROR(read(one(R"("dtype":"U8","shape":[3],"data_offsets":[0,3])", 4)),
                     "dir/x.safetensors", "1 bytes behind the last tensor");
  EXPECT_INPUT_ERROR(read(safetensors(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},
                           "b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
                                      "xxxx")),
                     "tensor \"b\"", "overlap");
  EXPECT_INPUT_ERROR(read(safetensors(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},
                           "b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
                                      "xxxx")),
                     "tensor \"b\"", "hole behind byte 1");
}

TEST(SafetensorsErrors, HostileNamesDoNotReachTheTerminal) {
  try {
    read(safetensors("{\"\\u001b[2J" + std::string(5000, 'n') + "\":1}", ""));
    FAIL() << "no error";
  } catch (const InputError& e) {
    const std::string message = e.what();
    EXPECT_NE(message.find("\\x1b[2J"), std::string::npos) << message;
    EXPECT_EQ(message.find('\x1b'), std::string::npos);
    EXPECT_LT(message.size(), 500u);
  }
}

// Every prefix of a good file is refused, and no single changed byte of its header makes the reader
// leave the file.
TEST(SafetensorsErrors, EveryTruncationAndEveryByte) {
  const std::string good = safetensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                                       R"("b":{"dtype":"U8","shape":[4],"data_offsets":[8,12]}})",
                                       "abcdefghijkl");
  ASSERT_EQ(read(good).size(), 2u);
  for (size_t n = 0; n < good.size(); ++n)
    EXPECT_THROW(read(good.substr(0, n)), InputError) << "first " << n << " bytes";
  for (size_t i = 0; i + 12 < good.size(); ++i) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string bad = good;
      bad[i] = static_cast<char>(byte);
      try {
        for (const HostTensor& t : read(bad)) {
          const auto* file = static_cast<const std::string*>(t.keep_alive.get());
          const auto* begin = reinterpret_cast<const std::byte*>(file->data());
          ASSERT_GE(t.data, begin);
          ASSERT_LE(t.data + t.bytes, begin + file->size());
        }
      } catch (const InputError& e) {
        EXPECT_NE(std::string(e.what()).find("dir/x.safetensors"), std::string::npos);
      }
    }
  }
}

}  // namespace
}  // namespace tandem::safetensors_test
