// The page at "/" and its files: all of them are the server's, and headers let the browser run
// nothing else.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/support/network/fake_http.h"

namespace tandem {
namespace {

using test::FakeServer;

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t from = text.find(begin);
  if (from == std::string::npos) return {};
  const size_t start = from + begin.size();
  return text.substr(start, text.find(end, start) - start);
}

// The addresses of the page's scripts and styles.
std::vector<std::string> files_of(const std::string& html) {
  std::vector<std::string> out;
  for (const std::string mark :
       {"<link rel=\"stylesheet\" href=\"", "<script type=\"module\" src=\""})
    for (size_t at = html.find(mark); at != std::string::npos; at = html.find(mark, at + 1))
      out.push_back(between(html.substr(at), mark, "\""));
  return out;
}

// What modules import, and what they load by their own address.
std::vector<std::string> imports_of(const std::string& script) {
  std::vector<std::string> out;
  for (const std::string mark : {" from './", "import './", "new URL('"})
    for (size_t at = script.find(mark); at != std::string::npos; at = script.find(mark, at + 1))
      out.push_back(between(script.substr(at), mark, "'"));
  return out;
}

// What a text would fetch from another host; the namespace of SVG is a name only.
std::string elsewhere_in(std::string text) {
  const std::string name = "http://www.w3.org/2000/svg";
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name))
    text.erase(at, name.size());
  std::string found;
  for (const char* mark : {"https://", "http://", "//cdn", "@import", "@font-face"})
    if (text.find(mark) != std::string::npos) found += mark;
  return found;
}

TEST(Page, IsOpenAndWhole) {
  FakeServer s;
  s.config.api_keys = {"key"};
  const auto page = s.ask("GET", "/");
  ASSERT_EQ(page->status(), 200) << "it asks for the key itself";
  EXPECT_EQ(page->head->content_type, "text/html; charset=utf-8");
  const std::string& html = page->head->body;
  EXPECT_EQ(html.rfind("<!doctype html>", 0), 0u);
  EXPECT_NE(html.find("</html>"), std::string::npos);
  EXPECT_EQ(html.find("@ROOT@"), std::string::npos);
  EXPECT_EQ(html.find("@STAMP@"), std::string::npos);
  EXPECT_EQ(elsewhere_in(html), "");
  EXPECT_EQ(s.ask("HEAD", "/")->status(), 200);
  EXPECT_EQ(s.ask("DELETE", "/", "{}")->status(), 405);
  EXPECT_EQ(s.ask("GET", "/status")->status(), 401) << "what it shows is not open";
}

// Every file that it needs is the server's, open, and to be kept as long as it stays the same.
TEST(Page, ItsFilesAreHere) {
  FakeServer s;
  s.config.api_keys = {"key"};
  std::vector<std::string> wanted = files_of(s.ask("GET", "/")->head->body);
  ASSERT_EQ(wanted.size(), 3u) << "two styles, and one script that imports the others";
  const std::vector<std::string> of_docs = files_of(s.ask("GET", "/docs")->head->body);
  ASSERT_EQ(of_docs.size(), 3u) << "two styles, and a script";
  wanted.insert(wanted.end(), of_docs.begin(), of_docs.end());
  const std::string folder = wanted.back().substr(0, wanted.back().rfind('/') + 1);
  std::set<std::string> seen;
  while (!wanted.empty()) {
    const std::string path = wanted.back();
    wanted.pop_back();
    if (!seen.insert(path).second) continue;
    const auto file = s.ask("GET", path);
    ASSERT_EQ(file->status(), 200) << path;
    EXPECT_EQ(*file->header("cache-control"), "max-age=31536000, immutable") << path;
    EXPECT_EQ(*file->header("x-content-type-options"), "nosniff") << path;
    const std::string& text = file->head->body;
    const bool script = path.ends_with(".js");
    EXPECT_EQ(file->head->content_type,
              std::string(script ? "text/javascript" : "text/css") + "; charset=utf-8");
    EXPECT_EQ(elsewhere_in(text), "") << path;
    if (script)
      for (const std::string& name : imports_of(text)) wanted.push_back(folder + name);
  }
  EXPECT_EQ(seen.size(), 22u) << "none that nobody uses";
}

