// libtandem_mpi.so: MPI's calls for the program (mpi_calls.h). The only file that includes mpi.h.
#include <mpi.h>

#include <algorithm>
#include <cstring>

#include "parallel/communicators/mpi_calls.h"

namespace tandem::mpi {
namespace {

template <class T>
T of(Handle handle) {
  static_assert(sizeof(T) <= sizeof(Handle));
  T out;
  std::memcpy(&out, &handle, sizeof out);
  return out;
}

template <class T>
Handle handle_of(T value) {
  static_assert(sizeof(T) <= sizeof(Handle));
  Handle out = 0;
  std::memcpy(&out, &value, sizeof value);
  return out;
}

// Calls `call` with what *handle is, and puts back what it has become.
template <class T, class Call>
int changing(Handle* handle, const Call& call) {
  T value = of<T>(*handle);
  const int code = call(&value);
  *handle = handle_of(value);
  return code;
}

int init_thread(int* for_all_threads) {
  int provided = MPI_THREAD_SINGLE;
  const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  *for_all_threads = provided >= MPI_THREAD_MULTIPLE ? 1 : 0;
  return code;
}

void error_string(int code, char* text, size_t bytes) {
  char all[MPI_MAX_ERROR_STRING + 1] = "";
  int length = 0;
  MPI_Error_string(code, all, &length);
  const size_t count = std::min(static_cast<size_t>(std::max(length, 0)), bytes - 1);
  std::memcpy(text, all, count);
  text[count] = '\0';
}

int comm_rank(Handle comm, int* rank) { return MPI_Comm_rank(of<MPI_Comm>(comm), rank); }
int comm_size(Handle comm, int* size) { return MPI_Comm_size(of<MPI_Comm>(comm), size); }

// MPI writes the new communicator when the request is done: *out is that place until then.
int comm_idup(Handle comm, Handle* out, Handle* request) {
  static_assert(sizeof(MPI_Comm) <= sizeof(Handle) && alignof(MPI_Comm) <= alignof(Handle));
  *out = handle_of(MPI_COMM_NULL);
  return changing<MPI_Request>(request, [&](MPI_Request* r) {
    return MPI_Comm_idup(of<MPI_Comm>(comm), reinterpret_cast<MPI_Comm*>(out), r);
  });
}

int comm_free(Handle* comm) { return changing<MPI_Comm>(comm, MPI_Comm_free); }
int comm_return_errors(Handle comm) {
  return MPI_Comm_set_errhandler(of<MPI_Comm>(comm), MPI_ERRORS_RETURN);
}

int comm_group(Handle comm, Handle* group) {
  MPI_Group out = MPI_GROUP_NULL;
  const int code = MPI_Comm_group(of<MPI_Comm>(comm), &out);
  *group = handle_of(out);
  return code;
}

int group_range(Handle group, int first, int count, Handle* out) {
  MPI_Group some = MPI_GROUP_NULL;
  int range[1][3] = {{first, first + count - 1, 1}};
  const int code = MPI_Group_range_incl(of<MPI_Group>(group), 1, range, &some);
  *out = handle_of(some);
  return code;
}

int group_free(Handle* group) { return changing<MPI_Group>(group, MPI_Group_free); }

int comm_create_group(Handle comm, Handle group, int tag, Handle* out) {
  MPI_Comm made = MPI_COMM_NULL;
  const int code = MPI_Comm_create_group(of<MPI_Comm>(comm), of<MPI_Group>(group), tag, &made);
  *out = handle_of(made);
  return code;
}

int test(Handle* request, int* done) {
  return changing<MPI_Request>(
      request, [&](MPI_Request* r) { return MPI_Test(r, done, MPI_STATUS_IGNORE); });
}

int request_free(Handle* request) { return changing<MPI_Request>(request, MPI_Request_free); }

int ibarrier(Handle comm, Handle* request) {
  return changing<MPI_Request>(request,
                               [&](MPI_Request* r) { return MPI_Ibarrier(of<MPI_Comm>(comm), r); });
}

int ibcast(void* bytes, int count, int root, Handle comm, Handle* request) {
  return changing<MPI_Request>(request, [&](MPI_Request* r) {
    return MPI_Ibcast(bytes, count, MPI_BYTE, root, of<MPI_Comm>(comm), r);
  });
}

int iallgather(const void* mine, int count, void* all, Handle comm, Handle* request) {
  return changing<MPI_Request>(request, [&](MPI_Request* r) {
    return MPI_Iallgather(mine, count, MPI_BYTE, all, count, MPI_BYTE, of<MPI_Comm>(comm), r);
  });
}

int isend_nothing(int to, int tag, Handle comm, Handle* request) {
  return changing<MPI_Request>(request, [&](MPI_Request* r) {
    return MPI_Isend(nullptr, 0, MPI_BYTE, to, tag, of<MPI_Comm>(comm), r);
  });
}

int iprobe(int tag, Handle comm, int* there, int* from) {
  MPI_Status status;
  const int code = MPI_Iprobe(MPI_ANY_SOURCE, tag, of<MPI_Comm>(comm), there, &status);
  if (code == MPI_SUCCESS && *there != 0) *from = status.MPI_SOURCE;
  return code;
}

int isend(const void* bytes, int count, int to, int tag, Handle comm, Handle* request) {
  return changing<MPI_Request>(request, [&](MPI_Request* r) {
    return MPI_Isend(bytes, count, MPI_BYTE, to, tag, of<MPI_Comm>(comm), r);
  });
}

int irecv(void* bytes, int count, int from, int tag, Handle comm, Handle* request) {
  return changing<MPI_Request>(request, [&](MPI_Request* r) {
    return MPI_Irecv(bytes, count, MPI_BYTE, from, tag, of<MPI_Comm>(comm), r);
  });
}

static_assert(MPI_SUCCESS == kSuccess);

}  // namespace
}  // namespace tandem::mpi

extern "C" __attribute__((visibility("default"))) const tandem::mpi::Calls* tandem_mpi_calls() {
  using namespace tandem::mpi;
  // (OpenMPI's constants are addresses that only the loaded library knows.)
  static const Calls calls = {kCallsVersion,
                              handle_of(MPI_COMM_WORLD),
                              handle_of(MPI_COMM_NULL),
                              handle_of(MPI_REQUEST_NULL),
                              init_thread,
                              MPI_Initialized,
                              MPI_Finalized,
                              MPI_Finalize,
                              error_string,
                              comm_rank,
                              comm_size,
                              comm_idup,
                              comm_free,
                              comm_return_errors,
                              comm_group,
                              group_range,
                              group_free,
                              comm_create_group,
                              test,
                              request_free,
                              ibarrier,
                              ibcast,
                              iallgather,
                              isend_nothing,
                              iprobe,
                              isend,
                              irecv};
  return &calls;
}
