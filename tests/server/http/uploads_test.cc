// Large and compressed bodies: where they go, and what bounds them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "tests/support/network/echo_server.h"
#include "tests/support/network/gzip.h"

namespace tandem::server::uploads_test {
namespace {

using namespace std::chrono_literals;
using test::eventually;
using test::HttpServerTest;
using test::RawClient;
using test::status_of_answer;

// A form with a file of so many bytes.
std::string form_of(size_t bytes) {
  return "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n" + std::string(bytes, 's') +
         "\r\n--b--\r\n";
}

std::string post(const std::string& path, const std::string& body, bool chunked = false) {
  std::string bytes = "POST " + path +
                      " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                      "Content-Type: multipart/form-data; boundary=b\r\n";
  if (!chunked) return bytes + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  bytes += "Transfer-Encoding: chunked\r\n\r\n";
  char size[20];
  for (size_t at = 0; at < body.size(); at += 1000) {
    std::snprintf(size, sizeof size, "%zx\r\n", std::min<size_t>(1000, body.size() - at));
    bytes += size + body.substr(at, 1000) + "\r\n";
  }
  return bytes + "0\r\n\r\n";
}

TEST_F(HttpServerTest, SoundMayBeLarger) {
  const size_t around = form_of(0).size();
  config.max_audio_bytes = 30000 + around;
  for (const bool chunked : {false, true}) {
    const auto status = [&](const char* path, size_t size) {
      return status_of_answer(ask(post(path, form_of(size), chunked)));
    };
    EXPECT_EQ(status("/audio", 30000), 200);
    EXPECT_EQ(status("/audio", 30001), 413);
    EXPECT_EQ(status("/text", 30000), 413);
    EXPECT_EQ(status("/text", 10001 - around), 413);
    EXPECT_EQ(status("/text", 10000 - around), 200);
  }
  EXPECT_EQ(hooks.requests, 4);
  EXPECT_NE(ask(post("/audio", form_of(40000))).find("(--max-audio-size)"), std::string::npos);
  EXPECT_NE(ask(post("/text", form_of(40000))).find("(--max-body-size)"), std::string::npos);
  expect_well();
}

// A file is not in memory, and takes its part of the disk as long as its request.
TEST_F(HttpServerTest, UploadsAreBoundedByTheDisk) {
  config.max_audio_bytes = 4 << 20;
  config.max_body_memory = 600 << 10;
  config.max_upload_disk = 5 << 20;
  config.body_timeout = 20s;
  start();
  const std::string answer = ask(post("/audio", form_of(3 << 20)));
  EXPECT_NE(answer.find("file=3145728"), std::string::npos) << answer;
  EXPECT_TRUE(eventually([&] {  // the first one's share has come back
    return status_of_answer(ask(post("/audio", form_of(3 << 20), /*chunked=*/true))) == 200;
  }));
  // One that is under way takes what another needs. (Again, if the other was read before it, or
  // the share of the one before had not come back.)
  const std::string bytes = post("/audio", form_of(3 << 20));
  EXPECT_TRUE(eventually([&] {
    RawClient first(server->port());
    first.send(bytes.substr(0, bytes.size() - 10));
    const std::string full = ask(bytes);
    first.send(bytes.substr(bytes.size() - 10));
    return status_of_answer(full) == 429 && full.find("--max-upload-disk") != full.npos &&
           status_of_answer(first.read_all()) == 200;
  }));
  config.max_upload_disk = 1 << 20;
  server.reset();
  const std::string never = ask(post("/audio", form_of(3 << 20)));
  EXPECT_EQ(status_of_answer(never), 413);
  EXPECT_NE(never.find("--max-upload-disk"), std::string::npos) << never;
}

TEST_F(HttpServerTest, CompressedBodies) {
  const auto zipped = [](const std::string& path, const std::string& body, const char* coding) {
    return "POST " + path +
           " HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=b\r\n" +
           "Content-Encoding: " + coding + "\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + body;
  };
  const std::string answers =
      ask(zipped("/a", test::compress("text"), "gzip") +
          zipped("/audio", test::compress(form_of(1000)), "gzip") +
          zipped("/b", test::compress("text", test::Wrapper::kZlib), "deflate") +
          "GET /end HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  for (const char* shown : {"/a text", "file=1000", "/b text", "/end"})
    EXPECT_NE(answers.find(shown), std::string::npos) << shown << " in " << answers;
  const std::string bomb = ask(zipped("/a", test::compress(std::string(1 << 20, 'x')), "gzip"));
  EXPECT_EQ(status_of_answer(bomb), 413);
  EXPECT_NE(bomb.find("10000 bytes (--max-body-size)"), std::string::npos) << bomb;
  const std::string other = ask(zipped("/a", "text", "br"));
  EXPECT_EQ(status_of_answer(other), 415);
  EXPECT_NE(other.find("accept-encoding: gzip, deflate"), std::string::npos) << other;
}

}  // namespace
}  // namespace tandem::server::uploads_test
