// What ThreadSanitizer has to know of CAF. The distribution's libcaf_core.so is not instrumented,
// so the sanitizer does not see its mailboxes, scheduler and reference counts synchronise, and
// would report every message as a race. In a program with the sanitizer these functions take the
// place of the library's and say what happens before what. Those of mailboxes and the scheduler
// call the library's; those of reference counts stand for them. Without the sanitizer this file is
// empty. The names are those of Debian 12's CAF.
#if defined(__SANITIZE_THREAD__)

#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include <caf/all.hpp>
#include <utility>

namespace {

// The library's function of that name.
template <class F>
F* next(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

namespace caf {

// What precedes the sending of a message happens before its receipt. It also happens before the
// receiver's next run, which may drop the message unread.
void scheduled_actor::enqueue(mailbox_element_ptr message, execution_unit* unit) {
  static auto* const original = next<void(scheduled_actor*, mailbox_element_ptr, execution_unit*)>(
      "_ZN3caf15scheduled_actor7enqueueESt10unique_ptrINS_15mailbox_elementENS_6detail8disposerEE"
      "PNS_14execution_unitE");
  __tsan_release(message.get());
  __tsan_release(this);
  original(this, std::move(message), unit);
}

intrusive::task_result scheduled_actor::mailbox_visitor::operator()(mailbox_element& message) {
  static auto* const original = next<intrusive::task_result(mailbox_visitor*, mailbox_element&)>(
      "_ZN3caf15scheduled_actor15mailbox_visitorclERNS_15mailbox_elementE");
  __tsan_acquire(&message);
  return original(this, message);
}

void blocking_actor::enqueue(mailbox_element_ptr message, execution_unit* unit) {
  static auto* const original = next<void(blocking_actor*, mailbox_element_ptr, execution_unit*)>(
      "_ZN3caf14blocking_actor7enqueueESt10unique_ptrINS_15mailbox_elementENS_6detail8disposerEE"
      "PNS_14execution_unitE");
  __tsan_release(message.get());
  original(this, std::move(message), unit);
}

intrusive::task_result blocking_actor::mailbox_visitor::operator()(mailbox_element& message) {
  static auto* const original = next<intrusive::task_result(mailbox_visitor*, mailbox_element&)>(
      "_ZN3caf14blocking_actor15mailbox_visitorclERNS_15mailbox_elementE");
  __tsan_acquire(&message);
  return original(this, message);
}

// An actor runs on one thread at a time: each run happens before the next.
void scheduled_actor::launch(execution_unit* unit, bool lazy, bool hide) {
  static auto* const original = next<void(scheduled_actor*, execution_unit*, bool, bool)>(
      "_ZN3caf15scheduled_actor6launchEPNS_14execution_unitEbb");
  __tsan_release(this);
  original(this, unit, lazy, hide);
}

resumable::resume_result scheduled_actor::resume(execution_unit* unit, size_t max_throughput) {
  static auto* const original = next<resume_result(scheduled_actor*, execution_unit*, size_t)>(
      "_ZN3caf15scheduled_actor6resumeEPNS_14execution_unitEm");
  __tsan_acquire(this);
  const resume_result result = original(this, unit, max_throughput);
  __tsan_release(this);
  return result;
}

bool scheduled_actor::cleanup(error&& reason, execution_unit* unit) {
  static auto* const original = next<bool(scheduled_actor*, error&&, execution_unit*)>(
      "_ZN3caf15scheduled_actor7cleanupEONS_5errorEPNS_14execution_unitE");
  __tsan_acquire(this);
  return original(this, std::move(reason), unit);
}

// References are counted here, so that the sanitizer sees their atomic operations.
void ref_counted::deref() const noexcept {
  if (rc_.fetch_sub(1, std::memory_order_acq_rel) == 1) request_deletion(/*decremented_rc=*/true);
}

void intrusive_ptr_release_weak(actor_control_block* block) {
  if (block->weak_refs.fetch_sub(1, std::memory_order_acq_rel) == 1) block->block_dtor(block);
}

void intrusive_ptr_release(actor_control_block* block) {
  if (block->strong_refs.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  block->data_dtor(block->get());
  intrusive_ptr_release_weak(block);
}

}  // namespace caf

#endif
