// Bodies on their way in: compressed ones, forms, bounds of memory and disk.
#include "server/http/body/request_body.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/network/gzip.h"

namespace tandem::server {
namespace {

using test::compress;
using test::Wrapper;

struct Outcome {
  int status = 200;
  std::string message;  // of a refusal
  HttpRequest request;
};

class RequestBodyTest : public ::testing::Test {
 protected:
  Outcome read(const std::string& bytes, const Headers& headers = {}, size_t piece = 1000) {
    Outcome out;
    out.request.headers = headers;
    try {
      RequestBody body(out.request, form, bound, {memory, disk}, std::nullopt, may_be_file);
      for (size_t at = 0; at < bytes.size(); at += piece) {
        body.add(std::string_view(bytes).substr(at, piece));
        for (bool more = true; more;) {
          more = body.work();
          if (body.wants_write()) body.write();
        }
      }
      body.finish();
      body.write();
      body.give_to(out.request);
    } catch (BodyRefused& refused) {
      const HttpResponse answer = refused.take_answer();
      out.status = answer.status;
      out.message = answer.body;
      for (const auto& [name, value] : answer.headers) out.message += name + ": " + value;
    }
    return out;
  }
  static std::string form_of(const std::string& file) {
    return "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"x\"\r\n\r\n" + file +
           "\r\n--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--b--\r\n";
  }
  static std::string contents(const MediaSource& source) {
    std::string bytes(source.size() + 1, '?');
    const ssize_t n = pread(source.fd(), bytes.data(), bytes.size(), 0);
    bytes.resize(n < 0 ? 0 : static_cast<size_t>(n));
    return bytes;
  }

