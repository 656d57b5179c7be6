// A SupervisorCore of two ranks, and what it says to the others.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/engine/supervisor_core.h"

namespace tandem {

class SupervisorCoreTest : public ::testing::Test, public SupervisorOutbox {
 protected:
  SupervisorCoreTest() {
    config.replica = 7;
    config.size = 2;
    config.max_restarts = 3;
    config.restart_window = 60;
    config.startup_timeout = 10;
    config.hello_timeout = 10;
    config.stop_timeout = 2;
    config.first_backoff = 1;
    config.max_backoff = 4;
    config.setup.mutable_config()->mutable_loading()->set_model("model");
  }

  void launch(int replica, uint64_t generation) override {
    EXPECT_EQ(replica, 7);
    said("launch " + std::to_string(generation));
  }
  void stop(int, uint64_t generation) override { said("stop " + std::to_string(generation)); }
  void to_worker(int, int rank, proto::WorkerCommand command) override {
    said((command.has_setup() ? "setup " : "start ") + std::to_string(rank));
    last = command;
  }
  void group_up(int, uint64_t generation, const CacheSize& cache) override {
    said("up " + std::to_string(generation) + ": " + std::to_string(cache.num_device_blocks) + "+" +
         std::to_string(cache.num_host_blocks));
  }
  void group_down(int, uint64_t generation, const std::string& cause, bool crashed) override {
    said("down " + std::to_string(generation) + (crashed ? " crashed: " : ": ") + cause);
  }
  void loading(int, uint64_t done, uint64_t total) override {
    said("loading " + std::to_string(done) + "/" + std::to_string(total));
  }
  void give_up(int, const std::string& reason, bool bad_input) override {
    said(bad_input ? "bad input" : "give up");
    given_up = reason;
  }
  void said(const std::string& what) { heard_.push_back(what); }
  std::vector<std::string> heard() { return std::exchange(heard_, {}); }

  SupervisorCore& core() {
    if (!core_) core_ = std::make_unique<SupervisorCore>(config, *this);
    return *core_;
  }
  proto::WorkerReport report(int rank, uint64_t generation = 0) {
    proto::WorkerReport r;
    r.set_rank(rank);
    r.set_generation(generation > 0 ? generation : core().generation());
    return r;
  }
  bool send(const proto::WorkerReport& r) {
    const bool taken = core().worker_report(r, now);
    core().check_integrity();
    return taken;
  }
  bool hello(int rank, uint64_t generation = 0) {
    auto r = report(rank, generation);
    r.mutable_hello()->set_protocol_version(kProtocolVersion);
    return send(r);
  }
  bool loaded(int rank, int device = 10, int host = 5) {
    auto r = report(rank);
    r.mutable_loaded()->set_num_device_blocks(device);
    r.mutable_loaded()->set_num_host_blocks(host);
    return send(r);
  }
  bool ready(int rank) {
    auto r = report(rank);
    r.mutable_ready();
    return send(r);
  }
  void come_up() {
    for (const int rank : {0, 1}) hello(rank);
    for (const int rank : {0, 1}) loaded(rank);
    for (const int rank : {0, 1}) ready(rank);
    EXPECT_EQ(core().state(), SupervisorCore::State::kUp);
    heard();
  }
  void start_and_come_up() {
    core().start(now);
    come_up();
  }
  void tick(double seconds) {
    now += seconds;
    core().tick(now);
    core().check_integrity();
  }
  void die(DeathKind kind = DeathKind::kUnknown) {
    core().worker_down(core().generation(), 1, "gone", kind, now);
    core().check_integrity();
  }
  void exited() {
    core().launch_exited(core().generation(), "exit 1", now);
    core().check_integrity();
  }

  SupervisorConfig config;
  double now = 100;
  proto::WorkerCommand last;
  std::string given_up;

 private:
  std::unique_ptr<SupervisorCore> core_;
  std::vector<std::string> heard_;
};

}  // namespace tandem
