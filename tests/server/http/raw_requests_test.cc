// Bytes of requests → status, and whether the connection takes another request. What two servers in
// a row may understand in two ways (RFC 9112, 11.2) must not leave a connection open, or the second
// request is the attacker's.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/network/echo_server.h"

namespace tandem::server::raw_requests_test {
namespace {

using namespace std::chrono_literals;
using test::HttpServerTest;
using test::status_of_answer;

enum class After { kOpen, kClosed };

struct Case {
  std::string bytes;
  int status;
  After after;
  std::string shows = {};  // is in the answer
};

constexpr const char* kProbe = "GET /probe HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

std::string get(const std::string& lines) {
  return "GET /a HTTP/1.1\r\nHost: a\r\n" + lines + "\r\n";
}
std::string post(const std::string& lines, const std::string& body) {
  return "POST /a HTTP/1.1\r\nHost: a\r\n" + lines + "\r\n" + body;
}
std::string chunked(const std::string& body) {
  return post("Transfer-Encoding: chunked\r\n", body);
}

class RawRequests : public HttpServerTest {
 protected:
  RawRequests() {
    config.header_timeout = config.body_timeout = config.write_timeout = config.idle_timeout = 60s;
  }
  // A second request stands right behind: it is answered, or it never was one.
  void expect(const std::vector<Case>& cases) {
    for (const Case& c : cases) {
      const std::string answers = ask(c.bytes + kProbe);
      EXPECT_EQ(status_of_answer(answers), c.status) << c.bytes << "\n→ " << answers;
      const bool open = answers.find("GET /probe ") != answers.npos;
      EXPECT_EQ(open, c.after == After::kOpen) << c.bytes << "\n→ " << answers;
      EXPECT_NE(answers.find(c.shows), answers.npos) << c.bytes << "\n→ " << answers;
      // No other request was seen in it.
      EXPECT_EQ(answers.find("/evil"), answers.npos) << c.bytes << "\n→ " << answers;
    }
  }
};

TEST_F(RawRequests, WhatIsRight) {
  using enum After;
  expect({
      {get(""), 200, kOpen, "GET /a "},
      {"\r\n\r\n\r\n" + get(""), 200, kOpen, "GET /a "},
      {post("Content-Length: 3\r\n", "abc\r\n"), 200, kOpen, "POST /a abc"},
      {post("content-LENGTH:3\r\n", "abc"), 200, kOpen, "POST /a abc"},
      {post("Content-Length: 3\r\nContent-Length: 3\r\n", "abc"), 200, kOpen, "POST /a abc"},
      {post("Content-Length: 0\r\n", ""), 200, kOpen},
      {post("", ""), 200, kOpen},
      {get("Content-Length: 3\r\n") + "abc", 200, kOpen},
      {chunked("3\r\nabc\r\n0\r\n\r\n"), 200, kOpen, "POST /a abc"},
      {post("transfer-encoding:\t CHUNKED \r\n", "3\r\nabc\r\n0\r\n\r\n"), 200, kOpen, "abc"},
      {chunked("0003\r\nabc\r\n000\r\n\r\n"), 200, kOpen, "POST /a abc"},
      {chunked("3;a=b;c=\"d\\\"\"\r\nabc\r\nA\r\n0123456789\r\n0;last\r\nX: y\r\nZ: 1\r\n\r\n"),
       200, kOpen, "POST /a abc0123456789"},
      {get("X: \xc3\xa4\t b\r\nY:\r\n"), 200, kOpen},
      {get("Expect: 100-continue\r\n"), 200, kOpen},
      {post("Expect: 100-Continue\r\nContent-Length: 3\r\n", "abc"), 100, kOpen, "POST /a abc"},
      {"HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n", 200, kOpen, "Content-Length: 8"},
      {"GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 200, kOpen, "HTTP/1.0 200"},
      {"GET /a HTTP/1.0\r\n\r\n", 200, kClosed},
      {get("Connection: close\r\n"), 200, kClosed},
      {get("Connection: Keep-Alive, Close\r\n"), 200, kClosed},
  });
}

TEST_F(RawRequests, Targets) {
  using enum After;
  const auto target = [](const std::string& method, const std::string& t) {
    return method + " " + t + " HTTP/1.1\r\nHost: a\r\n\r\n";
  };
  expect({
      {target("GET", "http://other.example:80/x%20y?z"), 200, kOpen, "GET /x y "},
      {target("GET", "HTTPS://[::1]:8/x/"), 200, kOpen, "GET /x "},
      {target("GET", "http://a"), 200, kOpen, "GET / "},
      {target("GET", "http://a?q"), 200, kOpen, "GET / "},
      {target("GET", "/x///"), 200, kOpen, "GET /x "},
      {target("OPTIONS", "*"), 200, kOpen, "OPTIONS * "},
      {target("OPTIONS", "http://a:80"), 200, kOpen, "OPTIONS * "},
      {target("GET", "*"), 400, kClosed},
      {target("GET", "x"), 400, kClosed},
      {target("GET", "http://"), 400, kClosed},
      {target("GET", "http:///x"), 400, kClosed},
      {target("GET", "http://user@a/x"), 400, kClosed},
      {target("GET", "http://a:b/x"), 400, kClosed},
      {target("GET", "ftp://a/x"), 400, kClosed},
      {target("CONNECT", "a:443"), 501, kClosed},
      {"GET http://a/x HTTP/1.1\r\n\r\n", 400, kClosed, "no Host"},
      {"GET http://a/x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, kClosed},
  });
}

TEST_F(RawRequests, LengthsThatAreNotCertain) {
  using enum After;
  const std::string evil = "GET /evil HTTP/1.1\r\nHost: a\r\n\r\n";
  const std::string chunks = "0\r\n\r\n" + evil;
  const auto coded = [&](const std::string& value, const std::string& more = "") {
    return post("Transfer-Encoding: " + value + "\r\n" + more, chunks);
  };
  expect({
      {coded("identity"), 501, kClosed},
      {coded("gzip"), 501, kClosed},
      {coded("gzip, chunked"), 501, kClosed},
      {coded("chunked, identity"), 501, kClosed},
      {coded("xchunked"), 501, kClosed},
      {coded("chunked;q=1"), 501, kClosed},
      {coded("\"chunked\""), 501, kClosed},
      {coded("\x85"
             "chunked"),
       501, kClosed},
      {coded("chunked, chunked"), 400, kClosed},
      {coded("chunked,"), 400, kClosed},
      {coded(",chunked"), 400, kClosed},
      {coded(""), 400, kClosed},
      {coded("chunked", "Transfer-Encoding: chunked\r\n"), 400, kClosed},
      {coded("identity", "Transfer-Encoding: chunked\r\n"), 501, kClosed},
      {coded("chunked", "Transfer-Encoding: identity\r\n"), 400, kClosed},
      {coded("chunked", "Content-Length: 5\r\n"), 400, kClosed},
      {coded("identity", "Content-Length: 5\r\n"), 400, kClosed},
      {post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", chunks), 400, kClosed},
      {post("Content-Length: 5\r\nTransfer-Encoding: identity\r\n", chunks), 400, kClosed},
      {"POST /a HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks,
       400, kClosed},
      {post("Transfer-Encoding : chunked\r\n", chunks), 400, kClosed},
      {post("Transfer-Encoding\t: chunked\r\n", chunks), 400, kClosed},
      {post("Transfer-Encoding:\r\n chunked\r\n", chunks), 400, kClosed},
      {post("X: y\r\n\tTransfer-Encoding: chunked\r\n", chunks), 400, kClosed},
      {coded("\x0b"
             "chunked"),
       400, kClosed},
      {post("Content-Length: 3\r\nContent-Length: 4\r\n", "abc" + evil), 400, kClosed},
      {post("Content-Length: 3, 4\r\n", "abc" + evil), 400, kClosed},
      {post("Content-Length: 3,\r\n", "abc" + evil), 400, kClosed},
      {post("Content-Length: +3\r\n", "abc" + evil), 400, kClosed},
      {post("Content-Length: -3\r\n", "abc" + evil), 400, kClosed},
      {post("Content-Length: 3 3\r\n", "abc" + evil), 400, kClosed},
      {post("Content-Length: 0x3\r\n", "abc" + evil), 400, kClosed},
      {post("Content-Length: 3.\r\n", "abc" + evil), 400, kClosed},
      {post("Content-Length:\r\n", evil), 400, kClosed},
      {post("Content-Length: 99999999999999999999\r\n", evil), 400, kClosed},
      {post("Content-Length: 18446744073709551615\r\n", evil), 413, kClosed, "--max-body-size"},
  });
}

TEST_F(RawRequests, Chunks) {
  using enum After;
  expect({
      {chunked("3\nabc\r\n0\r\n\r\n"), 400, kClosed},
      {chunked("3\r\nabc\n0\r\n\r\n"), 400, kClosed},
      {chunked("3\rabc\r\n0\r\n\r\n"), 400, kClosed},
      {chunked("3\r\nabcd\r\n0\r\n\r\n"), 400, kClosed},
      {chunked("0x3\r\nabc\r\n0\r\n\r\n"), 400, kClosed},
      {chunked(" 3\r\nabc\r\n0\r\n\r\n"), 400, kClosed},
      {chunked("3 \r\nabc\r\n0\r\n\r\n"), 400, kClosed},
      {chunked("-3\r\nabc\r\n0\r\n\r\n"), 400, kClosed},
      {chunked("\r\n3\r\nabc\r\n0\r\n\r\n"), 400, kClosed},
      {chunked("g\r\nabc\r\n0\r\n\r\n"), 400, kClosed},
      {chunked("10000000000000003\r\nabc\r\n0\r\n\r\n"), 400, kClosed},
      {chunked("ffffffffffffffff\r\nabc\r\n0\r\n\r\n"), 413, kClosed},
      {chunked("3;a\nb\r\nabc\r\n0\r\n\r\n"), 400, kClosed},
      {chunked("3;a=\"\n\"\r\nabc\r\n0\r\n\r\n"), 400, kClosed},
      {chunked("0;a=\"\n\"\r\n\r\n"), 400, kClosed},
      {chunked("3;\r\nabc\r\n0\r\n\r\n"), 400, kClosed},
      {chunked("3;a=\"" + std::string(40000, 'x') + "\"\r\nabc\r\n0\r\n\r\n"), 400, kClosed},
      {chunked("0\r\nContent-Length: 3\r\n\r\nabc"), 400, kClosed},
      {chunked("0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400, kClosed},
      {chunked("0\r\nno colon\r\n\r\n"), 400, kClosed},
  });
  // Each is short, all together are not.
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "1;a=bcdefgh\r\nx\r\n";
  expect({{chunked(many + "0\r\n\r\n"), 400, kClosed, "--max-header-size"}});
}

TEST_F(RawRequests, Headers) {
  using enum After;
  expect({
      {get("X: a\r\n b\r\n"), 400, kClosed},
      {get("X: a\r\n\tb\r\n"), 400, kClosed},
      {get("X:\r\n \r\n"), 400, kClosed},
      {get(" X: a\r\n"), 400, kClosed},
      {"GET /a HTTP/1.1\r\n Host: a\r\n\r\n", 400, kClosed},
      {get("X: a\rb\r\n"), 400, kClosed},
      {get("X: a\nY: b\r\n"), 400, kClosed},
      {get("X: a\n\r\n"), 400, kClosed},
      {get(std::string("X: a\0b\r\n", 8)), 400, kClosed},
      {get(std::string("X\0Y: b\r\n", 8)), 400, kClosed},
      {get("X: \x7f\r\n"), 400, kClosed},
      {get("X : a\r\n"), 400, kClosed},
      {get("X\t: a\r\n"), 400, kClosed},
      {get("no colon\r\n"), 400, kClosed},
      {get(": a\r\n"), 400, kClosed},
      {get("X(Y): a\r\n"), 400, kClosed},
      {get("X\xc3\xa4: a\r\n"), 400, kClosed},
      {"GET /a HTTP/1.1\nHost: a\n\n", 400, kClosed},
      {"GET  /a HTTP/1.1\r\nHost: a\r\n\r\n", 400, kClosed},
      {"GET\t/a HTTP/1.1\r\nHost: a\r\n\r\n", 400, kClosed},
      {"GET /a\x01 HTTP/1.1\r\nHost: a\r\n\r\n", 400, kClosed},
      {"GET /a HTTP/1.1 \r\nHost: a\r\n\r\n", 400, kClosed},
      {"G(T /a HTTP/1.1\r\nHost: a\r\n\r\n", 400, kClosed},
      {"GET /a http/1.1\r\nHost: a\r\n\r\n", 400, kClosed},
      {"GET /a HTTP/11\r\nHost: a\r\n\r\n", 400, kClosed},
      {"GET /a\r\n\r\n", 400, kClosed},
      {"\nGET /a HTTP/1.1\r\nHost: a\r\n\r\n", 400, kClosed},
      {"GET /a HTTP/2.0\r\nHost: a\r\n\r\n", 505, kClosed},
      {"GET /a HTTP/1.9\r\nHost: a\r\n\r\n", 505, kClosed},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, kClosed},
      {post("Expect: something\r\nContent-Length: 3\r\n", "abc"), 417, kClosed},
      {get("Expect: something\r\n"), 417, kOpen},
      {get("X: " + std::string(5000, 'x') + "\r\n"), 431, kClosed, "--max-header-size"},
  });
  EXPECT_EQ(hooks.requests, 1) << "the one behind Expect";
}

// Nothing is answered to what is no request yet.
TEST_F(RawRequests, EmptyLinesAreNoRequest) {
  config.header_timeout = config.idle_timeout = 300ms;
  EXPECT_EQ(ask("\r\n\r\n\r\n"), "");
  EXPECT_EQ(ask("\r\n\r"), "");
}

TEST_F(RawRequests, EveryAnswerHasADate) {
  for (const std::string& bytes : {get("Connection: close\r\n"), std::string("GARBAGE\r\n\r\n"),
                                   std::string("POST /locked HTTP/1.1\r\nHost: a\r\n\r\n")}) {
    const std::string answer = ask(bytes);
    const size_t at = answer.find("\r\nDate: ");
    ASSERT_NE(at, answer.npos) << answer;
    EXPECT_EQ(answer.substr(at + 8).find(" GMT\r\n"), 25u) << answer;
  }
}

TEST_F(RawRequests, APrefixOfAProxyIsTakenOff) {
  using enum After;
  config.root_path = "/below/here";
  const auto path = [](const std::string& p) {
    return "GET " + p + " HTTP/1.1\r\nHost: a\r\n\r\n";
  };
  expect({
      {path("/below/here/a"), 200, kOpen, "GET /a "},
      {path("/below/here"), 200, kOpen, "GET / "},
      {path("/below/here/"), 200, kOpen, "GET / "},
      {path("/a"), 200, kOpen, "GET /a "},
      {path("/below/hereafter"), 200, kOpen, "GET /below/hereafter "},
  });
}

}  // namespace
}  // namespace tandem::server::raw_requests_test