TEST(Page, AFileOfAnotherVersionIsNotKept) {
  FakeServer s;
  for (const char* path : {"/page/0123456789ab/app.js", "/page/app.js"}) {
    const auto file = s.ask("GET", path);
    EXPECT_EQ(file->status(), 200) << path;
    EXPECT_EQ(*file->header("cache-control"), "no-cache") << path;
  }
  for (const char* path :
       {"/page/", "/page", "/page/x", "/page/app.js/", "/page/../app.c", "/page/a/b/"})
    EXPECT_EQ(s.ask("GET", path)->status(), 404) << path;
}

TEST(Page, TheBrowserRunsNothingElse) {
  FakeServer s;
  for (const char* path : {"/", "/docs"}) {
    SCOPED_TRACE(path);
    const auto page = s.ask("GET", path);
    ASSERT_NE(page->header("content-security-policy"), nullptr);
    const std::string policy = *page->header("content-security-policy");
    EXPECT_EQ(policy.rfind("default-src 'none'; ", 0), 0u);
    for (const char* name : {"script-src", "style-src", "connect-src"})
      EXPECT_EQ(between(policy, std::string(name) + " ", ";"), "'self'") << name;
    EXPECT_EQ(between(policy, "img-src ", ";"), "'self' blob:");
    EXPECT_EQ(policy.find("unsafe"), std::string::npos);
    const std::string& html = page->head->body;
    for (const char* inlined : {"<style", "<script>", " style=", " onclick=", "javascript:"})
      EXPECT_EQ(html.find(inlined), std::string::npos) << inlined;
    EXPECT_EQ(*page->header("x-content-type-options"), "nosniff");
    EXPECT_EQ(*page->header("referrer-policy"), "no-referrer");
  }
}

TEST(Page, OfRoutesIsOpenAndWhole) {
  FakeServer s;
  s.config.api_keys = {"key"};
  const auto page = s.ask("GET", "/docs");
  ASSERT_EQ(page->status(), 200) << "it asks for the key itself";
  const std::string& html = page->head->body;
  EXPECT_EQ(html.rfind("<!doctype html>", 0), 0u);
  for (const char* mark : {"@STAMP@", "@ROOT@"})
    EXPECT_EQ(html.find(mark), std::string::npos) << mark;
  EXPECT_EQ(elsewhere_in(html), "");
}

TEST(Page, HasAnIcon) {
  FakeServer s;
  s.config.api_keys = {"key"};
  const auto icon = s.ask("GET", "/favicon.ico");
  EXPECT_EQ(icon->status(), 200);
  EXPECT_EQ(icon->head->content_type, "image/svg+xml");
  EXPECT_EQ(icon->head->body.rfind("<svg", 0), 0u);
}

TEST(Page, StatusHasWhatItShows) {
  FakeServer s;
  proto::ReplicaInfo& replica = *s.engine.state.info.add_replicas();
  replica.set_up(true);
  proto::SchedulerStats& stats = *replica.mutable_stats();
  stats.set_num_total_blocks(100);
  stats.set_num_free_blocks(60);
  stats.set_num_cross_blocks(15);
  stats.set_num_total_host_blocks(50);
  stats.set_num_free_host_blocks(43);
  s.ask("POST", "/v1/completions", R"({"prompt": "source"})");
  s.engine.say(0, "two words", {5, 6}, "stop");
  const auto exchange = s.ask("POST", "/v1/completions", R"({"prompt": "source"})");
  s.engine.say(1, "three more words", {5, 6, 7});
  exchange->run_posted();
  const nlohmann::json status = s.ask("GET", "/status")->json();
  EXPECT_EQ(status["replicas"][0]["self_blocks"], 25);
  EXPECT_EQ(status["replicas"][0]["cross_blocks"], 15);
  EXPECT_EQ(status["replicas"][0]["free_blocks"], 60);
  EXPECT_EQ(status["replicas"][0]["free_host_blocks"], 43);
  EXPECT_EQ(status["replicas"][0]["total_host_blocks"], 50);
  EXPECT_EQ(status["generation_tokens"], 3) << "only what has been handed on counts";
  EXPECT_EQ(status["prompts_under_way"], 2);
}

}  // namespace
}  // namespace tandem
