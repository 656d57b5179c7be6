// Recordings: what a stream has captured (streams.cc), to be run as a whole, and what it takes.
#include <atomic>

#include "runtime.h"

using namespace cuda_emulator;

struct CUgraphExec_st {
  CapturedWork work;
};

static std::atomic<size_t> nodes_held{0};  // of recordings

size_t cuda_emulator::recordings_bytes() { return nodes_held * kBytesOfNode; }

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  if (!graph) return failed(cudaErrorInvalidValue);
  nodes_held += graph->work.size();
  return *exec = new CUgraphExec_st{graph->work}, cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t*, size_t* count) {
  if (!graph) return failed(cudaErrorInvalidValue);
  *count = graph->work.size();
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t) {
  return failed(exec ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  if (!exec) return failed(cudaErrorInvalidValue);
  if (fault_happens("graph_launch")) return failed(lose_device(cudaErrorIllegalAddress));
  return failed(submit(stream, [work = exec->work] {
    for (const auto& each : work) each();
  }));
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  if (exec) nodes_held -= exec->work.size();
  delete exec;
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
