// --output-dir: made and checked before the work; no output takes another's place.
#include "launcher/commands/files/output_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "launcher/commands/command.h"
#include "tests/support/files/files.h"

namespace tandem::launcher {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names(const OutputFolder& folder, size_t count) {
  std::vector<std::string> out;
  for (size_t i = 0; i < count; ++i) out.push_back(folder.path(i).filename().string());
  return out;
}

std::string with_txt(const fs::path& file) { return file.string() + ".txt"; }

TEST(OutputFolder, NamesDoNotCollide) {
  const test::TempDir dir;
  const std::vector<std::string> files{"a/x.wav", "b/x.wav", "x.mp3", "x",
                                       "c/x.wav", "x-2.wav", "-",     "x.wav"};
  const OutputFolder folder(dir.path() / "new" / "folder", files, with_txt);
  EXPECT_TRUE(fs::is_directory(dir.path() / "new" / "folder"));
  EXPECT_TRUE(fs::is_empty(dir.path() / "new" / "folder"));
  EXPECT_EQ(names(folder, files.size()),
            (std::vector<std::string>{"x.wav.txt", "x-3.wav.txt", "x.mp3.txt", "x.txt",
                                      "x-4.wav.txt", "x-2.wav.txt", "stdin.txt", "x-5.wav.txt"}));
  std::set<fs::path> all;
  for (size_t i = 0; i < files.size(); ++i) {
    EXPECT_EQ(folder.write(i, files[i]), "");
    EXPECT_EQ(test::read_file(folder.path(i)), files[i]);
    all.insert(folder.path(i));
    EXPECT_EQ(folder.numbered(i), i == 1 || i == 4 || i == 7);
  }
  EXPECT_EQ(all.size(), files.size());
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.path() / "new" / "folder"), {}),
            static_cast<long>(files.size()));
}

TEST(OutputFolder, DoesNotTakeTheInputsPlace) {
  const test::TempDir dir;
  const std::string a = (dir.path() / "a").string(), b = (dir.path() / "a.txt").string();
  dir.write("a", "sound");
  dir.write("a.txt", "sound, too");
  const OutputFolder folder(dir.path(), {a, b}, with_txt);
  EXPECT_EQ(names(folder, 2), (std::vector<std::string>{"a-2.txt", "a.txt.txt"}));
}

TEST(OutputFolder, WhatIsInTheWayIsSaidBeforeTheWork) {
  const test::TempDir dir;
  dir.write("file", "x");
  const auto expect = [&](const fs::path& folder, const std::vector<std::string>& files,
                          const std::string& word) {
    try {
      const OutputFolder made(folder, files, with_txt);
      ADD_FAILURE() << folder;
    } catch (const InputError& e) {
      EXPECT_EQ(e.param(), "--output-dir");
      EXPECT_NE(std::string(e.what()).find(word), std::string::npos) << e.what();
    }
  };
  expect(dir.path() / "file", {"a.wav"}, "file");
  expect(dir.path() / "file" / "below", {"a.wav"}, "file");
  expect("/proc/no", {"a.wav"}, "/proc/no");
  expect("/proc", {"a.wav"}, "nothing can be written there");
  expect(dir.path(), {std::string(253, 'a')}, "too long");
  fs::create_directories(dir.path() / "a.wav.txt");
  expect(dir.path(), {"a.wav"}, "is a directory");
}

}  // namespace
}  // namespace tandem::launcher
