// Files read in one piece: what comes out, and what is said of those that are none.
#include "base/file_bytes.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/error.h"
#include "tests/support/files/files.h"

namespace tandem {
namespace {

TEST(FileBytes, AllOfThem) {
  const test::TempDir dir;
  const std::string bytes("a\0b\r\n\xff", 6);
  dir.write("file", bytes);
  EXPECT_EQ(read_file_bytes(dir / "file", 6, "x"), bytes);
  dir.write("empty", "");
  EXPECT_EQ(read_file_bytes(dir / "empty", 0, "x"), "");
}

TEST(FileBytes, FilesThatCannotBeRead) {
  const test::TempDir dir;
  const auto expect = [&](const std::filesystem::path& path, const char* words,
                          ErrorKind kind = ErrorKind::kInvalidRequest) {
    try {
      read_file_bytes(path, 5, "the.field");
      ADD_FAILURE() << path;
    } catch (const InputError& error) {
      EXPECT_EQ(error.param(), "the.field");
      EXPECT_EQ(error.kind(), kind);
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  expect(dir / "none", "does not exist");
  expect(dir.path(), "is not a file");
  expect("/dev/zero", "is not a file");
  const std::filesystem::path pipe = dir / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  expect(pipe, "is not a file");
  dir.write("large", "123456");
  expect(dir / "large", "has 6 bytes, more than the 5", ErrorKind::kResource);
}

}  // namespace
}  // namespace tandem
