// The ranks of a group as threads of the test.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "parallel/communicators/shared_memory_communicator.h"

namespace tandem::testing {

// Runs body(comm) for every rank of a new group, each in a thread of its own; what a rank throws is
// returned as text, by rank (empty: nothing). A rank that ends by an exception leaves the group.
template <class Body>
std::vector<std::string> run_ranks(int ranks, const CommunicatorOptions& options, Body&& body) {
  auto comms = make_thread_communicators(ranks, options);
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (size_t r = 0; r < comms.size(); ++r)
    threads.emplace_back([&, r] {
      const std::unique_ptr<Communicator> comm = std::move(comms[r]);
      try {
        body(*comm);
      } catch (const std::exception& e) {
        errors[r] = e.what();
      }
    });
  for (std::thread& t : threads) t.join();
  return errors;
}

}  // namespace tandem::testing
