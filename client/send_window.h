// How many requests a client has at the server. One that refuses for now gets nothing for the time
// that it asks for, then no more at once than it had; with each that ends, a little more.
#pragma once

#include <cstddef>

namespace tandem::client {

class SendWindow {
 public:
  // most: at one time; 0: no bound.
  explicit SendWindow(size_t most);

  bool has_room(size_t at_server, double now) const;
  // at_server: those that it has not refused; retry_after: seconds, 0 if it says nothing.
  void refused(size_t at_server, double retry_after, double now);
  // The server works on one, or has done with it.
  void took(bool finished);

 private:
  double most_;
  double window_;
  double again_at_ = 0;
  int refusals_ = 0;  // since the server took something
};

}  // namespace tandem::client
