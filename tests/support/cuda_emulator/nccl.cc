// NCCL between threads: the ranks of a communicator share a group, where the last one to come does
// the collective for all, in the order of ranks.
#include "nccl.h"

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda_bf16.h"
#include "cuda_fp16.h"

namespace {

enum class Kind { kAllReduce, kAllGather, kReduceScatter, kBroadcast, kSend, kReceive };

struct Call {
  Kind kind;
  const void* send;
  void* receive;
  size_t count;
  ncclDataType_t type;
  int op_or_peer;  // ncclRedOp_t, the root or the peer

  bool fits(const Call& other) const {
    return kind == other.kind && count == other.count && type == other.type &&
           op_or_peer == other.op_or_peer;
  }
  std::string text() const {
    static const char* const names[] = {"AllReduce", "AllGather", "ReduceScatter",
                                        "Broadcast", "Send",      "Recv"};
    return std::string(names[static_cast<int>(kind)]) + "(count " + std::to_string(count) +
           ", type " + std::to_string(type) + ", operation or root " + std::to_string(op_or_peer) +
           ")";
  }
};

struct Message {
  const Call* call;
  bool taken = false;
};

// What the ranks of one unique id share.
struct Group {
  explicit Group(int count) : ranks(count), present(count), calls(count) {}
  const int ranks;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<bool> present;
  int arrived = 0;  // ranks that have joined
  bool aborted = false;
  std::vector<const Call*> calls;  // of the collective that gathers
  int called = 0;
  uint64_t collectives = 0;
  std::map<std::pair<int, int>, std::deque<Message*>> messages;  // by sender and receiver
};

struct Membership {
  std::shared_ptr<Group> group;
  int rank;
  std::shared_ptr<int> graphs = std::make_shared<int>();  // every graph with a call of it has one
};

std::mutex groups_mutex;
std::map<std::string, std::shared_ptr<Group>>& groups() {
  static auto* all = new std::map<std::string, std::shared_ptr<Group>>;
  return *all;
}

[[noreturn]] void mismatch(const std::string& what) {
  std::fprintf(stderr, "emulated NCCL: %s\n", what.c_str());
  std::abort();
}

size_t size_of(ncclDataType_t type) {
  static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return sizes[type];
}

template <class T>
T combine(T a, T b, int op) {
  switch (op) {
    case ncclProd: return a * b;
    case ncclMax: return a < b ? b : a;
    case ncclMin: return b < a ? b : a;
    default: return a + b;
  }
}

// T: of the memory; S: of the sums.
template <class T, class S>
void reduce(const std::vector<const Call*>& calls, size_t begin, size_t count, void* to) {
  const int op = calls[0]->op_or_peer;
  for (size_t i = 0; i < count; ++i) {
    S total = static_cast<S>(static_cast<const T*>(calls[0]->send)[begin + i]);
    for (size_t r = 1; r < calls.size(); ++r)
      total = combine(total, static_cast<S>(static_cast<const T*>(calls[r]->send)[begin + i]), op);
    if (op == ncclAvg) total = total / static_cast<S>(calls.size());
    static_cast<T*>(to)[i] = static_cast<T>(total);
  }
}

void reduce(const std::vector<const Call*>& calls, size_t begin, size_t count, void* to) {
  switch (calls[0]->type) {
    case ncclInt8: return reduce<int8_t, int8_t>(calls, begin, count, to);
    case ncclUint8: return reduce<uint8_t, uint8_t>(calls, begin, count, to);
    case ncclInt32: return reduce<int32_t, int32_t>(calls, begin, count, to);
    case ncclUint32: return reduce<uint32_t, uint32_t>(calls, begin, count, to);
    case ncclInt64: return reduce<int64_t, int64_t>(calls, begin, count, to);
    case ncclUint64: return reduce<uint64_t, uint64_t>(calls, begin, count, to);
    case ncclFloat16: return reduce<__half, float>(calls, begin, count, to);
    case ncclFloat32: return reduce<float, float>(calls, begin, count, to);
    case ncclFloat64: return reduce<double, double>(calls, begin, count, to);
    case ncclBfloat16: return reduce<__nv_bfloat16, float>(calls, begin, count, to);
  }
}

// For all ranks at once. Their buffers may be the same at one rank, so results come last.
void perform(const std::vector<const Call*>& calls) {
  const Call& first = *calls[0];
  const size_t bytes = first.count * size_of(first.type), ranks = calls.size();
  std::vector<char> result(
      first.kind == Kind::kAllGather || first.kind == Kind::kReduceScatter ? bytes * ranks : bytes);
  if (bytes == 0) return;
  switch (first.kind) {
    case Kind::kAllReduce: reduce(calls, 0, first.count, result.data()); break;
    case Kind::kReduceScatter: reduce(calls, 0, first.count * ranks, result.data()); break;
    case Kind::kAllGather:
      for (size_t r = 0; r < ranks; ++r)
        std::memcpy(result.data() + r * bytes, calls[r]->send, bytes);
      break;
    default: std::memcpy(result.data(), calls[first.op_or_peer]->send, bytes);
  }
  for (size_t r = 0; r < ranks; ++r) {
    const bool part = first.kind == Kind::kReduceScatter;
    std::memcpy(calls[r]->receive, result.data() + (part ? r * bytes : 0),
                part ? bytes : result.size());
  }
}

void collective(const Membership& member, const Call& call) {
  Group& group = *member.group;
  std::unique_lock lock(group.mutex);
  if (group.aborted) return;
  group.calls[member.rank] = &call;
  if (++group.called == group.ranks) {
    for (int r = 1; r < group.ranks; ++r)
      if (!group.calls[r]->fits(*group.calls[0]))
        mismatch("rank 0 calls " + group.calls[0]->text() + ", rank " + std::to_string(r) + " " +
                 group.calls[r]->text());
    perform(group.calls);
    group.called = 0;
    ++group.collectives;
    group.changed.notify_all();
    return;
  }
  const uint64_t number = group.collectives;
  group.changed.wait(lock, [&] { return group.aborted || group.collectives != number; });
}

void post(const Membership& member, Message& message) {
  Group& group = *member.group;
  std::lock_guard lock(group.mutex);
  group.messages[{member.rank, message.call->op_or_peer}].push_back(&message);
  group.changed.notify_all();
}

void receive(const Membership& member, const Call& call) {
  Group& group = *member.group;
  std::unique_lock lock(group.mutex);
  auto& queue = group.messages[{call.op_or_peer, member.rank}];
  group.changed.wait(lock, [&] { return group.aborted || !queue.empty(); });
  if (group.aborted) return;
  Message& message = *queue.front();
  if (message.call->count != call.count || message.call->type != call.type)
    mismatch("rank " + std::to_string(member.rank) + " calls " + call.text() + " for " +
             message.call->text());
  queue.pop_front();
  std::memcpy(call.receive, message.call->send, call.count * size_of(call.type));
  message.taken = true;
  group.changed.notify_all();
}

void await_taken(const Membership& member, Message& message) {
  Group& group = *member.group;
  std::unique_lock lock(group.mutex);
  group.changed.wait(lock, [&] { return group.aborted || message.taken; });
  if (message.taken) return;
  // (The message goes away with this frame.)
  std::erase(group.messages[{member.rank, message.call->op_or_peer}], &message);
}

struct Queued {
  Membership member;
  cudaStream_t stream;
  Call call;
};

// The calls of one group on one stream go on side by side.
void run(const std::vector<Queued>& calls) {
  std::vector<Message> messages(calls.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    messages[i].call = &calls[i].call;
    if (calls[i].call.kind == Kind::kSend) post(calls[i].member, messages[i]);
  }
  for (const Queued& each : calls) {
    if (each.call.kind == Kind::kReceive)
      receive(each.member, each.call);
    else if (each.call.kind != Kind::kSend)
      collective(each.member, each.call);
  }
  for (size_t i = 0; i < calls.size(); ++i)
    if (calls[i].call.kind == Kind::kSend) await_taken(calls[i].member, messages[i]);
}

thread_local int group_depth = 0;
thread_local std::vector<Queued> grouped;

ncclResult_t flush() {
  std::vector<Queued> calls = std::exchange(grouped, {});
  while (!calls.empty()) {
    const cudaStream_t stream = calls[0].stream;
    std::vector<Queued> together, others;
    for (Queued& each : calls) (each.stream == stream ? together : others).push_back(each);
    calls = std::move(others);
    auto status = cudaStreamCaptureStatusNone;
    if (stream) cudaStreamIsCapturing(stream, &status);
    std::vector<std::shared_ptr<int>> held;
    for (Queued& each : together) {
      if (status != cudaStreamCaptureStatusNone) held.push_back(each.member.graphs);
      each.member.graphs.reset();
    }
    const auto error = cuda_emulator::submit(stream, [together, held] { run(together); });
    if (error != cudaSuccess) return ncclUnhandledCudaError;
  }
  return ncclSuccess;
}

}  // namespace

