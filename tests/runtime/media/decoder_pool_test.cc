// The program that decodes, from outside: that its end is one file's error, that its number is
// bounded, that it ends with its parent and has nothing of it; and what becomes of programs that
// only say that they are it.
#include "runtime/media/decoder_pool.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "runtime/media/decoder_run.h"
#include "tests/support/files/files.h"
#include "tests/support/media/sounds.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using decoder::FrameKind;

decoder::Job sound_job(const MediaSource& source) {
  decoder::Job job;
  job.size = source.size();
  job.rate = 16000;
  job.channels = 2;
  job.seconds = 60;
  return job;
}

MediaSource sound(int64_t samples = 16000) {
  return MediaSource::of_bytes(testing::float_wav(testing::two_tones(samples), 16000), "file");
}

// How many samples a decoder of the pool makes of it.
size_t decode(DecoderPool& pool, const MediaSource& source) {
  DecoderRun run(pool, source, sound_job(source), "file");
  size_t out = 0;
  std::string payload;
  while (run.next(payload) == FrameKind::kSamples) out += payload.size() / sizeof(float);
  return out;
}

std::string error_of(DecoderPool& pool, const MediaSource& source) {
  try {
    decode(pool, source);
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

bool within_seconds(double most, const std::function<bool()>& condition) {
  for (int i = 0; i < most * 100; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return condition();
}

bool is_there(pid_t pid) { return fs::exists("/proc/" + std::to_string(pid)); }

DecoderPool::Options real(size_t most = 2) { return {TANDEM_DECODER, most, 60}; }

TEST(DecoderPool, OneProgramReadsManyFiles) {
  DecoderPool pool(real());
  auto first = pool.take();
  const pid_t pid = first->pid();
  pool.give_back(std::move(first));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(decode(pool, sound()), 16000U);
  // What is wrong with a file is no fault of the program.
  EXPECT_NE(error_of(pool, MediaSource::of_bytes("nothing of the kind", "x")).find("file: is no"),
            std::string::npos);
  auto last = pool.take();
  EXPECT_EQ(last->pid(), pid);
  pool.give_back(std::move(last));
}

TEST(DecoderPool, WhoComesWhileAllAreBusyWaits) {
  DecoderPool pool(real(2));
  const MediaSource source = sound(50000);
  std::atomic<int> done = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 12; ++i)
    threads.emplace_back([&] { done += decode(pool, source) == 50000 ? 1 : 0; });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, 12);
  EXPECT_LE(pool.num_idle(), 2U);
}

TEST(DecoderPool, OneThatDiesIsOneFilesErrorAndIsReplaced) {
  DecoderPool pool(real());
  auto process = pool.take();
  const pid_t first = process->pid();
  pool.give_back(std::move(process));
  // Longer than what fits between the two: it has to wait for its reader.
  const MediaSource long_sound = sound(900000);
  {
    DecoderRun run(pool, long_sound, sound_job(long_sound), "file");
    std::string payload;
    EXPECT_EQ(run.next(payload), FrameKind::kSamples);
    kill(first, SIGKILL);
    try {
      while (run.next(payload) == FrameKind::kSamples) {
      }
      ADD_FAILURE();
    } catch (const InputError& error) {
      EXPECT_STREQ(error.what(), "file: the decoder ended on signal 9 while reading the file");
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidRequest);
    }
  }
  EXPECT_FALSE(is_there(first));  // nor as a zombie
  EXPECT_EQ(decode(pool, sound()), 16000U);
}

TEST(DecoderPool, OneThatDiesWhileItWaitsIsBuried) {
  DecoderPool pool(real());
  auto process = pool.take();
  const pid_t pid = process->pid();
  pool.give_back(std::move(process));
  kill(pid, SIGKILL);
  EXPECT_TRUE(within_seconds(20, [&] { return !is_there(pid); }));
  EXPECT_EQ(decode(pool, sound()), 16000U);
}

TEST(DecoderPool, OneThatIsNotNeededEnds) {
  DecoderPool pool({TANDEM_DECODER, 2, 0.05});
  auto process = pool.take();
  const pid_t pid = process->pid();
  pool.give_back(std::move(process));
  EXPECT_TRUE(within_seconds(20, [&] { return !is_there(pid); }));
}

TEST(DecoderPool, AFileThatNobodyWantsAnyMoreIsGivenUp) {
  DecoderPool pool(real(1));
  const MediaSource long_sound = sound(900000);
  {
    DecoderRun run(pool, long_sound, sound_job(long_sound), "file");
    std::string payload;
    run.next(payload);
  }
  EXPECT_EQ(pool.num_idle(), 0U);
  EXPECT_EQ(decode(pool, sound()), 16000U);
}

// It has its socket, and nothing where programs write to.
TEST(DecoderPool, ItInheritsNoDescriptors) {
  const int open_here = open("/dev/null", O_RDONLY);  // without O_CLOEXEC
  ASSERT_GE(open_here, 0);
  DecoderPool pool(real());
  auto process = pool.take();
  std::error_code error;
  size_t count = 0;
  for (fs::directory_iterator i("/proc/" + std::to_string(process->pid()) + "/fd", error), end;
       !error && i != end; i.increment(error))
    ++count;
  pool.give_back(std::move(process));
  close(open_here);
  if (error) GTEST_SKIP() << "not to be seen by this user";
  EXPECT_EQ(count, 3U);
}

