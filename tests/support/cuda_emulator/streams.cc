// Streams, events and graphs. Work runs when it is queued, in the thread that queues it; where the
// stream captures it becomes a part of a graph, which is a list in the order of capture.
//
// Copies between the device and page-locked memory are late: they happen when something that must
// follow them runs or is waited for, so that memory which is used again too early shows.
//
// A captured stream can only be followed by others through events, so each one of a capture keeps
// what it has seen of the others (a vector clock): what the first one has not seen at the end has
// not been joined.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "runtime.h"

using Clock = std::chrono::steady_clock;

namespace {

// From cudaStreamBeginCapture to cudaStreamEndCapture.
struct Capture {
  unsigned long long id;
  cudaStream_t origin;
  cudaStreamCaptureMode mode;
  const void* thread;                   // that began it: the address of something thread-local
  bool invalid = false, fails = false;  // fails: with the first kernel
  std::set<cudaStream_t> streams;
  std::map<cudaStream_t, uint64_t> queued;
  CUgraph_st graph;
};
using Seen = std::map<cudaStream_t, uint64_t>;

}  // namespace

struct CUstream_st {
  std::shared_ptr<Capture> capture;
  Seen seen;
  bool waits_for_legacy = true;  // not cudaStreamNonBlocking
  // Copies, and waits for other streams, that have not happened; the first is number `done`.
  std::deque<std::function<void()>> late;
  uint64_t done = 0;
};
struct CUevent_st {
  bool timed = true, recorded = false;
  Clock::time_point at;
  std::weak_ptr<Capture> capture;  // recorded in this one
  bool captured = false;
  Seen seen;
  cudaStream_t stream = nullptr;  // recorded outside of a capture: behind `late` of this stream
  uint64_t after = 0;
};