  bool form = false, may_be_file = false;
  BodyBound bound{1 << 20, "--max-body-size"};
  std::shared_ptr<BodyBudget> memory = std::make_shared<BodyBudget>(8 << 20);
  std::shared_ptr<BodyBudget> disk = std::make_shared<BodyBudget>(8 << 20);
  const Headers multipart{{"content-type", "multipart/form-data; boundary=b"}};
};

TEST_F(RequestBodyTest, TheFileItself) {
  form = may_be_file = true;
  const std::string file(5000, 'x');
  for (const Headers& headers : {Headers{{"content-type", "audio/wav"}}, Headers{}}) {
    const Outcome plain = read(file, headers);
    ASSERT_EQ(plain.status, 200) << plain.message;
    ASSERT_EQ(plain.request.form->parts.size(), 1u);
    EXPECT_EQ(plain.request.form->parts[0].name, "file");
    EXPECT_EQ(contents(*plain.request.form->parts[0].file), file);
    EXPECT_TRUE(plain.request.body.empty());
    EXPECT_EQ(disk->used(), file.size());
  }
  EXPECT_EQ(disk->used(), 0u);
  Headers coded{{"content-type", "audio/wav"}, {"content-encoding", "gzip"}};
  EXPECT_EQ(contents(*read(compress(file), coded).request.form->parts[0].file), file);
  EXPECT_EQ(read(form_of(file), multipart).request.form->parts.size(), 2u) << "a form stays one";
  bound.bytes = 4999;
  EXPECT_EQ(read(file).status, 413);
  bound.bytes = 1 << 20;
  disk = std::make_shared<BodyBudget>(4999);
  EXPECT_EQ(read(file).status, 429);
  may_be_file = false;
  EXPECT_EQ(read(file, {{"content-type", "audio/wav"}}).status, 400);
}

TEST_F(RequestBodyTest, Codings) {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "line " + std::to_string(i);
  const std::pair<const char*, std::string> cases[] = {
      {"gzip", compress(text)},
      {"GZIP", compress(text)},
      {" x-gzip\t", compress(text)},
      {"deflate", compress(text, Wrapper::kZlib)},
      {"deflate", compress(text, Wrapper::kRaw)},
      {"identity", text},
      {"", text},
      {"gzip", compress(text.substr(0, 1000)) + compress("") + compress(text.substr(1000))}};
  for (const auto& [coding, bytes] : cases)
    for (const size_t piece : {size_t{1}, size_t{1000}, bytes.size()}) {
      const Outcome out = read(bytes, {{"content-encoding", coding}}, piece);
      EXPECT_EQ(out.status, 200) << coding << out.message;
      EXPECT_EQ(out.request.body, text) << coding;
    }
}

TEST_F(RequestBodyTest, CodingsThatAreNotUnderstood) {
  for (const char* coding :
       {"br", "zstd", "compress", "gzip, gzip", "gzip, identity", "gzip;q=1"}) {
    const Outcome out = read(compress("x"), {{"content-encoding", coding}});
    EXPECT_EQ(out.status, 415) << coding;
    EXPECT_NE(out.message.find("accept-encoding: gzip, deflate"), std::string::npos) << coding;
  }
  EXPECT_EQ(read("x", {{"content-encoding", "gzip"}, {"content-encoding", "gzip"}}).status, 415);
}

TEST_F(RequestBodyTest, DamagedData) {
  const std::string good = compress("some text that is long enough to be cut");
  const Headers gzip{{"content-encoding", "gzip"}}, deflate{{"content-encoding", "deflate"}};
  for (const std::string& bytes :
       {std::string("no gzip at all"), good.substr(0, good.size() - 1), good.substr(0, 12),
        good + "x", good + good.substr(0, 5), std::string("\x1f", 1)})
    EXPECT_EQ(read(bytes, gzip).status, 400) << bytes;
  const std::string zlib = compress("some text", Wrapper::kZlib);
  EXPECT_EQ(read(zlib + "x", deflate).status, 400);
  EXPECT_EQ(read(zlib.substr(0, 5), deflate).status, 400);
  std::string wrong = good;
  wrong[wrong.size() - 5] ^= 1;  // the checksum
  EXPECT_EQ(read(wrong, gzip).status, 400);
  EXPECT_EQ(read("", gzip).status, 200) << "a body of nothing says nothing";
  EXPECT_EQ(memory->used(), 0u);
}

// What counts is what it becomes.
TEST_F(RequestBodyTest, BombsAreTooLarge) {
  const std::string bomb = compress(std::string(20 << 20, 'x'));
  EXPECT_LT(bomb.size(), size_t{1} << 20);
  const Outcome out = read(bomb, {{"content-encoding", "gzip"}}, bomb.size());
  EXPECT_EQ(out.status, 413);
  EXPECT_NE(out.message.find("1048576 bytes (--max-body-size)"), std::string::npos) << out.message;
  bound.bytes = 100 << 20;
  EXPECT_EQ(read(bomb, {{"content-encoding", "gzip"}}).status, 429) << "--max-body-memory";
  EXPECT_EQ(memory->used(), 0u);
  form = true;
  Headers headers = multipart;
  headers.emplace_back("content-encoding", "gzip");
  const Outcome file = read(compress(form_of(std::string(20 << 20, 'x'))), headers);
  EXPECT_EQ(file.status, 429);
  EXPECT_NE(file.message.find("--max-upload-disk"), std::string::npos) << file.message;
  EXPECT_EQ(disk->used(), 0u);
}

TEST_F(RequestBodyTest, FilesOfFormsTakeNoMemory) {
  form = true;
  bound = {4 << 20, "--max-audio-size"};
  memory = std::make_shared<BodyBudget>(600 << 10);
  std::string file(3 << 20, '\0');
  for (size_t i = 0; i < file.size(); ++i) file[i] = static_cast<char>(i * 2654435761u >> 13);
  for (const bool zipped : {false, true}) {
    Headers headers = multipart;
    if (zipped) headers.emplace_back("content-encoding", "gzip");
    const std::string body = form_of(file);
    Outcome out = read(zipped ? compress(body) : body, headers, 16384);
    ASSERT_EQ(out.status, 200) << out.message;
    ASSERT_NE(out.request.form, nullptr);
    const auto& parts = out.request.form->parts;
    ASSERT_EQ(parts.size(), 2u);
    ASSERT_TRUE(parts[0].file);
    EXPECT_TRUE(contents(*parts[0].file) == file);
    EXPECT_TRUE(parts[0].content.empty());
    EXPECT_EQ(parts[1].content, "m");
    EXPECT_EQ(disk->used(), file.size()) << "as long as the request is there";
    out = {};
    EXPECT_EQ(disk->used() + memory->used(), 0u);
  }
  const Outcome large = read(form_of(std::string(5 << 20, 'x')), multipart, 16384);
  EXPECT_EQ(large.status, 413);
  EXPECT_NE(large.message.find("4194304 bytes (--max-audio-size)"), std::string::npos);
}

TEST_F(RequestBodyTest, FormsAreReadStrictly) {
  form = true;
  const std::string body = form_of("abc");
  EXPECT_EQ(read(body, multipart).status, 200);
  EXPECT_EQ(read(body).status, 400) << "no content-type";
  EXPECT_EQ(read(body, {{"content-type", "application/json"}}).status, 400);
  EXPECT_EQ(read(body.substr(0, body.size() - 5), multipart).status, 400);
  const std::string field = "--b\r\nContent-Disposition: form-data; name=\"t\"\r\n\r\n";
  EXPECT_EQ(read(field + std::string(70000, 'x') + "\r\n" + body, multipart).status, 400);
  EXPECT_EQ(read(field + std::string(60000, 'x') + "\r\n" + body, multipart).status, 200);
  const std::string second = body.substr(0, body.find("\r\n--b\r\n") + 2);
  EXPECT_EQ(read(second + body, multipart).status, 400) << "a second file";
  memory = std::make_shared<BodyBudget>(1000);
  const Outcome full = read(body, multipart);
  EXPECT_EQ(full.status, 429);
  EXPECT_NE(full.message.find("--max-body-memory"), std::string::npos);
}

}  // namespace
}  // namespace tandem::server
