// Tells sanitizers of switches between fibers. A part of the scheduler.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace cuda_emulator {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// A stack, as the sanitizers know it.
struct FiberMarks {
  const void* bottom = nullptr;
  size_t size = 0;
  void* fake_stack = nullptr;
  void* tsan = nullptr;

  void create() {
#if defined(__SANITIZE_ADDRESS__)
    // (Another stack that is gone may have been here: its frames are still marked.)
    __asan_unpoison_memory_region(bottom, size);
#endif
#if defined(__SANITIZE_THREAD__)
    tsan = __tsan_create_fiber(0);
#endif
  }
  void destroy() {
#if defined(__SANITIZE_ADDRESS__)
    // (What comes to lie here next may be an OS thread's stack and thread-local variables.)
    __asan_unpoison_memory_region(bottom, size);
#endif
#if defined(__SANITIZE_THREAD__)
    __tsan_destroy_fiber(tsan);
#endif
  }
  void adopt_current() {
#if defined(__SANITIZE_THREAD__)
    tsan = __tsan_get_current_fiber();
#endif
  }
  // Right before the switch from this one to another one.
  void leave_for([[maybe_unused]] const FiberMarks& to, [[maybe_unused]] bool for_ever = false) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(for_ever ? nullptr : &fake_stack, to.bottom, to.size);
#endif
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(to.tsan, 0);
#endif
  }
  // Right after a switch to this one; learns where `from` lies.
  void enter([[maybe_unused]] FiberMarks* from) {
#if defined(__SANITIZE_ADDRESS__)
    const void* old_bottom;
    size_t old_size;
    __sanitizer_finish_switch_fiber(fake_stack, &old_bottom, &old_size);
    if (from) from->bottom = old_bottom, from->size = old_size;
#endif
  }
};

}  // namespace cuda_emulator