namespace cuda_emulator {
namespace {

// Outlive static objects that hold streams.
std::recursive_mutex& mutex = *new std::recursive_mutex;  // of everything here
std::set<cudaStream_t>& streams = *new std::set<cudaStream_t>;
std::set<std::shared_ptr<Capture>>& captures = *new std::set<std::shared_ptr<Capture>>;
unsigned long long last_capture = 0;
thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;
// Of the kernels that this thread runs, to memory of the host.
thread_local std::vector<std::pair<int32_t*, int32_t>> late_stores;

// Lets what is late happen, up to that number.
void catch_up(cudaStream_t stream, uint64_t until = ~uint64_t{0}) {
  while (stream && stream->done < until && !stream->late.empty()) {
    const auto work = std::move(stream->late.front());
    stream->late.pop_front();
    ++stream->done;
    work();
  }
}

bool has_happened(const CUevent_st& event) {
  return !event.stream || !streams.count(event.stream) || event.stream->done >= event.after;
}

void await(const CUevent_st& event) {
  if (!has_happened(event)) catch_up(event.stream, event.after);
}

bool is_valid(cudaStream_t stream) { return !stream || streams.count(stream); }

// Of the stream's capture; null if it does not capture.
Capture* capture_of(cudaStream_t stream) { return stream ? stream->capture.get() : nullptr; }

cudaError_t lose(Capture& capture, cudaError_t error) {
  capture.invalid = true;
  return failed(error);
}

}  // namespace

cudaError_t forbid_while_capturing() {
  std::lock_guard lock(mutex);
  if (thread_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  bool any = false;
  for (const auto& capture : captures) {
    const bool of_this_thread = capture->thread == &thread_mode;
    const bool counts = of_this_thread ? capture->mode != cudaStreamCaptureModeRelaxed
                                       : capture->mode == cudaStreamCaptureModeGlobal &&
                                             thread_mode == cudaStreamCaptureModeGlobal;
    if (!counts) continue;
    capture->invalid = any = true;
  }
  return any ? failed(cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}

void catch_up_all() {
  std::lock_guard lock(mutex);
  for (cudaStream_t stream : streams) catch_up(stream);
}

cudaError_t submit_late(cudaStream_t stream, std::function<void()> work) {
  {
    std::lock_guard lock(mutex);
    if (stream && is_valid(stream) && !capture_of(stream)) {
      stream->late.push_back(std::move(work));
      return cudaSuccess;
    }
  }
  return submit(stream, std::move(work));
}

cudaError_t submit(cudaStream_t stream, std::function<void()> work) {
  {
    std::lock_guard lock(mutex);
    if (!is_valid(stream)) return failed(cudaErrorInvalidResourceHandle);
    if (const cudaError_t error = device_error()) return failed(error);
    if (Capture* capture = capture_of(stream)) {
      if (capture->fails) return lose(*capture, cudaErrorStreamCaptureUnsupported);
      if (capture->invalid) return failed(cudaErrorStreamCaptureInvalidated);
      capture->graph.work.push_back(std::move(work));
      stream->seen[stream] = ++capture->queued[stream];
      return cudaSuccess;
    }
  }
  // The legacy stream waits for all others, and so for a capture too.
  if (!stream)
    if (const cudaError_t error = forbid_while_capturing())
      return failed(error == cudaSuccess ? error : cudaErrorStreamCaptureImplicit);
  {
    std::lock_guard lock(mutex);
    for (cudaStream_t each : streams)
      if (each == stream || (!stream && each->waits_for_legacy)) catch_up(each);
  }
  work();
  if (!late_stores.empty()) {
    const auto store = [stores = std::exchange(late_stores, {})] {
      for (const auto& [at, value] : stores) *at = value;
    };
    if (!stream) return store(), cudaSuccess;
    std::lock_guard lock(mutex);
    stream->late.push_back(store);
  }
  return cudaSuccess;
}

void store_late(int32_t* at, int32_t value) {
  cudaPointerAttributes place{};
  cudaPointerGetAttributes(&place, at);
  if (place.type != cudaMemoryTypeHost)
    fail("stores to memory of the host that is not page-locked");
  late_stores.emplace_back(at, value);
}

static uint64_t blocks_at_once(const Kernel& kernel, const cudaDeviceProp& device) {
  int blocks = 0;
  const dim3 b = kernel.block;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nullptr, static_cast<int>(b.x * b.y * b.z),
                                                kernel.shared);
  return static_cast<uint64_t>(blocks) * static_cast<uint64_t>(device.multiProcessorCount);
}

void launch_kernel(Kernel kernel, cudaStream_t stream) {
  cudaDeviceProp device;
  cudaGetDeviceProperties(&device, 0);
  const dim3 b = kernel.block, g = kernel.grid;
  const uint64_t threads = uint64_t{b.x} * b.y * b.z;
  if (threads == 0 || threads > 1024 || b.z > 64 || g.x == 0 || g.y == 0 || g.z == 0 ||
      g.x > 0x7fffffff || g.y > 65535 || g.z > 65535 || kernel.cluster > 8 || kernel.cluster == 0 ||
      g.x % kernel.cluster != 0) {
    failed(cudaErrorInvalidConfiguration);
  } else if (kernel.shared > device.sharedMemPerBlockOptin) {
    failed(cudaErrorInvalidValue);
  } else if (kernel.cooperative && uint64_t{g.x} * g.y * g.z > blocks_at_once(kernel, device)) {
    failed(cudaErrorCooperativeLaunchTooLarge);
  } else {
    failed(submit(stream, [kernel = std::move(kernel)] { run_kernel(kernel); }));
  }
}

}  // namespace cuda_emulator

using namespace cuda_emulator;

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  std::lock_guard lock(mutex);
  streams.insert(*stream = new CUstream_st);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  std::lock_guard lock(mutex);
  cudaStreamCreate(stream);
  (*stream)->waits_for_legacy = !(flags & cudaStreamNonBlocking);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  std::lock_guard lock(mutex);
  if (!stream || streams.erase(stream) == 0) return failed(cudaErrorInvalidResourceHandle);
  if (stream->capture) {
    stream->capture->invalid = true;
    stream->capture->streams.erase(stream);
    if (stream->capture->origin == stream) captures.erase(stream->capture);
  }
  catch_up(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  std::lock_guard lock(mutex);
  if (const cudaError_t error = device_error()) return failed(error);
  if (!is_valid(stream)) return failed(cudaErrorInvalidResourceHandle);
  if (Capture* capture = capture_of(stream))
    return lose(*capture, cudaErrorStreamCaptureUnsupported);
  catch_up(stream);
  return stream ? cudaSuccess : forbid_while_capturing();
}
// (Whoever asks again and again gets there.)
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  std::lock_guard lock(mutex);
  if (!stream || !is_valid(stream) || capture_of(stream) || stream->late.empty())
    return cudaStreamSynchronize(stream);
  catch_up(stream, stream->done + 1);
  return failed(cudaErrorNotReady);  // as on hardware, it stays for cudaGetLastError
}
cudaError_t cudaDeviceSynchronize() {
  std::lock_guard lock(mutex);
  catch_up_all();
  if (captures.empty()) return cudaSuccess;
  for (const auto& capture : captures) capture->invalid = true;
  return failed(cudaErrorStreamCaptureUnsupported);
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return failed(submit(stream, [=] { function(data); }));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  std::lock_guard lock(mutex);
  if (!is_valid(stream) || !event) return failed(cudaErrorInvalidResourceHandle);
  Capture* capture = capture_of(stream);
  if (!event->captured) {
    if (capture) return lose(*capture, cudaErrorStreamCaptureIsolation);
    // As the event is now; it may be recorded again before the stream gets there.
    if (stream && !has_happened(*event)) stream->late.push_back([of = *event] { await(of); });
    return cudaSuccess;
  }
  const auto from = event->capture.lock();
  if (!from || !captures.count(from)) return failed(cudaErrorCapturedEvent);
  if (capture && capture != from.get()) return lose(*capture, cudaErrorStreamCaptureMerge);
  if (!stream) return lose(*from, cudaErrorStreamCaptureImplicit);
  stream->capture = from;
  from->streams.insert(stream);
  for (const auto& [other, count] : event->seen)
    stream->seen[other] = std::max(stream->seen[other], count);
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new CUevent_st;
  (*event)->timed = !(flags & cudaEventDisableTiming);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (!event) return failed(cudaErrorInvalidResourceHandle);
  std::lock_guard lock(mutex);
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  std::lock_guard lock(mutex);
  if (!event || !is_valid(stream)) return failed(cudaErrorInvalidResourceHandle);
  event->recorded = true;
  event->at = Clock::now();
  event->captured = capture_of(stream) != nullptr;
  event->stream = event->captured ? nullptr : stream;
  event->after = event->stream ? stream->done + stream->late.size() : 0;
  if (event->captured) {
    if (stream->capture->invalid) return failed(cudaErrorStreamCaptureInvalidated);
    event->capture = stream->capture;
    event->seen = stream->seen;
  }
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  std::lock_guard lock(mutex);
  if (!event) return failed(cudaErrorInvalidResourceHandle);
  if (const cudaError_t error = device_error()) return failed(error);
  if (event->captured) {
    if (const auto capture = event->capture.lock()) capture->invalid = true;
    return failed(cudaErrorCapturedEvent);
  }
  if (has_happened(*event)) return cudaSuccess;
  catch_up(event->stream, event->stream->done + 1);
  return failed(cudaErrorNotReady);  // as on hardware, it stays for cudaGetLastError
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  std::lock_guard lock(mutex);
  if (event && !event->captured) await(*event);
  return cudaEventQuery(event);
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  std::lock_guard lock(mutex);
  if (!start || !end || !start->recorded || !end->recorded || !start->timed || !end->timed)
    return failed(cudaErrorInvalidResourceHandle);
  *milliseconds = std::chrono::duration<float, std::milli>(end->at - start->at).count();
  return cudaSuccess;
}

