// The client library and a server on this host: over TLS, through a proxy that cuts connections,
// and in process.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "client/in_process.h"
#include "client/tandem_client.h"
#include "tests/support/engine/fake_engine.h"
#include "tests/support/files/files.h"
#include "tests/support/network/tcp_proxy.h"

namespace tandem::client {
namespace {

using namespace std::chrono_literals;
using test::FakeEngineServer;
using test::TcpProxy;

class ClientTest : public ::testing::Test {
 protected:
  ClientTest() { ::setenv("XDG_RUNTIME_DIR", directory_.path().c_str(), 1); }
  // The client of a proxy uses the server's credentials.
  Client connect(const FakeEngineServer& server, uint16_t port,
                 std::chrono::milliseconds reconnect) {
    ClientOptions options;
    options.address = "127.0.0.1:" + std::to_string(port);
    options.access_file =
        (directory_ / ("tandem/client-" + std::to_string(server.port) + ".json")).string();
    options.reconnect_timeout = reconnect;
    return Client::connect(options);
  }
  static std::string error_type(const RequestHandle& request) {
    try {
      (void)request.get();
    } catch (const ClientError& e) {
      return e.type();
    }
    return "";
  }
  static void expect_count(const proto::RequestOutput& output, int n) {
    ASSERT_EQ(output.outputs_size(), 1);
    ASSERT_EQ(output.outputs(0).token_ids_size(), n);
    std::string text;
    for (int i = 0; i < n; ++i) {
      ASSERT_EQ(output.outputs(0).token_ids(i), i);
      text += std::to_string(i) + " ";
    }
    EXPECT_EQ(output.outputs(0).text(), text);
    EXPECT_TRUE(output.finished());
  }
  template <class F>
  static bool eventually(F&& condition) {
    for (int i = 0; i < 2000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(10ms);
    }
    return false;
  }