TEST(DecoderPool, ItEndsWithItsParent) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    DecoderPool pool(real());
    auto process = pool.take();
    const pid_t pid = process->pid();
    [[maybe_unused]] const ssize_t written = write(ends[1], &pid, sizeof pid);
    kill(getpid(), SIGKILL);
  }
  pid_t pid = 0;
  ASSERT_EQ(read(ends[0], &pid, sizeof pid), static_cast<ssize_t>(sizeof pid));
  waitpid(parent, nullptr, 0);
  close(ends[0]);
  close(ends[1]);
  const auto ended = [&] {
    const std::string stat = "/proc/" + std::to_string(pid) + "/stat";
    return !is_there(pid) || test::read_file(stat).find(") Z ") != std::string::npos;
  };
  EXPECT_TRUE(within_seconds(20, ended));
}

// kDone with 8 bytes, the length of a sound of 0 seconds; the shell's next command follows.
const std::string kDone = R"(printf '\005\000\000\000\010\000\000\000\0\0\0\0\0\0\0\0' >&0; )";

// Programs of a few lines. They greet as the decoder does: kHello, 8 bytes, version 1, locked in.
class FalseDecoders : public ::testing::Test {
 protected:
  static constexpr const char* kGreeting =
      R"(printf '\000\000\000\000\010\000\000\000\001\000\000\000\001\000\000\000' >&0
)";
  static constexpr const char* kTakeJob = "dd bs=32 count=1 of=/dev/null <&0 2>/dev/null\n";

  std::string error(const std::string& script) {
    const std::string path = dir_.write("decoder", "#!/bin/sh\n" + script).string();
    chmod(path.c_str(), 0700);
    DecoderPool pool({path, 1, 60});
    return error_of(pool, sound(100));
  }
  test::TempDir dir_;
};

TEST_F(FalseDecoders, AreNotBelieved) {
  const std::string begun = std::string(kGreeting) + kTakeJob;
  const std::map<std::string, std::string> cases = {
      {"exit 5\n", "it ended with status 5"},
      {"printf 'something else altogether' >&0; sleep 9\n", "is another program"},
      {R"(printf '\000\000\000\000\010\000\000\000\143\000\000\000\001\000\000\000' >&0; sleep 9)",
       "is of another version"},
      {begun + "kill -KILL $$\n", "the decoder ended on signal 9 while reading the file"},
      {begun + "exit 3\n", "takes more memory to decode than a file may"},
      {begun + "kill -XCPU $$\n", "takes more processor time"},
      // A frame of no kind, one without end, samples that are none, pixels of a sound, a second
      // greeting; and an error with a message that is not fit to print.
      {begun + R"(printf '\143\000\000\000\000\000\000\000' >&0; sleep 9)", "makes no sense"},
      {begun + R"(printf '\001\000\000\000\377\377\377\377' >&0; sleep 9)", "makes no sense"},
      {begun + R"(printf '\001\000\000\000\003\000\000\000abc' >&0; sleep 9)", "makes no sense"},
      {begun + R"(printf '\003\000\000\000\003\000\000\000abc' >&0; sleep 9)", "makes no sense"},
      {begun + R"(printf '\000\000\000\000\000\000\000\000' >&0; sleep 9)", "makes no sense"},
      {begun + R"(printf '\006\000\000\000\007\000\000\000\000\000\000\000a\033b' >&0; cat)",
       "file: a\\x1bb"},
      // The end of a file that has not begun is an end: nothing was heard.
      {begun + kDone + "cat", "none"},
      // It has to say how long the sound was, and that is a number.
      {begun + R"(printf '\005\000\000\000\000\000\000\000' >&0; sleep 9)", "makes no sense"},
      {begun + R"(printf '\005\000\000\000\010\000\000\000\0\0\0\0\0\0\370\177' >&0; sleep 9)",
       "makes no sense"},
  };
  for (const auto& [script, says] : cases)
    EXPECT_NE(error(script).find(says), std::string::npos) << script << ": " << error(script);
}

TEST_F(FalseDecoders, APromiseToBeLockedInIsAsked) {
  const std::string open =
      R"(printf '\000\000\000\000\013\000\000\000\001\000\000\000\000\000\000\000why' >&0; cat)";
  EXPECT_NE(error(open).find("cannot lock itself in (why); TANDEM_DECODER_SANDBOX=optional"),
            std::string::npos)
      << error(open);
  setenv("TANDEM_DECODER_SANDBOX", "optional", 1);
  EXPECT_EQ(error(std::string(open).replace(open.find("cat"), 3, kDone + "cat")), "none");
  setenv("TANDEM_DECODER_SANDBOX", "perhaps", 1);
  EXPECT_NE(error(open).find("must be required or optional"), std::string::npos);
  unsetenv("TANDEM_DECODER_SANDBOX");
}

TEST_F(FalseDecoders, AProgramThatIsNotThere) {
  DecoderPool pool({(dir_ / "none").string(), 1, 60});
  for (int i = 0; i < 3; ++i)
    EXPECT_NE(error_of(pool, sound(100)).find("cannot be started"), std::string::npos);
}

}  // namespace
}  // namespace tandem
