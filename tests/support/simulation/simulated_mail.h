// What ranks of a simulated group send to each other. It takes its time, and nobody waits: whoever
// reads what has not arrived is told so, and tries again.
#pragma once

#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "parallel/communicators/round_communicator.h"
#include "tests/support/simulation/simulated_world.h"

namespace tandem::testing_support {

// One rank's end. Messages only; a simulated stage needs no collectives.
class SimulatedMail final : public Communicator {
 public:
  struct NotYet {};
  using Carry = std::function<void(int to, std::string message)>;

  SimulatedMail(int rank, int size, Carry carry)
      : rank_(rank), from_(static_cast<size_t>(size)), carry_(std::move(carry)) {}

  // A message to this rank has been sent, and has arrived. A real sender would wait for a receiver
  // that is so far behind.
  void is_on_its_way(int from) {
    SIM_CHECK(++at(from).unread <= kPiecesBetween, "a sender waits for a stage before it");
  }
  void deliver(int from, std::string message) { at(from).arrived.push_back(std::move(message)); }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(from_.size()); }
  const char* transport() const override { return "simulated"; }
  void send(const Tensor& x, int to) override {
    carry_(to, std::string(static_cast<const char*>(x.raw()), x.bytes()));
  }
  void receive(const Tensor& x, int from) override {
    if (at(from).arrived.empty()) throw NotYet();
    const std::string message = std::move(at(from).arrived.front());
    at(from).arrived.pop_front();
    --at(from).unread;
    SIM_CHECK(message.size() == x.bytes(), "ranks go astray");
    std::memcpy(x.raw(), message.data(), message.size());
  }
  void all_reduce(const Tensor&) override { refuse(); }
  void all_gather(const Tensor&, const Tensor&) override { refuse(); }
  void all_to_all(const Tensor&, const Tensor&) override { refuse(); }
  void broadcast(const Tensor&, int) override { refuse(); }
  void barrier() override { refuse(); }
  void abort() override {}

 private:
  struct Box {
    std::deque<std::string> arrived;
    uint32_t unread = 0;  // those on their way, too
  };
  Box& at(int from) { return from_[static_cast<size_t>(from)]; }
  static void refuse() { SIM_CHECK(false, "a collective"); }

  int rank_;
  std::vector<Box> from_;
  Carry carry_;
};

}  // namespace tandem::testing_support