// --- capture and graphs ---
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  std::lock_guard lock(mutex);
  if (!stream) return failed(cudaErrorStreamCaptureUnsupported);
  if (!is_valid(stream)) return failed(cudaErrorInvalidResourceHandle);
  if (stream->capture) return failed(cudaErrorInvalidValue);
  auto capture = std::make_shared<Capture>();
  capture->id = ++last_capture;
  capture->origin = stream;
  capture->mode = mode;
  capture->thread = &thread_mode;
  capture->streams = {stream};
  capture->fails = fault_happens("capture");
  captures.insert(capture);
  stream->capture = std::move(capture);
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  std::lock_guard lock(mutex);
  *graph = nullptr;
  if (!stream || !is_valid(stream) || !stream->capture) return failed(cudaErrorInvalidValue);
  const auto capture = stream->capture;
  if (capture->origin != stream) return lose(*capture, cudaErrorStreamCaptureUnmatched);
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != &thread_mode)
    return lose(*capture, cudaErrorStreamCaptureWrongThread);
  cudaError_t result = capture->invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
  for (const auto& [other, count] : capture->queued)
    if (result == cudaSuccess && stream->seen[other] < count)
      result = cudaErrorStreamCaptureUnjoined;
  for (cudaStream_t member : capture->streams) {
    member->capture.reset();
    member->seen.clear();
  }
  captures.erase(capture);
  if (result == cudaSuccess) *graph = new CUgraph_st{std::move(capture->graph)};
  return failed(result);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return cudaStreamGetCaptureInfo(stream, status);
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges, size_t* dependency_count) {
  std::lock_guard lock(mutex);
  if (!is_valid(stream)) return failed(cudaErrorInvalidResourceHandle);
  Capture* capture = capture_of(stream);
  *status = !capture           ? cudaStreamCaptureStatusNone
            : capture->invalid ? cudaStreamCaptureStatusInvalidated
                               : cudaStreamCaptureStatusActive;
  if (id) *id = capture ? capture->id : 0;
  if (graph) *graph = capture ? &capture->graph : nullptr;
  if (dependencies) *dependencies = nullptr;
  if (edges) *edges = nullptr;
  if (dependency_count) *dependency_count = 0;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, thread_mode);
  return cudaSuccess;
}
