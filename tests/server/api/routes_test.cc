// Routes, keys, CORS, models and tokens, without sockets and without an engine.
#include "server/api/routes.h"

#include <gtest/gtest.h>

#include <cctype>
#include <set>

#include "base/json.h"
#include "tests/support/network/fake_http.h"

namespace tandem {
namespace {

using nlohmann::json;
using test::FakeServer;

TEST(Routes, UnknownPathsAndMethods) {
  FakeServer s;
  EXPECT_EQ(s.ask("GET", "/nothing")->status(), 404);
  const auto wrong = s.ask("GET", "/v1/completions");
  EXPECT_EQ(wrong->status(), 405);
  EXPECT_EQ(*wrong->header("allow"), "POST, OPTIONS");
  EXPECT_EQ(*s.ask("POST", "/health")->header("allow"), "GET, HEAD, OPTIONS");
  const auto options = s.ask("OPTIONS", "/health");
  EXPECT_EQ(options->status(), 204);
  EXPECT_EQ(*options->header("allow"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(s.ask("OPTIONS", "*")->status(), 204);
  EXPECT_EQ(*s.ask("OPTIONS", "*")->header("allow"), "GET, HEAD, POST, OPTIONS");
  EXPECT_EQ(s.ask("HEAD", "/health")->status(), 200);
  EXPECT_EQ(s.ask("DELETE", "/health")->status(), 405);
}

TEST(Routes, HealthFollowsTheEngine) {
  FakeServer s;
  for (const char* path : {"/health", "/ping", "/v2/health/ready"}) {
    s.engine.state = {.ready = true, .draining = false, .reason = "", .info = {}};
    EXPECT_EQ(s.ask("GET", path)->status(), 200) << path;
    s.engine.state.ready = false;
    s.engine.state.reason = "the workers are being started again";
    const auto down = s.ask("GET", path);
    EXPECT_EQ(down->status(), 503);
    EXPECT_EQ(down->json()["error"]["message"], s.engine.state.reason);
    s.engine.state.ready = s.engine.state.draining = true;
    EXPECT_EQ(s.ask("GET", path)->status(), 503);
  }
  EXPECT_EQ(s.ask("GET", "/live")->status(), 200) << "whatever the engine does";
}

// While live sessions finish, the engine is not told to drain yet.
TEST(Routes, AServerThatEndsTakesNothingNew) {
  FakeServer s;
  s.engine.state.ready = true;
  s.context.ending = true;
  EXPECT_EQ(s.ask("GET", "/health")->status(), 503);
  EXPECT_EQ(s.ask("POST", "/v1/completions", R"({"prompt": "a"})")->status(), 503);
  EXPECT_TRUE(s.engine.requests.empty());
  EXPECT_EQ(s.ask("GET", "/status")->json()["draining"], true);
}

TEST(Routes, KeysGuardAllButHealth) {
  FakeServer s;
  s.config.api_keys = {"first", "second"};
  for (const char* path : {"/v1/models", "/metrics", "/status", "/version", "/openapi.json"}) {
    EXPECT_EQ(s.ask("GET", path)->status(), 401) << path;
    EXPECT_EQ(s.ask("GET", path, "", {{"authorization", "Bearer third"}})->status(), 401);
    EXPECT_EQ(s.ask("GET", path, "", {{"authorization", "first"}})->status(), 401);
    EXPECT_EQ(s.ask("GET", path, "", {{"authorization", "Bearer "}})->status(), 401);
    EXPECT_EQ(s.ask("GET", path, "", {{"authorization", "Bearer first"}})->status(), 200);
    for (const char* right : {"bearer second", "BEARER  second", "Bearer \t second \t"})
      EXPECT_EQ(s.ask("GET", path, "", {{"authorization", right}})->status(), 200) << right;
    for (const char* wrong : {"Bearersecond", "Basic second", "Bearer secon", "Bearer second x",
                              "Bearer secondx", "Bearer", "Bearer \t", ""})
      EXPECT_EQ(s.ask("GET", path, "", {{"authorization", wrong}})->status(), 401) << wrong;
  }
  for (const char* path : {"/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"})
    EXPECT_EQ(s.ask("POST", path, "{}")->status(), 401) << path;
  for (const char* path : {"/health", "/live", "/ping", "/v2/health/live", "/v2/health/ready"})
    EXPECT_EQ(s.ask("GET", path)->status(), 200) << path;
  EXPECT_TRUE(s.engine.requests.empty());
}

TEST(Routes, OtherSpellingsOfPaths) {
  FakeServer s;
  for (const char* path : {"/models", "/openai/v1/models", "/openai/deployments/any/models"})
    EXPECT_EQ(s.ask("GET", path)->json()["data"].size(), 2u) << path;
  for (const char* path : {"/models/alias", "/openai/v1/models/alias"})
    EXPECT_EQ(s.ask("GET", path)->json()["id"], "alias") << path;
  EXPECT_EQ(s.ask("POST", "/openai/deployments/x/completions", R"({"prompt": "a"})")->status(), 0);
  EXPECT_EQ(s.engine.requests.size(), 1u);
  for (const char* path : {"/openai/deployments/x", "/openai/deployments/", "/openai/v1/", "/v1/",
                           "/openai/deployments/x/nothing", "/v1/v1/models"})
    EXPECT_EQ(s.ask("GET", path)->status(), 404) << path;
  s.config.api_keys = {"k"};
  EXPECT_EQ(s.ask("GET", "/v1/models", "", {{"api-key", "k"}})->status(), 200);
  EXPECT_EQ(s.ask("GET", "/v1/models", "", {{"api-key", "x"}})->status(), 401);
}

TEST(Routes, CrossOriginRequests) {
  FakeServer s;
  s.config.allowed_origins = {"https://a.example"};
  const server::Headers from_a{{"origin", "https://a.example"}},
      from_b{{"origin", "https://b.example"}};
  EXPECT_EQ(*s.ask("GET", "/live", "", from_a)->header("access-control-allow-origin"),
            "https://a.example");
  EXPECT_EQ(s.ask("GET", "/live", "", from_b)->header("access-control-allow-origin"), nullptr);
  EXPECT_EQ(s.ask("GET", "/live")->header("access-control-allow-origin"), nullptr);
  for (const auto& headers : {from_a, from_b, server::Headers{}})
    EXPECT_EQ(*s.ask("GET", "/live", "", headers)->header("vary"), "origin")
        << "a cache does not give one's answer to another";
  s.config.api_keys = {"key"};
  // What OpenAI's client in a browser sends.
  const std::string names = "api-key,authorization,content-type,x-stainless-arch,x-stainless-os";
  const auto preflight = [&](const std::string& origin, const std::string& asked) {
    return s.ask("OPTIONS", "/v1/completions", "",
                 {{"origin", origin},
                  {"access-control-request-method", "POST"},
                  {"access-control-request-headers", asked}});
  };
  const auto allowed = preflight("https://a.example", names);
  EXPECT_EQ(allowed->status(), 204) << "browsers send no key with it";
  EXPECT_EQ(*allowed->header("access-control-allow-methods"), "POST");
  EXPECT_EQ(*allowed->header("access-control-allow-headers"), names);
  EXPECT_EQ(*allowed->header("access-control-allow-origin"), "https://a.example");
  for (const char* header : {"access-control-allow-methods", "access-control-allow-headers",
                             "access-control-allow-origin"})
    EXPECT_EQ(preflight("https://b.example", names)->header(header), nullptr) << header;
  EXPECT_EQ(preflight("https://a.example", "a;b")->header("access-control-allow-headers"), nullptr);
  EXPECT_EQ(*s.ask("POST", "/v1/completions", "{}", from_a)->header("access-control-allow-origin"),
            "https://a.example")
      << "errors too, or the page could not read them";
}

TEST(Routes, OpenApiNamesEveryRoute) {
  FakeServer s;
  const json document = s.ask("GET", "/openapi.json")->json();
  EXPECT_EQ(document["openapi"], "3.1.0");
  for (const char* path :
       {"/v1/completions", "/v1/chat/completions", "/health", "/metrics", "/tokenize"})
    EXPECT_TRUE(document["paths"].contains(path)) << path;
  EXPECT_TRUE(document["paths"]["/v1/completions"].contains("post"));
  EXPECT_EQ(document["servers"], json_from<json>(R"([{"url": "/"}])"));
  s.config.root_path = "/below";
  EXPECT_EQ(s.ask("GET", "/openapi.json")->json()["servers"],
            json_from<json>(R"([{"url": "/below"}])"));
}

void collect_references(const json& value, std::set<std::string>& out) {
  if (value.is_object() && value.contains("$ref")) out.insert(value["$ref"].get<std::string>());
  if (value.is_structured())
    for (const json& one : value) collect_references(one, out);
}

TEST(Routes, EveryRouteHasSchemas) {
  FakeServer s;
  const json document = s.ask("GET", "/openapi.json")->json();
  const json& schemas = document["components"]["schemas"];
  std::set<std::string> named, used;
  for (const server::Route& route : server::routes()) {
    std::string method = route.method;
    for (char& c : method) c = static_cast<char>(std::tolower(c));
    const json& operation = document["paths"][std::string(route.path)][method];
    EXPECT_EQ(method != "get" && method != "delete", operation.contains("requestBody"))
        << method << " " << route.path;
    const bool empty = operation["responses"].contains("204");
    EXPECT_EQ(empty, method == "delete") << route.path;
    for (const auto& [status, answer] : operation["responses"].items()) {
      if (status == "204") continue;
      ASSERT_FALSE(answer["content"].empty()) << route.path;
      for (const auto& [type, content] : answer["content"].items())
        EXPECT_FALSE(content["schema"].empty()) << route.path << type;
    }
    EXPECT_TRUE((empty || operation["responses"].contains(route.live() ? "101" : "200")) &&
                operation["responses"].contains("default"));
    collect_references(operation, used);
  }
  // Those of schemas that are used are used.
  for (size_t before = 0; before != used.size();) {
    before = used.size();
    for (const auto& [name, schema] : schemas.items())
      if (used.contains("#/components/schemas/" + name)) collect_references(schema, used);
  }
  for (const auto& [name, schema] : schemas.items()) named.insert("#/components/schemas/" + name);
  EXPECT_EQ(named, used) << "each reference has its schema, and none is left over";
}

TEST(Routes, OneModel) {
  FakeServer s;
  s.config.model_names = {"org/model", "alias"};
  s.config.silent_names = {"/srv/secret/model"};
  const json one = s.ask("GET", "/v1/models/org/model")->json();
  EXPECT_EQ(one["id"], "org/model");
  EXPECT_EQ(one["object"], "model");
  EXPECT_EQ(one, s.ask("GET", "/v1/models")->json()["data"][0]);
  EXPECT_EQ(s.ask("GET", "/v1/models/alias")->json()["root"], "org/model");
  for (const char* other : {"/v1/models/model", "/v1/models//srv/secret/model", "/v1/models/"}) {
    const auto e = s.ask("GET", other);
    EXPECT_EQ(e->status(), 404) << other;
    EXPECT_EQ(e->json()["error"]["type"], "not_found_error");
  }
  EXPECT_EQ(s.ask("POST", "/v1/models/alias")->status(), 405);
  EXPECT_EQ(s.ask("GET", "/v1/models")->head->body.find("secret"), std::string::npos);
  // Requests may still give the path; the answer does not.
  const auto e =
      s.ask("POST", "/v1/completions", R"({"prompt": "a", "model": "/srv/secret/model"})");
  s.engine.say(0, "x", {5}, "stop");
  e->run_posted();
  EXPECT_EQ(e->json()["model"], "org/model");
  s.config.api_keys = {"key"};
  EXPECT_EQ(s.ask("GET", "/v1/models/alias")->status(), 401);
}

// What the header alone decides, before any body.
TEST(Routes, Admission) {
  FakeServer s;
  s.config.api_keys = {"key"};
  s.config.allowed_origins = {"*"};
  const auto admit = [&](const char* method, const char* path,
                         const server::Headers& headers = {}) {
    server::HttpRequest head;
    head.method = method;
    head.path = path;
    head.headers = headers;
    return s.application.admit(head);
  };
  const auto stranger = admit("POST", "/v1/completions", {{"origin", "https://a"}});
  ASSERT_TRUE(stranger.refusal);
  EXPECT_EQ(stranger.refusal->status, 401);
  EXPECT_EQ(stranger.refusal->headers.back().first, "access-control-expose-headers");
  EXPECT_EQ(admit("POST", "/nothing").refusal->status, 404);
  EXPECT_EQ(admit("POST", "/live").refusal->status, 405);
  EXPECT_EQ(admit("OPTIONS", "/v1/completions").refusal->status, 204);
  const auto friendly = admit("POST", "/v1/completions", {{"authorization", "Bearer key"}});
  EXPECT_FALSE(friendly.refusal);
  EXPECT_TRUE(friendly.takes_body);
  EXPECT_FALSE(friendly.open);
  for (const char* path : {"/live", "/health"}) {
    const auto health = admit("GET", path);
    EXPECT_FALSE(health.refusal || health.takes_body) << path;
    EXPECT_TRUE(health.open) << path;
  }
  EXPECT_FALSE(admit("GET", "/metrics", {{"authorization", "Bearer key"}}).open);
}

TEST(Routes, ModelsAndTokens) {
  FakeServer s;
  const json models = s.ask("GET", "/v1/models")->json();
  ASSERT_EQ(models["data"].size(), 2u);
  EXPECT_EQ(models["data"][1]["id"], "alias");
  EXPECT_EQ(models["data"][0]["max_model_len"], 512);
  const json tokens =
      s.ask("POST", "/tokenize", R"({"prompt": "ab", "return_token_strs": true})")->json();
  EXPECT_EQ(tokens["tokens"], json({0, 100, 101, 2}));
  EXPECT_EQ(tokens["token_strs"][1], "a");
  EXPECT_EQ(s.ask("POST", "/tokenize", R"({"prompt": "ab", "add_special_tokens": false})")
                ->json()["count"],
            2);
  EXPECT_EQ(s.ask("POST", "/detokenize", R"({"tokens": [100, 101]})")->json()["prompt"], "ab");
  EXPECT_EQ(s.ask("POST", "/detokenize", R"({"tokens": [100, -1]})")->error_param(), "tokens");
  EXPECT_EQ(s.ask("POST", "/detokenize", R"({"tokens": [9999999999]})")->error_param(), "tokens");
  EXPECT_EQ(s.ask("POST", "/detokenize", R"({"tokens": ["a"]})")->error_param(), "tokens");
  EXPECT_EQ(s.ask("POST", "/tokenize", R"({"prompt": 5})")->error_param(), "prompt");
  EXPECT_EQ(s.ask("POST", "/tokenize", R"({"prompt": "a", "promt": 1})")->error_param(), "promt");
}

}  // namespace
}  // namespace tandem
