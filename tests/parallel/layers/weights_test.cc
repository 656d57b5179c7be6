#include "parallel/layers/weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/support/files/expect_error.h"

namespace tandem {
namespace {

// Tensors in memory, one byte off every alignment.
class FakeSource final : public WeightSource {
 public:
  template <class T>
  void add(const std::string& name, DType dtype, const Shape& shape, const std::vector<T>& values) {
    std::string& bytes = bytes_[name];
    bytes =
        "x" + std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
    HostTensor& t = tensors_[name];
    t.name = name;
    t.file = "dir/file.bin";
    t.data = reinterpret_cast<const std::byte*>(bytes.data()) + 1;
    t.dtype = dtype;
    t.shape = shape;
    t.bytes = values.size() * sizeof(T);
  }
  HostTensor& operator[](const std::string& name) { return tensors_.at(name); }
  const HostTensor* find(const std::string& name) override {
    asked.insert(name);
    const auto it = tensors_.find(name);
    return it == tensors_.end() ? nullptr : &it->second;
  }
  std::string location() const override { return "dir"; }

  std::set<std::string> asked;

 private:
  std::map<std::string, std::string> bytes_;
  std::map<std::string, HostTensor> tensors_;
};

TEST(Weights, ScopesJoinWithDots) {
  FakeSource source;
  const Weights w(source);
  EXPECT_EQ(w.scope(), "");
  EXPECT_EQ((w / "model").scope(), "model");
  EXPECT_EQ((w / "model" / "layers" / 3 / "fc1").scope(), "model.layers.3.fc1");
  source.add<float>("model.layers.3.fc1.weight", DType::kF32, {2, 1}, {1, 2});
  EXPECT_EQ((w / "model" / "layers" / 3 / "fc1").get("weight", {2, 1}).name,
            "model.layers.3.fc1.weight");
  EXPECT_EQ(source.asked, (std::set<std::string>{"model.layers.3.fc1.weight"}));
}

TEST(Weights, MissingTensors) {
  FakeSource source;
  const Weights w = Weights(source) / "a";
  EXPECT_FALSE(w.find("bias", {1}).has_value());
  EXPECT_INPUT_ERROR(w.get("bias", {1}), "dir: ", "tensor a.bias is missing");
}

TEST(Weights, WrongShapes) {
  FakeSource source;
  source.add<float>("w", DType::kF32, {2, 3}, {1, 2, 3, 4, 5, 6});
  const Weights w(source);
  EXPECT_NO_THROW(w.get("w", {2, 3}));
  for (const Shape& shape : {Shape{3, 2}, Shape{6}, Shape{2, 3, 1}, Shape{}, Shape{2, 4}})
    EXPECT_INPUT_ERROR(w.get("w", shape), "dir/file.bin: tensor w has shape [2, 3]",
                       "needs " + to_string(shape));
  EXPECT_INPUT_ERROR(w.find("w", {6}), "tensor w has shape [2, 3]");
}

// As Tensor.to(torch.float32) makes them (torch 2.15).
TEST(Weights, NumbersOfOtherTypesBecomeFloats) {
  FakeSource source;
  const double inf = std::numeric_limits<double>::infinity();
  source.add<double>("float64", DType::kU8, {2, 3},
                     {0.1, -1e-46, 3.4028235677973366e38, -1e300, 3.40282356e38, -inf});
  source.add<uint8_t>("float8_e4m3fn", DType::kU8, {5}, {0x00, 0x01, 0xb8, 0x7e, 0x87});
  source.add<uint8_t>("float8_e5m2", DType::kU8, {5}, {0x00, 0x01, 0xbc, 0x7b, 0xfc});
  source.add<int8_t>("int8", DType::kU8, {2}, {-128, 127});
  source.add<int16_t>("int16", DType::kU8, {1}, {-32768});
  source.add<uint16_t>("uint16", DType::kU8, {1}, {65535});
  source.add<uint32_t>("uint32", DType::kU8, {1}, {4294967295});
  source.add<uint64_t>("uint64", DType::kU8, {1}, {18446744073709551615u});
  for (const char* name :
       {"float64", "float8_e4m3fn", "float8_e5m2", "int8", "int16", "uint16", "uint32", "uint64"})
    source[name].foreign_dtype = name;
  source.add<int64_t>("int64", DType::kI64, {2}, {16777217, -5});
  source.add<int32_t>("int32", DType::kI32, {1}, {-7});
  source.add<uint8_t>("bool", DType::kU8, {2}, {0, 1});
  const Weights w(source);
  const auto values = [&](const char* name, const Shape& shape) {
    const HostTensor t = w.get(name, shape);
    EXPECT_EQ(t.dtype, DType::kF32) << name;
    EXPECT_EQ(t.dtype_name(), "float32") << name;
    const Tensor f = to_float(t);
    return std::vector<float>(f.data<float>(), f.data<float>() + f.size());
  };
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(values("float64", {2, 3}),
            (std::vector<float>{0.1f, -0.0f, infinity, -infinity, 3.4028235e38f, -infinity}));
  EXPECT_EQ(values("float8_e4m3fn", {5}),
            (std::vector<float>{0, 0.001953125f, -1, 448, -0.013671875f}));
  EXPECT_EQ(values("float8_e5m2", {5}),
            (std::vector<float>{0, 1.52587890625e-05f, -1, 57344, -infinity}));
  EXPECT_EQ(values("int8", {2}), (std::vector<float>{-128, 127}));
  EXPECT_EQ(values("int16", {1}), (std::vector<float>{-32768}));
  EXPECT_EQ(values("uint16", {1}), (std::vector<float>{65535}));
  EXPECT_EQ(values("uint32", {1}), (std::vector<float>{4294967296.0f}));
  EXPECT_EQ(values("uint64", {1}), (std::vector<float>{18446744073709551616.0f}));
  EXPECT_EQ(values("int64", {2}), (std::vector<float>{16777216, -5}));
  EXPECT_EQ(values("int32", {1}), (std::vector<float>{-7}));
  EXPECT_EQ(values("bool", {2}), (std::vector<float>{0, 1}));
}

TEST(Weights, AreConvertedOnceForAllWhoKeepThem) {
  FakeSource source;
  source.add<double>("a", DType::kU8, {2}, {1, 2});
  source["a"].foreign_dtype = "float64";
  const Weights w(source);
  const HostTensor first = w.get("a", {2}), second = w.get("a", {2});
  EXPECT_EQ(first.data, second.data);
}

TEST(Weights, TypesWithoutNumbersAreRefused) {
  FakeSource source;
  source.add<uint8_t>("w", DType::kU8, {1}, {0});
  for (const char* name : {"complex64", "float4", "float8_e8m0fnu"}) {
    source["w"].foreign_dtype = name;
    EXPECT_INPUT_ERROR(Weights(source).get("w", {1}),
                       "dir/file.bin: tensor w has type " + std::string(name));
  }
}

TEST(ToFloat, WidensExactly) {
  FakeSource source;
  const float inf = std::numeric_limits<float>::infinity();
  source.add<float>("f32", DType::kF32, {3}, {1.5f, -inf, 1e-40f});
  source.add<uint16_t>("bf16", DType::kBF16, {4}, {0x3fc0, 0xff80, 0x0001, 0x8000});
  source.add<uint16_t>("f16", DType::kF16, {6}, {0x3e00, 0xfc00, 0x0001, 0x8000, 0x7bff, 0x83ff});
  Tensor t = to_float(source["f32"]);
  EXPECT_EQ(t.data<float>()[0], 1.5f);
  EXPECT_EQ(t.data<float>()[1], -inf);
  EXPECT_EQ(t.data<float>()[2], 1e-40f);
  t = to_float(source["bf16"]);
  EXPECT_EQ(t.data<float>()[0], 1.5f);
  EXPECT_EQ(t.data<float>()[1], -inf);
  EXPECT_EQ(t.data<float>()[2], std::ldexp(1.0f, -133));
  EXPECT_TRUE(std::signbit(t.data<float>()[3]));
  t = to_float(source["f16"]);
  EXPECT_EQ(t.data<float>()[0], 1.5f);
  EXPECT_EQ(t.data<float>()[1], -inf);
  EXPECT_EQ(t.data<float>()[2], std::ldexp(1.0f, -24));
  EXPECT_TRUE(std::signbit(t.data<float>()[3]));
  EXPECT_EQ(t.data<float>()[4], 65504.0f);
  EXPECT_EQ(t.data<float>()[5], -std::ldexp(1023.0f, -24));
}

TEST(ToFloat, Ranges) {
  FakeSource source;
  source.add<float>("f32", DType::kF32, {2, 2}, {1, 2, 3, 4});
  source.add<uint16_t>("bf16", DType::kBF16, {3}, {0x3f80, 0x4000, 0x4040});
  const Tensor a = to_float(source["f32"], 1, 2);
  ASSERT_EQ(a.shape(), (Shape{2}));
  EXPECT_EQ(a.data<float>()[0], 2.0f);
  EXPECT_EQ(a.data<float>()[1], 3.0f);
  const Tensor b = to_float(source["bf16"], 2, 1);
  EXPECT_EQ(b.data<float>()[0], 3.0f);
  EXPECT_EQ(to_float(source["bf16"], 3, 0).size(), 0);
}

}  // namespace
}  // namespace tandem
