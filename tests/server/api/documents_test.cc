// Texts with markup, files and glossaries, by DeepL's and LibreTranslate's interfaces, without an
// engine.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "server/api/documents/document_store.h"
#include "tests/support/network/fake_http.h"

namespace tandem::documents_test {
namespace {

using nlohmann::json;
using test::FakeServer;
using Target = LanguageSet::Rule::Target;
using Fields = std::vector<std::pair<std::string, std::string>>;

// Translates as soon as it is asked: capitals.
struct DocumentServer : FakeServer {
  DocumentServer() {
    tokenizer.named = LanguageSet({"", "", "", Target::kForcedBos},
                                  {{"eng_Latn", 5}, {"deu_Latn", 6}, {"fra_Latn", 7}},
                                  /*has_source=*/true, "eng_Latn");
  }
  std::shared_ptr<test::FakeExchange> send(const char* path, const std::string& file,
                                           const std::string& name, const Fields& fields) {
    std::string body;
    for (const auto& [key, text] : fields)
      body += "--b\r\nContent-Disposition: form-data; name=\"" + key + "\"\r\n\r\n" + text + "\r\n";
    body += "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + name +
            "\"\r\n\r\n" + file + "\r\n--b--\r\n";
    return ask("POST", path, body, {{"content-type", "multipart/form-data; boundary=b"}});
  }
  void answer_all() {
    for (; answered < engine.requests.size(); ++answered) {
      std::string text = engine.requests[answered].prompt.encoder().text();
      for (char& c : text) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
      proto::RequestChunk chunk;
      proto::CompletionChunk& news = *chunk.add_outputs();
      news.set_text(text);
      news.add_token_ids(7);
      news.set_finish_reason("stop");
      chunk.set_finished(true);
      engine.callbacks.at(engine.requests[answered].id)(chunk);
    }
    for (const auto& exchange : exchanges) exchange->run_posted();
  }
  size_t answered = 0;
};

const char* const kPair = R"("source_lang": "EN", "target_lang": "DE")";

TEST(Documents, TagHandling) {
  DocumentServer s;
  const auto e = s.ask("POST", "/v2/translate",
                       std::string(R"({"text": ["<p>One <b>two</b>. Three.</p>", "<br>"], )") +
                           R"("tag_handling": "html", )" + kPair + "}");
  std::vector<std::string> texts;
  for (const auto& request : s.engine.requests) texts.push_back(request.prompt.encoder().text());
  EXPECT_EQ(texts, (std::vector<std::string>{"One two.", "two", "Three."}));
  s.answer_all();
  ASSERT_EQ(e->status(), 200) << e->head->body;
  EXPECT_EQ(e->json()["translations"][0]["text"], "<p>ONE <b>TWO</b>. THREE.</p>");
  EXPECT_EQ(e->json()["translations"][1]["text"], "<br>");
  EXPECT_EQ(e->json()["translations"][0]["billed_characters"], 29);
  EXPECT_EQ(s.context.prompts_under_way, 0);

  const auto empty =
      s.ask("POST", "/v2/translate",
            std::string(R"({"text": "<hr>", "tag_handling": "html", )") + kPair + "}");
  EXPECT_EQ(empty->json()["translations"][0]["text"], "<hr>") << "there is nothing to compute";
}

TEST(Documents, TagsByName) {
  DocumentServer s;
  const auto e = s.ask("POST", "/v2/translate",
                       std::string(R"({"text": "a word <x>not this</x> and <s>that</s>", )") +
                           R"("tag_handling": "xml", "ignore_tags": ["x"], "splitting_tags": "s, t",
                              "outline_detection": true, "tag_handling_version": "v2", )" +
                           kPair + "}");
  s.answer_all();
  EXPECT_EQ(e->json()["translations"][0]["text"], "A WORD <x>not this</x> AND <s>THAT</s>");
  const std::pair<const char*, const char*> refused[] = {
      {R"("tag_handling": "markdown")", "tag_handling"},
      {R"("ignore_tags": ["a"])", "ignore_tags"},
      {R"("tag_handling": "xml", "splitting_tags": 5)", "splitting_tags"},
      {R"("tag_handling": "xml", "tag_handling_version": "v9")", "tag_handling_version"}};
  for (const auto& [field, param] : refused) {
    const auto bad = s.ask("POST", "/v2/translate", std::string(R"({"text": "a", )") + field + "}");
    EXPECT_EQ(bad->status(), 400) << field;
    EXPECT_EQ(bad->error_param(), param) << field;
  }
  const auto broken = s.ask("POST", "/v2/translate",
                            R"({"text": "<a>", "tag_handling": "xml", "source_lang": "EN"})");
  EXPECT_EQ(broken->status(), 400);
  EXPECT_EQ(broken->error_param(), "text[0]");
}

TEST(Documents, LibreTranslatesHtml) {
  DocumentServer s;
  const auto e = s.ask("POST", "/translate", R"({"q": ["<p>One</p>", "<i>two</i>"], "source": "en",
                                                 "target": "de", "format": "html"})");
  s.answer_all();
  EXPECT_EQ(e->json(), json({{"translatedText", {"<p>ONE</p>", "<i>TWO</i>"}}}));
}

