// Clients of another release are turned away, and are told why in a message that they understand.
#include <gtest/gtest.h>

#include <caf/all.hpp>
#include <chrono>
#include <future>
#include <memory>

#include "actors/cluster.h"
#include "actors/cluster_impl.h"
#include "runtime/protocol/version.h"
#include "tests/support/goldens/golden_cluster_config.h"

namespace tandem::actors {
namespace {

// Says hello in `version` and asks for the server's information; what comes in each case.
struct Answers {
  std::promise<proto::Error> refusal;
  std::promise<proto::ServerInfo> info;
};

void visit(Cluster& cluster, uint32_t version, const std::shared_ptr<Answers>& answers) {
  const auto engine = caf::actor_cast<EngineHandle>(cluster.impl().engine);
  ClientHandle client = cluster.impl().system->spawn([answers]() -> ClientHandle::behavior_type {
    return {[answers](const ServerMessage& message) {
      for (const proto::RequestChunk& chunk : message->chunks())
        if (chunk.request_id().empty()) answers->refusal.set_value(chunk.error());
      if (message->has_info()) answers->info.set_value(message->info());
    }};
  });
  proto::ClientMessage hello, query;
  hello.mutable_hello()->set_protocol_version(version);
  query.mutable_get_info()->set_query(1);
  caf::anon_send(engine, client, ClientMessage(std::move(hello)));
  caf::anon_send(engine, client, ClientMessage(std::move(query)));
}

TEST(ProtocolVersion, AClientOfAnotherOneIsToldBoth) {
  Cluster cluster(testing::golden_cluster_config("bart-tiny"), std::unique_ptr<GroupLauncher>());
  const auto answers = std::make_shared<Answers>();
  visit(cluster, 3, answers);
  auto refusal = answers->refusal.get_future();
  auto info = answers->info.get_future();
  ASSERT_EQ(refusal.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  const proto::Error error = refusal.get();
  EXPECT_EQ(error.param(), "protocol_version");
  EXPECT_EQ(error.message(), "protocol_version: " + version_mismatch("client", 3, "server"));
  EXPECT_NE(error.message().find("version 3 of the protocol, this server version 4"),
            std::string::npos);
  // One that looks for the version in the answer to its question finds it there.
  ASSERT_EQ(info.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_EQ(info.get().protocol_version(), kProtocolVersion);
}

}  // namespace
}  // namespace tandem::actors
