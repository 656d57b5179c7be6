#pragma once

#include <cstdint>
#include <string>

#include "runtime/protocol/tandem.pb.h"

namespace tandem::testing_support {

// Who hears of a group. Messages arrive some time after the call.
class GroupListener {
 public:
  virtual ~GroupListener() = default;
  virtual void report_to_supervisor(const proto::WorkerReport& report) = 0;
  virtual void connection_lost(int replica, uint64_t generation, int rank) = 0;
  virtual void launch_ended(int replica, uint64_t generation, const std::string& status) = 0;
  virtual void report_to_scheduler(const proto::WorkerReport& report) = 0;
  // Steps that a group survives with the request in them.
  virtual int steps_until_crash(const std::string& request_id) = 0;
  virtual void crashes_now(const std::string& request_id) = 0;
};

}  // namespace tandem::testing_support
