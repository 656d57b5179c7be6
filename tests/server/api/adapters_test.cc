// Adapters over HTTP: their names count as models', and they come and go if the server allows it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/request/adapter_names.h"
#include "tests/support/network/fake_http.h"

namespace tandem {
namespace {

using nlohmann::json;
using test::FakeServer;

struct AdapterServer : FakeServer {
  explicit AdapterServer(bool may_change = false) : names(with_news(may_change), "model") {
    config.adapters = &names;
  }
  static proto::AdapterConfig with_news(bool may_change) {
    proto::AdapterConfig out;
    proto::AdapterModule& module = *out.add_modules();
    module.set_name("news");
    module.set_path("/adapters/of-news");
    out.set_allow_runtime_lora_updating(may_change);
    return out;
  }
  AdapterNames names;
};

TEST(HttpAdapters, AModelMayBeAnAdapter) {
  const std::pair<const char*, json> requests[] = {
      {"/v1/completions", {{"prompt", "a"}}},
      {"/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", "a"}}}}}},
      {"/v1/embeddings", {{"input", "a"}}},
      {"/v1/translate", {{"text", {"a"}}}},
      {"/v1/target_scores", {{"prompt", "a"}, {"target", "b"}}}};
  for (const auto& [path, body] : requests)
    for (const char* model : {"news", "model"}) {
      AdapterServer s;
      json with_model = body;
      with_model["model"] = model;
      s.ask("POST", path, with_model.dump());
      ASSERT_EQ(s.engine.requests.size(), 1u) << path;
      EXPECT_EQ(s.engine.requests[0].options.lora(), std::string(model) == "news" ? "news" : "")
          << path;
    }
  AdapterServer s;
  EXPECT_EQ(s.ask("POST", "/v1/completions", R"({"prompt": "a", "model": "new"})")->status(), 404);
}

TEST(HttpAdapters, AreListedAmongTheModels) {
  AdapterServer s;
  const json data = s.ask("GET", "/v1/models")->json()["data"];
  ASSERT_EQ(data.size(), 3u);
  EXPECT_EQ(data[2]["id"], "news");
  EXPECT_EQ(data[2]["parent"], "model");
  EXPECT_EQ(data[2]["root"], "of-news");  // where it lies is nobody's business
  EXPECT_EQ(data[0]["parent"], nullptr);
  EXPECT_EQ(s.ask("GET", "/v1/models/news")->json(), data[2]);
}

TEST(HttpAdapters, ComeAndGoOnlyIfThatIsAllowed) {
  const std::string unload = R"({"lora_name": "news"})";
  const std::string load = R"({"lora_name": "x", "lora_path": "/adapters/x"})";
  AdapterServer closed;
  for (const auto& [path, body] :
       {std::pair("/v1/unload_lora_adapter", unload), std::pair("/v1/load_lora_adapter", load)}) {
    const auto answer = closed.ask("POST", path, body);
    EXPECT_EQ(answer->status(), 400) << path;
    EXPECT_NE(
        answer->json()["error"]["message"].get<std::string>().find("--allow-runtime-lora-updating"),
        std::string::npos);
  }
  AdapterServer open(/*may_change=*/true);
  EXPECT_EQ(open.ask("POST", "/v1/load_lora_adapter", load)->status(), 503);  // nothing is loaded
  EXPECT_EQ(open.ask("POST", "/v1/load_lora_adapter", unload)->status(), 400);
  EXPECT_EQ(open.ask("POST", "/v1/unload_lora_adapter", unload)->status(), 200);
  EXPECT_EQ(open.ask("POST", "/v1/unload_lora_adapter", unload)->status(), 404);
  EXPECT_EQ(open.ask("GET", "/v1/models")->json()["data"].size(), 2u);
}

}  // namespace
}  // namespace tandem
