// The calls of MPI that are used, as a plugin gives them out: libtandem_mpi.so, loaded when a rank
// joins a job. The program itself is linked with no MPI, and runs with whichever one the plugin was
// compiled with. Everything here is plain C: the plugin may be of another compiler.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem::mpi {

// An MPI_Comm, an MPI_Request or an MPI_Group, which are pointers or numbers.
using Handle = uintptr_t;

// Each function is MPI's of the same name and returns its code. Bytes are the only type. Thread
// rules are MPI's.
struct Calls {
  uint32_t version;  // kCallsVersion; the other members are those of that version
  Handle world, no_comm, no_request;
  // Whether all threads may call MPI from then on is in `for_all_threads`.
  int (*init_thread)(int* for_all_threads);
  int (*initialized)(int* flag);
  int (*finalized)(int* flag);
  int (*finalize)();
  // Puts a text that ends with '\0' into `text`.
  void (*error_string)(int code, char* text, size_t bytes);

  int (*comm_rank)(Handle comm, int* rank);
  int (*comm_size)(Handle comm, int* size);
  int (*comm_idup)(Handle comm, Handle* out, Handle* request);
  int (*comm_free)(Handle* comm);
  int (*comm_return_errors)(Handle comm);  // MPI_Comm_set_errhandler, MPI_ERRORS_RETURN
  int (*comm_group)(Handle comm, Handle* group);
  // Ranks [first, first + count) of the group.
  int (*group_range)(Handle group, int first, int count, Handle* out);
  int (*group_free)(Handle* group);
  int (*comm_create_group)(Handle comm, Handle group, int tag, Handle* out);

  int (*test)(Handle* request, int* done);
  int (*request_free)(Handle* request);
  int (*ibarrier)(Handle comm, Handle* request);
  int (*ibcast)(void* bytes, int count, int root, Handle comm, Handle* request);
  int (*iallgather)(const void* mine, int count, void* all, Handle comm, Handle* request);
  // A message without a byte.
  int (*isend_nothing)(int to, int tag, Handle comm, Handle* request);
  // Whether there is one of that tag; from whom.
  int (*iprobe)(int tag, Handle comm, int* there, int* from);
  int (*isend)(const void* bytes, int count, int to, int tag, Handle comm, Handle* request);
  int (*irecv)(void* bytes, int count, int from, int tag, Handle comm, Handle* request);
};

inline constexpr uint32_t kCallsVersion = 2;
inline constexpr int kSuccess = 0;  // MPI_SUCCESS, by the standard
// The name of the exported function: const Calls* tandem_mpi_calls().
inline constexpr const char* kCallsSymbol = "tandem_mpi_calls";

// The plugin: TANDEM_MPI_PLUGIN, or libtandem_mpi.so beside the program, in ../lib/tandem, ../lib,
// /usr/lib/tandem or /usr/local/lib/tandem. Loaded once, by the first call. Throws
// CommunicatorError: it is nowhere, or does not load. Any thread.
const Calls& calls();

}  // namespace tandem::mpi