  test::TempDir directory_;
};

TEST_F(ClientTest, WhatIsSubmittedAfterTheEndFailsAtOnce) {
  FakeEngineServer server;
  Client client = Client::connect({.address = server.address});
  std::string under_way, afterwards;
  const auto note = [](std::string& type) {
    return [&type](const proto::RequestChunk& chunk) {
      EXPECT_TRUE(chunk.finished());
      type += chunk.error().type();
    };
  };
  const RequestHandle open = client.submit({.prompt = "hang"}, note(under_way));
  client.close();
  EXPECT_EQ(error_type(open), "connection_error");
  EXPECT_EQ(under_way, "connection_error");
  const RequestHandle late = client.submit({.prompt = "count 3"}, note(afterwards));
  EXPECT_EQ(afterwards, "connection_error");
  EXPECT_EQ(error_type(late), "connection_error");
}

TEST_F(ClientTest, SubmitsAndStreams) {
  FakeEngineServer server;
  Client client = Client::connect({.address = server.address});
  EXPECT_EQ(client.server_info().model(), "fake");
  std::vector<int> streamed;
  std::atomic<bool> last{false};
  RequestHandle request =
      client.submit({.prompt = "count 50"}, [&](const proto::RequestChunk& chunk) {
        for (const auto& output : chunk.outputs())
          streamed.insert(streamed.end(), output.token_ids().begin(), output.token_ids().end());
        last = chunk.finished();
      });
  const proto::RequestOutput output = request.get();
  expect_count(output, 50);
  EXPECT_TRUE(last);
  const auto& tokens = output.outputs(0).token_ids();
  EXPECT_EQ(std::vector<int>(tokens.begin(), tokens.end()), streamed);
  EXPECT_TRUE(request.id().compare(0, 4, "req-") == 0);
}

TEST_F(ClientTest, ChunksCanBePulled) {
  FakeEngineServer server;
  Client client = Client::connect({.address = server.address});
  RequestHandle request = client.submit({.prompt = "count 30"});
  int tokens = 0;
  while (const auto chunk = request.next_chunk()) {
    for (const auto& output : chunk->outputs()) {
      EXPECT_EQ(output.token_offset(), tokens);
      tokens += output.token_ids_size();
    }
  }
  EXPECT_EQ(tokens, 30);
  RequestHandle failing = client.submit({.prompt = "fail"});
  EXPECT_THROW((void)failing.next_chunk(), ClientError);
}

TEST_F(ClientTest, ErrorsCarryTypeAndField) {
  FakeEngineServer server;
  Client client = Client::connect({.address = server.address});
  try {
    (void)client.submit({.prompt = "fail"}).get();
    FAIL();
  } catch (const ClientError& e) {
    EXPECT_EQ(e.type(), "invalid_request_error");
    EXPECT_EQ(e.param(), "prompt");
  }
  EXPECT_THROW(Prompt("\xff\xfe"), ClientError);
  // What is read here fails here, the same way.
  const std::pair<Request, const char*> wrong[] = {
      {{.prompt = Prompt::raw_json("not json")}, ""},
      {{.prompt = Prompt::raw_json(R"({"prompt": 5})")}, "prompt.prompt"},
      {{.prompt = Prompt::pair(Prompt::pair("a", "b"), "c")}, "prompt.encoder_prompt"},
      {{.prompt = Prompt::pooled("a", "most")}, "pooling"},
      {{.prompt = "count 3", .params_json = "[1]"}, "params"},
      {{.prompt = "count 3", .params_json = R"({"top_p": 7})"}, "top_p"}};
  for (const auto& [request, param] : wrong) {
    int calls = 0;
    const RequestHandle handle = client.submit(request, [&](const proto::RequestChunk& chunk) {
      EXPECT_TRUE(chunk.finished() && chunk.has_error());
      ++calls;
    });
    try {
      (void)handle.get();
      ADD_FAILURE() << param;
    } catch (const ClientError& e) {
      EXPECT_EQ(e.type(), "invalid_request_error");
      EXPECT_EQ(e.param(), param);
    }
    EXPECT_EQ(calls, 1);
  }
  EXPECT_EQ(error_type(client.resume("unknown")), "not_found_error");
}

TEST_F(ClientTest, PromptsAreFields) {
  const Prompt pair = Prompt::pair(Prompt::token_ids({5, 6}), "b");
  const Prompt raw =
      Prompt::raw_json(R"({"encoder_prompt": [5, 6], "decoder_prompt": "b", "target": "c"})");
  EXPECT_EQ(Prompt::with_target(pair, "c").message().ShortDebugString(),
            raw.message().ShortDebugString());
  EXPECT_FALSE(Prompt::with_target(pair, "c", false).message().append_eos());
}

TEST_F(ClientTest, Embeddings) {
  const Prompt pooled = Prompt::pooled("a \"b\"", "cls", false);
  EXPECT_EQ(pooled.message().encoder().text(), "a \"b\"");
  EXPECT_EQ(pooled.message().pooling().kind(), proto::Pooling::CLS);
  EXPECT_FALSE(pooled.message().pooling().normalize());
  proto::RequestOutput output;
  output.set_finished(true);
  EXPECT_THROW((void)embedding_of(output), ClientError) << "text";
  output.mutable_embedding()->add_values(0.5f);
  EXPECT_EQ(embedding_of(output), std::vector<float>{0.5f});
  output.set_finished(false);
  EXPECT_THROW((void)embedding_of(output), ClientError);
  FakeEngineServer server;
  Client client = Client::connect({.address = server.address});
  EXPECT_THROW((void)client.embed("count 3", "nonsense \xff"), ClientError);
}

TEST_F(ClientTest, BatchesAreIndependent) {
  FakeEngineServer server;
  Client client = Client::connect({.address = server.address});
  std::vector<Request> requests;
  for (int i = 0; i < 40; ++i)
    requests.push_back({.prompt = i % 4 == 0 ? "fail" : "count " + std::to_string(i)});
  const auto handles = client.submit_batch(requests);
  for (int i = 0; i < 40; ++i) {
    if (i % 4 == 0) {
      EXPECT_EQ(error_type(handles[static_cast<size_t>(i)]), "invalid_request_error");
    } else {
      expect_count(handles[static_cast<size_t>(i)].get(), i);
    }
  }
}

TEST_F(ClientTest, CancelReachesTheServer) {
  FakeEngineServer server;
  Client client = Client::connect({.address = server.address});
  RequestHandle request = client.submit({.prompt = "hang"});
  ASSERT_TRUE(eventually([&] { return server.counters->submits == 1; }));
  request.cancel();
  EXPECT_EQ(error_type(request), "cancelled");
  EXPECT_TRUE(eventually([&] { return server.counters->cancels == 1; }));
}

TEST_F(ClientTest, ASlowReaderHoldsTheServerUp) {
  FakeEngineServer server;
  Client client = Client::connect({.address = server.address});
  std::promise<void> go;
  std::shared_future<void> gone = go.get_future();
  const RequestHandle request =
      client.submit({.prompt = "count 400"}, [gone](const proto::RequestChunk&) { gone.wait(); });
  ASSERT_TRUE(eventually([&] { return server.counters->unacknowledged == 16; }));
  std::this_thread::sleep_for(300ms);  // some 150 tokens
  EXPECT_EQ(server.counters->messages, 16u);
  go.set_value();
  expect_count(request.get(), 400);
}

TEST_F(ClientTest, WhatACallbackThrowsEndsItsRequest) {
  FakeEngineServer server;
  Client client = Client::connect({.address = server.address});
  const RequestHandle request =
      client.submit({.prompt = "count 1000000"},
                    [](const proto::RequestChunk&) { throw std::out_of_range("x"); });
  EXPECT_THROW((void)request.get(), std::out_of_range);
  EXPECT_TRUE(eventually([&] { return server.counters->cancels == 1; }));
  expect_count(client.submit({.prompt = "count 3"}).get(), 3);
}

TEST_F(ClientTest, StreamsGoOnAfterConnectionsBreak) {
  FakeEngineServer server;
  TcpProxy proxy(server.port);
  Client client = connect(server, proxy.port(), 30s);
  std::vector<RequestHandle> requests;
  for (int i = 0; i < 5; ++i) requests.push_back(client.submit({.prompt = "count 700"}));
  for (int i = 0; i < 4; ++i) {
    const int before = proxy.num_connections();
    proxy.cut();
    ASSERT_TRUE(eventually([&] { return proxy.num_connections() > before; }));
    std::this_thread::sleep_for(50ms);
  }
  for (const RequestHandle& request : requests) expect_count(request.get(), 700);
  EXPECT_GT(server.counters->resumes, 0);
  EXPECT_EQ(server.counters->submits, 5);
}

TEST_F(ClientTest, ASilentConnectionIsGivenUp) {
  FakeEngineServer server;
  TcpProxy proxy(server.port);
  Client client = connect(server, proxy.port(), 60s);
  const RequestHandle request = client.submit({.prompt = "count 2000"});
  std::this_thread::sleep_for(100ms);
  proxy.hold(true);
  ASSERT_TRUE(eventually([&] { return server.counters->clients_gone == 1; }));
  ASSERT_TRUE(eventually([&] { return proxy.num_connections() > 1; }));
  proxy.hold(false);
  expect_count(request.get(), 2000);
}

TEST_F(ClientTest, AServerThatDiesForGoodFailsRequestsInTime) {
  auto server = std::make_unique<FakeEngineServer>();
  TcpProxy proxy(server->port);
  Client client = connect(*server, proxy.port(), 1s);
  const RequestHandle request = client.submit({.prompt = "hang"});
  ASSERT_TRUE(eventually([&] { return server->counters->submits == 1; }));
  server.reset();
  EXPECT_EQ(error_type(request), "connection_error");
  EXPECT_EQ(error_type(client.submit({.prompt = "hang"})), "connection_error");
  EXPECT_THROW((void)client.server_info(), ClientError);
}

TEST_F(ClientTest, ARestartedServerGetsWhatTheOldOneNeverAnswered) {
  auto server = std::make_unique<FakeEngineServer>();
  const uint16_t port = server->port;
  Client client = Client::connect({.address = server->address});
  server->counters->paused = true;
  const RequestHandle request = client.submit({.prompt = "count 20"});
  ASSERT_TRUE(eventually([&] { return server->counters->submits == 1; }));
  server.reset();
  server = std::make_unique<FakeEngineServer>(port);  // another authority
  expect_count(request.get(), 20);
  EXPECT_EQ(server->counters->submits, 1);
}

TEST_F(ClientTest, AnotherClientTakesAStreamOver) {
  FakeEngineServer server;
  std::string id;
  {
    Client first = Client::connect({.address = server.address});
    RequestHandle request = first.submit({.prompt = "count 500"});
    id = request.id();
    ASSERT_TRUE(request.next_chunk());
    first.close();
    EXPECT_EQ(error_type(request), "connection_error");
    EXPECT_EQ(error_type(first.submit({.prompt = "count 1"})), "connection_error");
  }
  Client second = Client::connect({.address = server.address});
  expect_count(second.resume(id).get(), 500);
}

TEST_F(ClientTest, ConnectTellsWhyItFailed) {
  ClientOptions options;
  options.address = "127.0.0.1:1";
  options.connect_timeout = 300ms;
  for (const bool retry : {false, true}) {
    options.retry = retry;
    try {
      Client::connect(options);
      FAIL();
    } catch (const ClientError& e) {
      EXPECT_EQ(e.type(), "connection_error");
      EXPECT_NE(std::string(e.what()).find("nothing listens at 127.0.0.1:1"), std::string::npos)
          << e.what();
    }
  }
  FakeEngineServer server;
  server.counters->version = 7;
  try {
    Client::connect({.address = server.address});
    FAIL();
  } catch (const ClientError& e) {
    EXPECT_EQ(e.type(), "protocol_error");
  }
}

TEST_F(ClientTest, WorksInProcess) {
  const actors::SystemOptions options;
  actors::SystemConfig config(options, nullptr);
  caf::actor_system system(config);
  auto counters = std::make_shared<test::FakeEngineCounters>();
  const auto engine =
      caf::actor_cast<actors::EngineHandle>(system.spawn(test::fake_engine, counters));
  Client client = connect_in_process(system, engine, "inside");
  expect_count(client.submit({.prompt = "count 25"}).get(), 25);
  const RequestHandle request = client.submit({.prompt = "hang"});
  caf::anon_send_exit(engine, caf::exit_reason::kill);
  EXPECT_EQ(error_type(request), "connection_error");
  EXPECT_EQ(error_type(client.submit({.prompt = "count 1"})), "connection_error");
}

}  // namespace
}  // namespace tandem::client