struct ncclComm {
  Membership member;
};

namespace {

ncclResult_t state_of(const Group& group) {
  return group.aborted                 ? ncclRemoteError
         : group.arrived < group.ranks ? ncclInProgress
                                       : ncclSuccess;
}

ncclResult_t enqueue(ncclComm_t comm, cudaStream_t stream, Call call) {
  if (!comm || call.type < 0 || call.type > ncclBfloat16) return ncclInvalidArgument;
  Group& group = *comm->member.group;
  const bool reduces = call.kind == Kind::kAllReduce || call.kind == Kind::kReduceScatter;
  if (call.op_or_peer < 0 || call.op_or_peer >= (reduces ? ncclAvg + 1 : group.ranks))
    return ncclInvalidArgument;
  {
    std::lock_guard lock(group.mutex);
    if (group.aborted) return ncclRemoteError;
    if (group.arrived < group.ranks) return ncclInvalidUsage;
  }
  grouped.push_back({comm->member, stream, call});
  return group_depth > 0 ? ncclSuccess : flush();
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) { return *version = NCCL_VERSION_CODE, ncclSuccess; }
const char* ncclGetLastError(ncclComm_t) { return ""; }
const char* ncclGetErrorString(ncclResult_t result) {
  static const char* const texts[] = {"no error",
                                      "unhandled cuda error",
                                      "unhandled system error",
                                      "internal error",
                                      "invalid argument",
                                      "invalid usage",
                                      "remote process exited or there was a network error",
                                      "NCCL operation in progress"};
  return result >= 0 && result < ncclNumResults ? texts[result] : "unknown result code";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<unsigned> last{0};
  *id = {};
  std::snprintf(id->internal, sizeof id->internal, "emulated-%u", ++last);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, ranks, id, rank, nullptr);
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (!comm || ranks < 1 || rank < 0 || rank >= ranks) return ncclInvalidArgument;
  *comm = nullptr;
  std::shared_ptr<Group> group;
  {
    std::lock_guard all(groups_mutex);
    auto& entry = groups()[std::string(id.internal, sizeof id.internal)];
    if (!entry) entry = std::make_shared<Group>(ranks);
    group = entry;
  }
  std::unique_lock lock(group->mutex);
  if (group->ranks != ranks || group->present[rank]) return ncclInvalidArgument;
  group->present[rank] = true;
  ++group->arrived;
  group->changed.notify_all();
  *comm = new ncclComm{{group, rank}};
  if (!config || config->blocking != 0)
    group->changed.wait(lock, [&] { return group->aborted || group->arrived == ranks; });
  return state_of(*group);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  if (!comm) return ncclInvalidArgument;
  std::lock_guard lock(comm->member.group->mutex);
  *error = state_of(*comm->member.group);
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) { return comm ? ncclSuccess : ncclInvalidArgument; }
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm && comm->member.graphs.use_count() > 1) {
    std::fprintf(stderr, "emulated NCCL: a graph holds the communicator, NCCL waits for ever\n");
    std::abort();
  }
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (!comm) return ncclInvalidArgument;
  {
    std::lock_guard lock(comm->member.group->mutex);
    comm->member.group->aborted = true;
    comm->member.group->changed.notify_all();
  }
  return ncclCommDestroy(comm);
}
ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  return *count = comm->member.group->ranks, ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  return *rank = comm->member.rank, ncclSuccess;
}
ncclResult_t ncclCommCuDevice(const ncclComm_t, int* device) { return *device = 0, ncclSuccess; }

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return enqueue(comm, stream, {Kind::kAllReduce, send, receive, count, type, op});
}
ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return enqueue(comm, stream, {Kind::kAllGather, send, receive, count, type, 0});
}
ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return enqueue(comm, stream, {Kind::kReduceScatter, send, receive, count, type, op});
}
ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return enqueue(comm, stream, {Kind::kBroadcast, send, receive, count, type, root});
}
ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return enqueue(comm, stream, {Kind::kSend, send, nullptr, count, type, peer});
}
ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return enqueue(comm, stream, {Kind::kReceive, nullptr, receive, count, type, peer});
}
ncclResult_t ncclGroupStart() { return ++group_depth, ncclSuccess; }
ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return ncclInvalidUsage;
  return --group_depth > 0 ? ncclSuccess : flush();
}
