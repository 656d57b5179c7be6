// What a sound server makes of the load's requests, found out once per program.
#pragma once

#include "tests/support/processes/client_load.h"
#include "tests/support/processes/server.h"

namespace tandem::test {

inline const std::vector<LoadCase>& sound_cases() {
  static const std::vector<LoadCase> cases = [] {
    Server server({"--distributed-executor-backend", "threads"});
    auto client = client::Client::connect(server.client_options());
    return undisturbed(client);
  }();
  return cases;
}

// Nothing is kept of what has been served: every block is free, no request is known.
inline void expect_idle(client::Client& client) {
  EXPECT_TRUE(eventually(5s, [&] {
    const auto info = client.server_info();
    bool idle = info.num_requests() == 0;
    for (const auto& r : info.replicas())
      idle = idle && r.up() && r.num_requests() == 0 &&
             r.stats().num_free_blocks() == r.stats().num_total_blocks();
    return idle;
  })) << client.server_info().DebugString();
}

}  // namespace tandem::test
