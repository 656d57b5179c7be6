// PyTorch's answers for all layouts, and descriptors that are to be refused: tests/data/layouts.
#include <set>

#include "base/error.h"
#include "tests/kernels/layouts/layout_files.h"
#include "tests/kernels/layouts/random_layouts.h"

namespace tandem::layout_goldens_test {
namespace {

using testing::close_to;
using testing::LayoutCase;
using testing::RandomLayouts;

constexpr double kAllowed = 5e-6;
const std::string kAfter = "_after";

Tensor like(const Tensor& t) {
  return t.dtype() == DType::kF32 ? RandomLayouts::unwritten(t.shape())
                                  : Tensor::zeros(t.shape(), t.dtype());
}

void expect_same(const Tensor& got, const Tensor& want, const std::string& what) {
  if (want.dtype() == DType::kF32) {
    EXPECT_TRUE(close_to(got, want, kAllowed)) << what;
  } else {
    ASSERT_EQ(got.bytes(), want.bytes()) << what;
    EXPECT_EQ(std::memcmp(got.raw(), want.raw(), want.bytes()), 0) << what;
  }
}

// The outputs named there: those of a cache after appending are the cache itself.
void run_case(LayoutCase one) {
  Context ctx(2);
  LayoutCall& call = one.call;
  for (const auto& [name, want] : one.expected) {
    if (name.ends_with(kAfter)) continue;
    if (name.starts_with("level")) continue;  // see run_levels()
    call.tensors[name] = like(want);
  }
  run_layout_call(ctx, call);
  for (const auto& [name, want] : one.expected) {
    if (name.starts_with("level")) continue;
    const bool after = name.ends_with(kAfter);
    expect_same(call.tensors.at(after ? name.substr(0, name.size() - kAfter.size()) : name), want,
                one.name + " " + name);
  }
}

// Each level of a cascade, as attention over its pages.
void run_levels(const LayoutCase& one, int64_t levels) {
  for (int64_t i = 0; i < levels; ++i) {
    const std::string prefix = "level" + std::to_string(i) + ".";
    LayoutCase level;
    level.name = one.name + " " + prefix;
    level.call.op = "attention_paged";
    level.call.layout = one.call.layout;
    level.call.sm_scale = one.call.sm_scale;
    level.call.causal = one.call.causal && i + 1 == levels;
    for (const auto& [name, tensor] : one.call.tensors) {
      if (name.starts_with(prefix)) level.call.tensors[name.substr(prefix.size())] = tensor;
      if (!name.starts_with("level")) level.call.tensors[name] = tensor;
    }
    for (const char* name : {"out", "lse"}) level.expected[name] = one.expected.at(prefix + name);
    run_case(level);
  }
}

class LayoutGoldensTest : public testing::IsaTest {};
TANDEM_FOR_EACH_ISA(LayoutGoldensTest);

TEST_P(LayoutGoldensTest, AllCasesHavePyTorchsAnswers) {
  std::set<std::string> ops;
  size_t count = 0;
  for (const char* stem : {"ragged", "masks", "paged", "append", "mla", "cascade"})
    for (const LayoutCase& one : testing::layout_cases(stem)) {
      ops.insert(one.call.op);
      ++count;
      if (one.call.op == "attention_cascade")
        run_levels(one, static_cast<int64_t>((one.expected.size() - 2) / 2));
      run_case(one);
    }
  EXPECT_EQ(ops.size(), 10u);  // all of kernels/layouts/layout_call.h
  EXPECT_GE(count, 20u);
}

// A tensor of a descriptor: by its values, or by its shape alone. A huge one has no memory.
Tensor described(const nlohmann::json& entry) {
  static float nothing = 0;
  const std::string type = entry.at("dtype");
  const DType dtype = type == "int64"     ? DType::kI64
                      : type == "int32"   ? DType::kI32
                      : type == "float32" ? DType::kF32
                                          : DType::kU8;
  if (!entry.contains("values")) {
    const Shape shape = entry.at("shape");
    const Tensor t = Tensor::borrow(&nothing, shape, dtype);
    return t.size() > (1 << 20) ? t : Tensor::zeros(shape, dtype);
  }
  const std::vector<int64_t> values = entry.at("values");
  const Tensor t({static_cast<int64_t>(values.size())}, dtype);
  for (size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::kI64)
      t.data<int64_t>()[i] = values[i];
    else
      t.data<int32_t>()[i] = static_cast<int32_t>(values[i]);
  }
  return t;
}

LayoutCall described_call(const nlohmann::json& entry) {
  LayoutCall call;
  call.op = entry.at("op");
  call.sm_scale = 1.0f;
  testing::set_attributes(entry.value("attributes", nlohmann::json::object()), call);
  for (const auto& [name, tensor] : entry.at("arguments").items())
    call.tensors[name] = described(tensor);
  if (!call.op.starts_with("append")) {
    const Tensor& q = call.tensors.at(call.op == "attention_mla" ? "q_nope" : "q");
    static float nothing = 0;
    call.tensors["out"] = q.size() > (1 << 20) ? Tensor::borrow(&nothing, q.shape(), q.dtype())
                                               : Tensor::zeros(q.shape(), q.dtype());
  }
  return call;
}

TEST(LayoutDescriptors, InvalidOnesAreRefusedByName) {
  Context ctx(1);
  const auto file = load_json(testing::layout_folder() / "invalid.json");
  for (const auto& entry : file.at("valid"))
    EXPECT_NO_THROW(run_layout_call(ctx, described_call(entry))) << entry.at("op");
  for (const auto& entry : file.at("cases")) {
    std::vector<std::string> names = entry.at("alternatives");
    names.push_back(entry.at("wrong"));
    try {
      run_layout_call(ctx, described_call(entry));
      ADD_FAILURE() << entry.at("name") << " was taken: " << entry.at("why");
    } catch (const InputError& error) {
      EXPECT_NE(std::find(names.begin(), names.end(), error.param()), names.end())
          << entry.at("name") << ": " << entry.at("why") << "; the answer: " << error.what();
      EXPECT_TRUE(std::string(error.what()).starts_with(error.param() + ": ")) << error.what();
    }
  }
  EXPECT_GE(file.at("cases").size(), 30u);
}

// The message of what is wrong in a valid call with one tensor exchanged.
std::string refusal_of(LayoutCall call, const std::string& name, const Tensor& wrong) {
  Context ctx(1);
  call.tensors[name] = wrong;
  try {
    run_layout_call(ctx, call);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(LayoutDescriptors, MessagesHaveTheIndex) {
  using testing::indices;
  const auto valid = load_json(testing::layout_folder() / "invalid.json").at("valid");
  const LayoutCall paged = described_call(valid.at(1)), append = described_call(valid.at(2));
  EXPECT_EQ(refusal_of(paged, "qo_indptr", indices({0, 2, 1})),
            "qo_indptr: falls from 2 to 1 at index 2");
  EXPECT_EQ(refusal_of(paged, "kv_indices", indices({5, 6, 3})),
            "kv_indices: has page 6 at index 1; there are 6");
  EXPECT_EQ(refusal_of(paged, "kv_last_page_len", indices({4, 5})),
            "kv_last_page_len: is 5 at index 1, of 1 pages of 4");
  EXPECT_EQ(refusal_of(append, "positions", indices({5, 1, 4})),
            "positions: is 4 at index 2, beyond the 1 pages of request 1");
  EXPECT_EQ(refusal_of(append, "batch_indices", indices({0, 1, 2})),
            "batch_indices: is 2 at index 2; there are 2 requests");
  EXPECT_EQ(refusal_of(paged, "kv_lens", indices({1})),
            "kv_lens: is no argument of attention_paged");
  EXPECT_EQ(refusal_of(paged, "v_cache", Tensor()),
            "v_cache: is absent; its shape is [6, 4, 2, 8]");
}

// Whatever integers a descriptor has: it is refused, or computed as the reference computes it.
TEST(LayoutDescriptors, SpoiltTablesAreRefusedOrHaveAMeaning) {
  testing::Random random;
  Context ctx(1);
  int refused = 0;
  for (int round = 0; round < 400; ++round) {
    RandomLayouts layouts(random, DType::kF32);
    const ops::AttendPagesArgs args = layouts.pages();
    const Tensor tables[] = {args.qo_indptr, args.table.kv_indptr, args.table.kv_indices,
                             args.table.kv_last_page_len};
    const Tensor& spoilt = tables[random.integer(0, 3)];
    if (spoilt.size() == 0) continue;
    spoilt.data<int32_t>()[random.integer(0, spoilt.size() - 1)] +=
        random.pick({-1000000000, -3, -1, 1, 2, 17, 1000000000});
    try {
      ops::attend_pages(ctx, args);
    } catch (const InputError& error) {
      ++refused;
      EXPECT_FALSE(error.param().empty());
    }
  }
  EXPECT_GT(refused, 50);
}

}  // namespace
}  // namespace tandem::layout_goldens_test
