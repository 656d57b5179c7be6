// Forms: what clients send, and what only an enemy or a broken program would.
#include "server/http/body/multipart.h"

#include <gtest/gtest.h>

#include <chrono>

#include "base/error.h"

namespace tandem::server {
namespace {

std::string part(const std::string& header, const std::string& content) {
  return "--b\r\n" + header + "\r\n\r\n" + content + "\r\n";
}
std::string field(const std::string& name, const std::string& content) {
  return part("Content-Disposition: form-data; name=\"" + name + "\"", content);
}
// "name=content" or "name(filename)=content" of each.
class Shown final : public FormSink {
 public:
  void begin_part(std::string name, std::optional<std::string> filename) override {
    parts.push_back(name + (filename ? "(" + *filename + ")" : "") + "=");
    ++open;
  }
  void content(std::string_view bytes) override { parts.back() += bytes; }
  void end_part() override { --open; }
  std::vector<std::string> parts;
  int open = 0;  // begun, and not ended
};
// In pieces of so many bytes.
std::vector<std::string> parse_form(const std::string& body, const std::string& boundary,
                                    const FormLimits& limits = {}, size_t piece = 1 << 20) {
  Shown shown;
  FormParser parser(boundary, shown, limits);
  for (size_t at = 0; at < body.size(); at += piece)
    parser.put(std::string_view(body).substr(at, piece));
  parser.finish();
  EXPECT_EQ(shown.open, 0);
  return shown.parts;
}
std::vector<std::string> read(const std::string& body, const std::string& boundary = "b") {
  const auto whole = parse_form(body, boundary);
  for (const size_t piece : {1, 2, 3, 7}) EXPECT_EQ(parse_form(body, boundary, {}, piece), whole);
  return whole;
}
using Parts = std::vector<std::string>;

std::string refusal(const std::string& body, const FormLimits& limits = {}) {
  try {
    parse_form(body, "b", limits);
  } catch (const InputError& e) {
    EXPECT_EQ(e.param(), "body");
    return e.what();
  }
  return "";
}

TEST(Multipart, Boundaries) {
  EXPECT_EQ(boundary_of("multipart/form-data; boundary=abc"), "abc");
  EXPECT_EQ(boundary_of("Multipart/Form-Data;charset=utf-8 ; Boundary=\"a b:c\""), "a b:c");
  EXPECT_EQ(boundary_of("multipart/form-data; boundary=----=_Part_0/1;"), "----=_Part_0/1");
  EXPECT_EQ(boundary_of("multipart/form-data; boundary=" + std::string(70, 'x')).size(), 70u);
  for (const std::string& type :
       {std::string("application/json"), std::string("multipart/mixed; boundary=b"),
        std::string("multipart/form-data"), std::string("multipart/form-data; boundary="),
        std::string("multipart/form-data; boundary=\"\""),
        std::string("multipart/form-data; boundary=\"a"),
        std::string("multipart/form-data; boundary=\"a \""),
        std::string("multipart/form-data; boundary=a; boundary=b"),
        std::string("multipart/form-data boundary=a"), std::string("multipart/form-data; =a"),
        std::string("multipart/form-data; boundary=a*b"), std::string(),
        std::string("multipart/form-data; boundary=") + std::string(71, 'x'),
        std::string("multipart/form-data; boundary=\"a\nb\"")}) {
    try {
      boundary_of(type);
      ADD_FAILURE() << type;
    } catch (const InputError& e) {
      EXPECT_EQ(e.param(), "content-type");
    }
  }
}

TEST(Multipart, FieldsAndFiles) {
  EXPECT_EQ(read(field("a", "1") + field("b[]", "") +
                 part("content-type: audio/wav\r\nCONTENT-DISPOSITION: Form-Data; "
                      "filename=\"x \\\"y\\\" C:\\z.wav\"; name=file",
                      std::string("\0\r\n--c\r\n--bb\r\n--b-\r\n", 20)) +
                 "--b--"),
            (Parts{"a=1", "b[]=",
                   "file(x \"y\" C:\\z.wav)=" + std::string("\0\r\n--c\r\n--bb\r\n--b-\r\n", 20)}));
}

TEST(Multipart, PreambleEpilogueAndPadding) {
  const Parts one{"a=1"};
  const std::string a = "Content-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n";
  EXPECT_EQ(read("--b\r\n" + a + "--b--\r\n"), one);
  EXPECT_EQ(read("\r\n--b\r\n" + a + "--b--\r\nepilogue --b\r\n--b\r\n"), one);
  EXPECT_EQ(read("This is\r\n--bc\r\na preamble.\r\n--b \t \r\n" + a + "--b-- \t"), one);
  EXPECT_EQ(read("--b--\r\n"), Parts{}) << "a form of nothing";
}

TEST(Multipart, EmptyContents) {
  EXPECT_EQ(read(field("a", "") + "--b--"), Parts{"a="});
  // The header's last line end is the boundary's too: a part of a header alone.
  EXPECT_EQ(read("--b\r\nContent-Disposition: form-data; name=a\r\n\r\n--b--"), Parts{"a="});
  EXPECT_EQ(read(field("a", "\r\n") + "--b--"), Parts{"a=\r\n"});
}

TEST(Multipart, NamesThatAreNotToBeUsedSayNothing) {
  EXPECT_EQ(read(part("Content-Disposition: form-data; name=a; filename*=UTF-8''%e2%82%ac", "1") +
                 "--b--"),
            Parts{"a=1"});
}

TEST(Multipart, WhatIsNoForm) {
  const std::string good = field("a", "1");
  const struct {
    std::string body;
    const char* why;
  } cases[] = {
      {"", "has no boundary"},
      {"hello", "has no boundary"},
      {"--b", "has no boundary"},
      {"--b\n", "has no boundary"},
      {good, "ends before the form's last boundary"},
      {good + "--b", "ends before the form's last boundary"},
      {good + "--b-", "ends before the form's last boundary"},
      {good + "--b\r\n", "ends in the header of a part"},
      {good + "--b\r\nContent-Disp", "ends in the header of a part"},
      {"--b\r\nContent-Disposition: form-data; name=a\n\n1\r\n--b--", "has a header that is none"},
      {"--b\r\n\r\n1\r\n--b--", "has no Content-Disposition"},
      {part("Content-Type: a/b", "1") + "--b--", "has no Content-Disposition"},
      {part("Content-Disposition: form-data", "1") + "--b--", "has no Content-Disposition"},
      {part("Content-Disposition: form-data; name=\"\"", "1") + "--b--", "has an empty name"},
      {part("Content-Disposition: attachment; name=a", "1") + "--b--", "of no form"},
      {part("Content-Disposition: form-data; name=a; name=b", "1") + "--b--", "has two names"},
      {part("Content-Disposition: form-data; name=a; filename=b; filename=c", "1") + "--b--",
       "has two filenames"},
      {part("Content-Disposition: form-data; name=a\r\nContent-Disposition: form-data; name=a",
            "1") +
           "--b--",
       "has two Content-Dispositions"},
      {part("Content-Disposition: form-data; name=\"a", "1") + "--b--", "cannot be read"},
      {part("Content-Disposition: form-data; name", "1") + "--b--", "cannot be read"},
      {part("Content-Disposition: form-data name=a", "1") + "--b--", "cannot be read"},
      {part("Content-Disposition: form-data;\r\n name=a", "1") + "--b--",
       "has a header that is none"},
      {part("no colon", "1") + "--b--", "has a header that is none"},
      {part(": empty", "1") + "--b--", "has a header that is none"},
      {part("A b: c", "1") + "--b--", "has a header that is none"},
      {part(std::string("A: \0", 4), "1") + "--b--", "has a header that is none"},
      {part("Content-Disposition: form-data; name=a\r\nContent-Transfer-Encoding: base64", "MQ==") +
           "--b--",
       "has a Content-Transfer-Encoding"},
  };
  for (const auto& c : cases)
    EXPECT_NE(refusal(c.body).find(c.why), std::string::npos) << c.body << ": " << refusal(c.body);
}

TEST(Multipart, Bounds) {
  std::string many;
  for (int i = 0; i < 10000; ++i) many += field("f" + std::to_string(i), "");
  EXPECT_NE(refusal(many + "--b--").find("more than 256 parts"), std::string::npos);
  EXPECT_NE(refusal(part("X: " + std::string(1 << 20, 'x'), "1") + "--b--")
                .find("a header larger than 4096 bytes"),
            std::string::npos);
  std::string headers;
  for (int i = 0; i < 10000; ++i) headers += "X: y\r\n";
  EXPECT_NE(refusal(part(headers + "Content-Disposition: form-data; name=a", "1") + "--b--")
                .find("a header larger than 4096 bytes"),
            std::string::npos);
}

// Each step takes what it has looked at: bytes that look like boundaries, line ends and blanks.
TEST(Multipart, TimeGrowsWithTheBodyOnly) {
  std::string near;
  while (near.size() < (8u << 20)) near += "\r\n--bx\r\n--b   \t\r\r\n--b-\r\n--";
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(parse_form(field("a", near) + "--b--", "b").size(), 1u);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(5));
}

}  // namespace
}  // namespace tandem::server
