// Bytes that wait to be decoded: in memory, in files, in pipes.
#include "runtime/media/media_source.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>

#include "base/error.h"
#include "tests/support/files/files.h"

namespace tandem {
namespace {

std::string bytes_of(const MediaSource& source) {
  std::string out(source.size() + 1, '?');  // one more than there is
  const ssize_t count = pread(source.fd(), out.data(), out.size(), 0);
  out.resize(count < 0 ? 0 : static_cast<size_t>(count));
  return out;
}

std::string refusal(const std::string& path, uint64_t most = 100) {
  try {
    MediaSource::open(path, "the.field", most);
    return "";
  } catch (const InputError& error) {
    EXPECT_EQ(error.param(), "the.field");
    return error.what();
  }
}

TEST(MediaSource, BytesFilesAndPipesAreTheSame) {
  const std::string bytes("a\0b\n", 4);
  test::TempDir dir;
  EXPECT_EQ(bytes_of(MediaSource::of_bytes(bytes, "x")), bytes);
  EXPECT_EQ(bytes_of(MediaSource::open(dir.write("file", bytes), "x")), bytes);
  const std::string pipe = (dir.path() / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] {
    const int fd = open(pipe.c_str(), O_WRONLY);
    EXPECT_EQ(write(fd, bytes.data(), 4), 4);
    close(fd);
  });
  const MediaSource piped = MediaSource::open(pipe, "x");
  writer.join();
  EXPECT_EQ(bytes_of(piped), bytes);
}

TEST(MediaSource, CopiesShareOneDescriptorThatIsClosedWithTheLast) {
  auto first = std::make_unique<MediaSource>(MediaSource::of_bytes("bytes", "x"));
  const MediaSource second = *first;
  const int fd = second.fd();
  EXPECT_EQ(first->fd(), fd);
  first.reset();
  EXPECT_EQ(bytes_of(second), "bytes");
  {
    const MediaSource third = MediaSource::of_bytes("more", "x");
    EXPECT_NE(third.fd(), fd);
  }
  EXPECT_NE(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);  // no program that is started has it
}

TEST(MediaSource, NobodyWritesToWhatIsRead) {
  UnlinkedFile file("x");
  file.append("sou");
  file.append("nd");
  EXPECT_EQ(file.size(), 5u);
  const MediaSource source = std::move(file).finish();
  EXPECT_EQ(bytes_of(source), "sound");
  EXPECT_LT(pwrite(source.fd(), "x", 1, 0), 0);
  EXPECT_LT(pwrite(MediaSource::of_bytes("x", "x").fd(), "x", 1, 0), 0);
  struct stat status = {};
  ASSERT_EQ(fstat(source.fd(), &status), 0);
  EXPECT_EQ(status.st_nlink, 0u);
}

TEST(MediaSource, WhatCannotBeOpenedIsNamed) {
  test::TempDir dir;
  EXPECT_NE(refusal((dir.path() / "none").string()).find("does not exist"), std::string::npos);
  EXPECT_NE(refusal(dir.path().string()).find("is not a file"), std::string::npos);
  EXPECT_NE(refusal("/dev/zero").find("is not a file"), std::string::npos);
  const std::string pipe = (dir.path() / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] {
    const int fd = open(pipe.c_str(), O_WRONLY);
    EXPECT_EQ(write(fd, "12345", 5), 5);
    close(fd);
  });
  EXPECT_NE(refusal(pipe, 4).find("more than the 4 that"), std::string::npos);
  writer.join();
}

}  // namespace
}  // namespace tandem