TEST(Documents, DeepLsFiles) {
  DocumentServer s;
  const auto sent = s.send("/v2/document", "# A *title*\n", "a b.md",
                           {{"source_lang", "EN"}, {"target_lang", "DE"}});
  ASSERT_EQ(sent->status(), 200) << sent->head->body;
  const std::string path = "/v2/document/" + sent->json()["document_id"].get<std::string>();
  const std::string key = json({{"document_key", sent->json()["document_key"]}}).dump();
  EXPECT_EQ(s.ask("POST", path, key)->json()["status"], "translating");
  EXPECT_EQ(s.ask("POST", path + "/result", key)->status(), 503);
  s.answer_all();
  const json status = s.ask("POST", path, key)->json();
  EXPECT_EQ(status["status"], "done");
  EXPECT_EQ(status["billed_characters"], 12);
  const auto result = s.ask("POST", path + "/result", key);
  EXPECT_EQ(result->head->body, "# A *TITLE*\n");
  EXPECT_EQ(result->head->content_type, "text/markdown; charset=utf-8");
  for (const char* wrong : {R"({"document_key": "no"})", "{}"})
    EXPECT_GE(s.ask("POST", path, wrong)->status(), 400);
  EXPECT_EQ(s.ask("POST", "/v2/document/none", key)->status(), 404);
  EXPECT_EQ(s.context.prompts_under_way, 0);
}

TEST(Documents, FilesThatAreRefused) {
  DocumentServer s;
  const struct {
    const char *file, *name;
    Fields fields;
    const char* param;
  } cases[] = {{"x", "a.docx", {{"target_lang", "DE"}}, "file"},
               {"", "a.txt", {{"target_lang", "DE"}}, "file"},
               {"\xff", "a.html", {{"target_lang", "DE"}}, "file"},
               {"x", "a.txt", {{"output_format", "pdf"}}, "output_format"},
               {"x", "a.txt", {{"formality", "more"}}, "formality"},
               {"x", "a.txt", {{"tag_handling", "xml"}}, "tag_handling"},
               {"<a>", "a.xml", {{"source_lang", "EN"}}, "file"},
               {"x", "a.txt", {{"glossary_id", "none"}}, "glossary_id"}};
  for (const auto& c : cases) {
    const auto e = s.send("/v2/document", c.file, c.name, c.fields);
    EXPECT_EQ(e->status(), 400) << c.name;
    EXPECT_EQ(e->error_param(), c.param) << c.name << e->head->body;
    EXPECT_TRUE(e->json()["message"].is_string());
  }
  EXPECT_TRUE(s.engine.requests.empty());
}

TEST(Documents, LibreTranslatesFiles) {
  DocumentServer s;
  s.config.api_keys = {"key"};
  const Fields fields{{"source", "en"}, {"target", "de"}, {"api_key", "key"}};
  const auto e = s.send("/translate_file", "<p>one</p>", "../a.html", fields);
  s.answer_all();
  ASSERT_EQ(e->status(), 200) << e->head->body;
  const std::string url = e->json()["translatedFileUrl"];
  const size_t path = url.find("/download_file/");
  ASSERT_NE(path, std::string::npos) << url;
  EXPECT_TRUE(url.ends_with(".a.html")) << url;
  EXPECT_EQ(s.ask("GET", url.substr(path))->head->body, "<p>ONE</p>");
  EXPECT_EQ(s.ask("GET", url.substr(path) + "x")->status(), 404);
  const auto wrong = s.send("/translate_file", "a", "a.txt", {{"source", "en"}, {"target", "de"}});
  EXPECT_EQ(wrong->status(), 403);
  EXPECT_TRUE(wrong->json()["error"].is_string());
}

TEST(Documents, Glossaries) {
  DocumentServer s;
  const auto made = s.ask("POST", "/v2/glossaries",
                          R"({"name": "g", "source_lang": "en", "target_lang": "de",
                              "entries": "cloud\tWolke", "entries_format": "tsv"})");
  ASSERT_EQ(made->status(), 201) << made->head->body;
  EXPECT_EQ(made->json()["entry_count"], 1);
  const std::string id = made->json()["glossary_id"];
  EXPECT_EQ(s.ask("GET", "/v2/glossaries")->json()["glossaries"].size(), 1u);
  EXPECT_EQ(s.ask("GET", "/v2/glossaries/" + id + "/entries")->head->body, "cloud\tWolke");

  const auto e = s.ask(
      "POST", "/v2/translate",
      std::string(R"({"text": "the cloud here", "glossary_id": ")") + id + "\", " + kPair + "}");
  EXPECT_EQ(s.engine.requests.at(0).prompt.encoder().text(), "the Wolke here");
  s.answer_all();
  EXPECT_EQ(e->json()["translations"][0]["text"], "THE Wolke HERE");

  const auto other = s.ask("POST", "/v2/translate",
                           std::string(R"({"text": "a", "source_lang": "EN", "target_lang": "FR",
                                           "glossary_id": ")") +
                               id + "\"}");
  EXPECT_EQ(other->error_param(), "glossary_id");
  EXPECT_EQ(s.ask("DELETE", "/v2/glossaries/" + id)->status(), 204);
  EXPECT_EQ(s.ask("GET", "/v2/glossaries/" + id)->status(), 404);
}

