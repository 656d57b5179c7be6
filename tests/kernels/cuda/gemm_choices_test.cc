// The file of choices: written and read, merged with other writers', refused where it is not what
// was written.
#include "kernels/cuda/linear/gemm_choices.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace tandem::cuda {
namespace {

namespace fs = std::filesystem;

const GemmDevice kDevice{"NVIDIA H100 80GB/HBM3\n", 90, 130001};

GemmKey key_of(int64_t rows, DType type = DType::kBF16) {
  return {rows, 4096, 1024, type, DType::kF32, rows % 2 == 0, true, 16, 256};
}
GemmAlgorithm algorithm_of(uint64_t i) { return {i, ~i, 0, 1, 2, 3, 0xabcdef0123456789u, 7}; }

class GemmChoicesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tandem-choices-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    fs::permissions(folder_, fs::perms::owner_all);
    fs::remove_all(folder_);
  }
  std::unique_ptr<GemmChoices> open(const GemmDevice& device = kDevice) {
    return std::make_unique<GemmChoices>(folder_ / "a" / "b", device,
                                         [this](const std::string& w) { warnings_.push_back(w); });
  }
  static void put(const fs::path& file, const std::string& text) {
    std::ofstream(file, std::ios::binary) << text;
  }
  static std::string text_of(const fs::path& file) {
    std::stringstream out;
    out << std::ifstream(file, std::ios::binary).rdbuf();
    return out.str();
  }

  fs::path folder_;
  std::vector<std::string> warnings_;
};

TEST_F(GemmChoicesTest, AreFoundByTheNextProcess) {
  fs::path file;
  {
    const auto choices = open();
    file = choices->file();
    EXPECT_EQ(choices->find(key_of(8)), nullptr);
    for (int i = 1; i < 40; ++i) choices->add(key_of(i), algorithm_of(i));
    choices->add(key_of(8), algorithm_of(99));
  }
  EXPECT_EQ(file.parent_path(), folder_ / "a" / "b");
  const auto choices = open();
  ASSERT_NE(choices->find(key_of(8)), nullptr);
  EXPECT_EQ(*choices->find(key_of(8)), algorithm_of(99));
  EXPECT_EQ(*choices->find(key_of(39)), algorithm_of(39));
  EXPECT_EQ(choices->find(key_of(39, DType::kF16)), nullptr);
  // Of another device, or another library.
  EXPECT_EQ(open({kDevice.name, 90, 130002})->find(key_of(8)), nullptr);
  EXPECT_EQ(open({kDevice.name, 100, 130001})->find(key_of(8)), nullptr);
  EXPECT_EQ(open({"another", 90, 130001})->find(key_of(8)), nullptr);
  EXPECT_TRUE(warnings_.empty()) << warnings_[0];
  // Nothing else is left beside it.
  EXPECT_EQ(std::distance(fs::directory_iterator(file.parent_path()), fs::directory_iterator()), 1);
}

