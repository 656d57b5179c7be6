// One mapping for each thread, given back when it ends.
#include "base/signal_stack.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

namespace tandem {
namespace {

constexpr long kBytes = 64 << 10;

class SignalStack {
 public:
  SignalStack() {
    stack_t now = {};
    if (sigaltstack(nullptr, &now) != 0 || (now.ss_flags & SS_DISABLE) == 0) return;
    // What the kernel saves there depends on the processor's registers.
    bytes_ = static_cast<size_t>(std::max(kBytes, sysconf(_SC_SIGSTKSZ)));
    void* memory =
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return;
    stack_t mine = {};
    mine.ss_sp = memory;
    mine.ss_size = bytes_;
    if (sigaltstack(&mine, nullptr) == 0)
      memory_ = memory;
    else
      munmap(memory, bytes_);
  }
  ~SignalStack() {
    if (memory_ == nullptr) return;
    stack_t none = {};
    none.ss_flags = SS_DISABLE;
    if (sigaltstack(&none, nullptr) == 0) munmap(memory_, bytes_);
  }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  void* memory_ = nullptr;  // null: the thread had one, or there is none
  size_t bytes_ = 0;
};

}  // namespace

void use_signal_stack() { thread_local const SignalStack stack; }

}  // namespace tandem
