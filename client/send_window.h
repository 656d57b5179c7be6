// How many requests a client may have at the server. After a refusal, nothing is sent for the time
// that the server asks for. Then the window is the number of requests that it had, and grows a
// little with each one that ends.
#pragma once

#include <cstddef>

namespace tandem::client {

class SendWindow {
 public:
  // most: at one time; 0: no bound.
  explicit SendWindow(size_t most);

  bool has_room(size_t at_server, double now) const;
  // at_server: requests that it has not refused. retry_after: seconds; 0: not given.
  void refused(size_t at_server, double retry_after, double now);
  // The server works on a request, or has finished it.
  void took(bool finished);

 private:
  double most_;
  double window_;
  double again_at_ = 0;
  int refusals_ = 0;  // since the server took something
};

}  // namespace tandem::client