TEST_F(GemmChoicesTest, WhatOthersWroteMeanwhileStays) {
  const auto first = open(), second = open();
  first->add(key_of(1), algorithm_of(1));
  second->add(key_of(2), algorithm_of(2));
  first->add(key_of(3), algorithm_of(3));
  first->save();
  second->save();
  for (const int i : {1, 2, 3}) EXPECT_NE(open()->find(key_of(i)), nullptr) << i;

  std::vector<std::thread> writers;
  for (int w = 0; w < 4; ++w)
    writers.emplace_back([&, w] {
      GemmChoices choices(folder_ / "a" / "b", kDevice, nullptr);
      for (int i = 0; i < 25; ++i) {
        choices.add(key_of(1000 + 25 * w + i), algorithm_of(i));
        choices.save();
      }
    });
  for (std::thread& writer : writers) writer.join();
  for (int i = 0; i < 100; ++i) EXPECT_NE(open()->find(key_of(1000 + i)), nullptr) << i;
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(GemmChoicesTest, OtherFilesAreNotUsed) {
  fs::path file;
  {
    const auto choices = open();
    file = choices->file();
    choices->add(key_of(5), algorithm_of(5));
    choices->add(key_of(6), algorithm_of(6));
  }
  const std::string good = text_of(file);
  ASSERT_TRUE(parse_choices(good, kDevice).has_value());
  ASSERT_EQ(parse_choices(good, kDevice)->size(), 2u);

  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (size_t i = 0; i < good.size(); ++i) {  // truncated; a byte changed, lost, twice
    EXPECT_FALSE(parse_choices(std::string_view(good).substr(0, i), kDevice)) << i;
    std::string flipped = good, shorter = good, longer = good;
    flipped[i] = static_cast<char>(flipped[i] ^ (1 + random() % 255));
    EXPECT_FALSE(parse_choices(flipped, kDevice)) << i;
    EXPECT_FALSE(parse_choices(shorter.erase(i, 1), kDevice)) << i;
    EXPECT_FALSE(parse_choices(longer.insert(i, 1, static_cast<char>(random())), kDevice)) << i;
  }
  for (int i = 0; i < 20000; ++i) {
    std::string text = good;
    for (int n = 1 + static_cast<int>(random() % 6); n > 0; --n) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0: text[at] = static_cast<char>(random()); break;
        case 1: text.erase(at, random() % 40); break;
        default: text.insert(at, text.substr(random() % text.size(), random() % 40));
      }
      if (text.empty()) break;
    }
    if (text == good) continue;
    EXPECT_FALSE(parse_choices(text, kDevice));
  }

  const std::string others[] = {
      "",
      "x",
      std::string(100, '\0'),
      good + good,
      good + "\n",
      print_choices({{GemmKey{}, algorithm_of(1)}}, kDevice),  // sizes of 0
      print_choices(*parse_choices(good, kDevice), {"another", 90, 130001})};
  for (const std::string& text : others) {
    put(file, text);
    warnings_.clear();
    const auto choices = open();
    EXPECT_EQ(choices->find(key_of(5)), nullptr) << text;
    EXPECT_EQ(warnings_.size(), 1u) << text;
    choices->save();
    EXPECT_EQ(warnings_.size(), 1u) << "told once";
    EXPECT_TRUE(parse_choices(text_of(file), kDevice)) << "replaced";
  }
}

TEST_F(GemmChoicesTest, ThingsThatAreNoFiles) {
  const fs::path file = open()->file();
  fs::create_directories(file.parent_path());
  const auto expect_refused = [&] {
    warnings_.clear();
    EXPECT_EQ(open()->find(key_of(5)), nullptr);
    EXPECT_EQ(warnings_.size(), 1u);
  };
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);  // nobody writes to it
  expect_refused();
  fs::remove(file);
  fs::create_symlink("/dev/zero", file);
  expect_refused();
  fs::remove(file);
  fs::create_directory(file);
  expect_refused();
  warnings_.clear();
  {
    const auto choices = open();
    choices->add(key_of(1), algorithm_of(1));
    choices->save();
    choices->add(key_of(2), algorithm_of(2));
    choices->save();
    EXPECT_NE(choices->find(key_of(1)), nullptr);
  }
  EXPECT_EQ(warnings_.size(), 2u) << "not read, not written";
}

TEST_F(GemmChoicesTest, AFolderThatCannotBeWritten) {
  put(folder_ / "a", "a file");  // where a folder should be, for root too
  const auto choices = open();
  warnings_.clear();
  for (int i = 1; i < 5; ++i) {
    choices->add(key_of(i), algorithm_of(i));
    choices->save();
  }
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("cannot be written"), std::string::npos) << warnings_[0];
  EXPECT_NE(choices->find(key_of(3)), nullptr);
}

TEST_F(GemmChoicesTest, WithoutAFolderTheyAreKeptInMemory) {
  GemmChoices choices("", kDevice, [](const std::string& what) { ADD_FAILURE() << what; });
  choices.add(key_of(3), algorithm_of(3));
  choices.save();
  EXPECT_NE(choices.find(key_of(3)), nullptr);
}

}  // namespace
}  // namespace tandem::cuda
