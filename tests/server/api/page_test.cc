// The page at "/": one file that needs no other, and headers that let the browser run nothing else.
#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <array>
#include <string>

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

std::string sha256_base64(const std::string& text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr);
  std::array<unsigned char, 2 * EVP_MAX_MD_SIZE> base64{};
  const int length = EVP_EncodeBlock(base64.data(), digest.data(), static_cast<int>(size));
  return {base64.begin(), base64.begin() + length};
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
  EXPECT_EQ(html.find("@STYLE@"), std::string::npos);
  EXPECT_EQ(html.find("@SCRIPT@"), std::string::npos);
  for (const char* elsewhere : {"https://", "//cdn", "@import", " src=", "@font-face"})
    EXPECT_EQ(html.find(elsewhere), std::string::npos) << elsewhere;
  EXPECT_EQ(s.ask("HEAD", "/")->status(), 200);
  EXPECT_EQ(s.ask("DELETE", "/", "{}")->status(), 405);
  EXPECT_EQ(s.ask("GET", "/status")->status(), 401) << "what it shows is not open";
}

TEST(Page, CountsTokensAndCutsLongTexts) {
  FakeServer s;
  const std::string html = s.ask("GET", "/")->head->body;
  for (const char* part : {"Max tokens", "Cut long texts", "type=\"checkbox\" id=\"cut\"",
                           "id=\"count\"", "'/tokenize'", "truncate_prompt_tokens"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
}

TEST(Page, HasMenusForLanguagesAndTasks) {
  FakeServer s;
  const std::string html = s.ask("GET", "/")->head->body;
  for (const char* part :
       {"id=\"model-fields\" hidden", "<select id=\"src_lang\"", "<select id=\"tgt_lang\"",
        "<select id=\"task\"", "source_languages", "target_languages"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
}

TEST(Page, HearsWhereTheModelDoes) {
  FakeServer s;
  const std::string html = s.ask("GET", "/")->head->body;
  EXPECT_EQ(html.find("@HEAR@"), std::string::npos);
  for (const char* part : {"<form id=\"hear\" novalidate hidden>", "type=\"file\" id=\"file\"",
                           "id=\"record\"", "getUserMedia", "/v1/audio/", "speech_tasks"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
}

TEST(Page, TheBrowserRunsNothingElse) {
  FakeServer s;
  const auto page = s.ask("GET", "/");
  const std::string& html = page->head->body;
  ASSERT_NE(page->header("content-security-policy"), nullptr);
  const std::string policy = *page->header("content-security-policy");
  EXPECT_EQ(policy.rfind("default-src 'none'; ", 0), 0u);
  EXPECT_EQ(between(policy, "script-src ", ";"),
            "'sha256-" + sha256_base64(between(html, "<script>", "</script>")) + "' 'sha256-" +
                sha256_base64(between(html, "</script>\n<script>", "</script>")) + "'");
  EXPECT_EQ(between(policy, "style-src ", ";"),
            "'sha256-" + sha256_base64(between(html, "<style>", "</style>")) + "'");
  EXPECT_EQ(between(policy, "connect-src ", ";"), "'self'");
  EXPECT_EQ(policy.find("unsafe"), std::string::npos);
  EXPECT_EQ(*page->header("x-content-type-options"), "nosniff");
  EXPECT_EQ(*page->header("referrer-policy"), "no-referrer");
}

TEST(Page, OfRoutesIsOpenAndWhole) {
  FakeServer s;
  s.config.api_keys = {"key"};
  const auto page = s.ask("GET", "/docs");
  ASSERT_EQ(page->status(), 200) << "it asks for the key itself";
  const std::string& html = page->head->body;
  EXPECT_EQ(html.rfind("<!doctype html>", 0), 0u);
  for (const char* mark : {"@STYLE@", "@SCRIPT@", "@ROOT@"})
    EXPECT_EQ(html.find(mark), std::string::npos) << mark;
  for (const char* elsewhere : {"https://", "//cdn", "@import", " src=", "@font-face", "innerHTML"})
    EXPECT_EQ(html.find(elsewhere), std::string::npos) << elsewhere;
  const std::string policy = *page->header("content-security-policy");
  EXPECT_EQ(between(policy, "script-src ", ";"),
            "'sha256-" + sha256_base64(between(html, "<script>", "</script>")) + "'");
  EXPECT_EQ(between(policy, "style-src ", ";"),
            "'sha256-" + sha256_base64(between(html, "<style>", "</style>")) + "'");
  EXPECT_EQ(policy.find("unsafe"), std::string::npos);
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