TEST(Documents, GlossariesOfSeveralPairs) {
  DocumentServer s;
  const auto made = s.ask("POST", "/v3/glossaries",
                          R"({"name": "g", "dictionaries": [
                              {"source_lang": "EN", "target_lang": "DE", "entries": "a,b",
                               "entries_format": "csv"},
                              {"source_lang": "EN", "target_lang": "FR", "entries": "a\tc"}]})");
  ASSERT_EQ(made->status(), 201) << made->head->body;
  const std::string path = "/v3/glossaries/" + made->json()["glossary_id"].get<std::string>();
  EXPECT_EQ(made->json()["dictionaries"].size(), 2u);
  const std::string pair = "?source_lang=en&target_lang=de";
  s.ask("PATCH", path,
        R"({"name": "h", "dictionaries": [{"source_lang": "en", "target_lang": "de",
            "entries": "x\ty"}]})");
  EXPECT_EQ(s.ask("GET", path)->json()["name"], "h");
  EXPECT_EQ(s.ask("GET", path)->json()["dictionaries"][0]["entry_count"], 2);
  s.ask("PUT", path + "/dictionaries",
        R"({"source_lang": "en", "target_lang": "de", "entries": "q\tr"})");
  EXPECT_EQ(s.ask("GET", path + "/entries" + pair)->json()["dictionaries"][0]["entries"], "q\tr");
  EXPECT_EQ(s.ask("DELETE", path + "/dictionaries" + pair)->status(), 204);
  EXPECT_EQ(s.ask("GET", path + "/entries" + pair)->status(), 404);
  EXPECT_EQ(s.ask("GET", path)->json()["dictionaries"].size(), 1u);
  for (const char* bad :
       {R"({"name": "g"})", R"({"dictionaries": []})",
        R"({"name": "g", "dictionaries": [{"source_lang": "en", "target_lang": "xx",
                              "entries": "a\tb"}]})",
        R"({"name": "g", "dictionaries": [{"source_lang": "en",
                              "target_lang": "de", "entries": "a"}]})"})
    EXPECT_EQ(s.ask("POST", "/v3/glossaries", bad)->status(), 400) << bad;
}

TEST(Documents, AModelOfTwoLanguages) {
  FakeServer s;
  s.context.fixed_languages = {"en", "de"};
  const json languages = s.ask("GET", "/languages")->json();
  EXPECT_EQ(languages[0]["code"], "en");
  EXPECT_EQ(languages[0]["targets"], json({"de"}));
  s.ask("POST", "/translate", R"({"q": "a", "source": "en", "target": "de"})");
  ASSERT_EQ(s.engine.requests.size(), 1u);
  EXPECT_FALSE(s.engine.requests[0].options.has_tgt_lang());
  const auto wrong = s.ask("POST", "/translate", R"({"q": "a", "source": "en", "target": "fr"})");
  EXPECT_NE(wrong->json()["error"].get<std::string>().find("target"), std::string::npos);
}

TEST(DocumentStore, ResultsGoWhenTheirTimeIsOverOrRoomIsNeeded) {
  using server::DocumentStore;
  DocumentStore store;
  const auto now = DocumentStore::Clock::now();
  const auto first = store.begin({}, now), second = store.begin({}, now);
  EXPECT_NE(first.id, second.id);
  store.finish(first.id, std::string(DocumentStore::kMostBytes / 2 + 1, 'a'), now);
  store.finish(second.id, std::string(DocumentStore::kMostBytes / 2 + 1, 'b'),
               now + std::chrono::seconds(1));
  EXPECT_FALSE(store.find(first.id, now)) << "the older one gave way";
  EXPECT_TRUE(store.find(second.id, now)->result);
  EXPECT_FALSE(store.find(second.id, now + DocumentStore::kLifetime + std::chrono::seconds(2)));
  const auto under_way = store.begin({}, now);
  EXPECT_TRUE(store.find(under_way.id, now + 2 * DocumentStore::kLifetime));
  for (size_t i = 1; i < DocumentStore::kMostDocuments; ++i) store.begin({}, now);
  EXPECT_THROW(store.begin({}, now), InputError);
}

}  // namespace
}  // namespace tandem::documents_test
