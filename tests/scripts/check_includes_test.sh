#!/bin/sh
# scripts/check_includes must pass on the repository and fail on every kind of wrong include in a tree made for it.
set -eu
repository=$1
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
checker=$repository/scripts/check_includes
failures=0

# expect STATUS NAME FILE LINE…: the checker's exit status on a tree that holds FILE with these lines.
expect() {
  status=$1
  name=$2
  file=$3
  shift 3
  rm -rf "$tree"/*
  mkdir -p "$tree/$(dirname "$file")" "$tree/kernels"
  echo '#include <vector>' >"$tree/kernels/good.h"
  printf '%s\n' "$@" >"$tree/$file"
  got=0
  output=$("$checker" "$tree") || got=$?
  if [ "$got" != "$status" ]; then
    echo "FAILED $name: exit status $got instead of $status: $output"
    failures=$((failures + 1))
  elif [ "$status" = 1 ] && ! printf '%s' "$output" | grep -q "^$file:[0-9]*: "; then
    echo "FAILED $name: the message does not name $file and a line: $output"
    failures=$((failures + 1))
  fi
}

expect 0 'an example with public headers' examples/a.cc '#include <tandem/engine.h>' '#include "own.h"'
expect 1 'an example with other headers' examples/own/a.cc '#include "models/family.h"'
expect 0 'leftwards' runtime/a.cc '#include "kernels/ops.h"' '#include "models/model.h"' '#include "runtime/a.h"'
expect 0 'a room to the left' runtime/scheduling/a.h '#include "runtime/protocol/version.h"'
expect 1 'a room to the right' runtime/protocol/a.h '#include "runtime/scheduling/sequence.h"'
expect 0 'rooms of a room' runtime/scheduling/steps/a.h '#include "runtime/scheduling/blocks/block_manager.h"'
expect 1 'rooms of a room, to the right' runtime/scheduling/drafts/a.h '#include "runtime/scheduling/steps/planned_step.h"'
expect 0 'from a room to the folder' runtime/scheduling/drafts/a.h '#include "runtime/scheduling/sequence.h"'
expect 0 'from a folder to its room' runtime/scheduling/a.h '#include "runtime/scheduling/steps/planned_step.h"'
expect 1 'communicators to layers' parallel/communicators/a.cc '#include "parallel/layers/layers.h"'
expect 0 'layers to communicators' parallel/layers/a.h '#include "parallel/communicators/communicator.h"'
expect 1 'http to api' server/http/a.cc '#include "server/api/routes.h"'
expect 1 'pipeline to sentencepiece' text/pipeline/models/a.cc '#include "text/sentencepiece/piece_model.h"'
expect 1 'commands to bench' launcher/commands/a.cc '#include "launcher/bench/commands.h"'
expect 1 'a room without a place' runtime/scheduling/steps/a.h '#include "runtime/scheduling/new/a.h"'
expect 0 'a room to itself' runtime/scheduling/new/a.h '#include "runtime/scheduling/new/b.h"'
expect 1 'libpng in request' runtime/request/a.cc '#include <png.h>'
expect 1 'libjpeg in media' runtime/media/a.cc '#include <jpeglib.h>'
expect 0 'libjpeg in the decoder' runtime/media/decoder/image/a.cc '#include <jpeglib.h>'
expect 1 'libav in media' runtime/media/a.cc '#include <libavformat/avformat.h>'
expect 1 'the decoder in media' runtime/media/a.cc '#include "runtime/media/decoder/serve.h"'
expect 1 'zlib in request' runtime/request/a.cc '#include <zlib.h>'
expect 1 'rightwards' kernels/a.cc '#include "models/model.h"'
expect 1 'rightwards by one' models/core/a.h '#include "runtime/request/prompt.h"'
expect 1 'rightwards with blanks' models/a.h '  #  include   "runtime/request/prompt.h"'
expect 1 'rightwards in <>' kernels/a.h '#include <runtime/request/prompt.h>'
expect 1 'rightwards in CUDA' kernels/a.cu '#include "parallel/layers/weights.h"'
expect 1 'rightwards in a fragment' kernels/cpu/a.inl '#include "runtime/request/prompt.h"'
expect 0 'a comment' kernels/a.h '// #include "runtime/request/prompt.h"'
expect 1 'client to server' client/a.h '#include "server/http/http.h"'
expect 1 'server to client' server/a.h '#include "client/client.h"'
expect 1 'server to actors' server/a.h '#include "actors/engine.h"'
expect 0 'server to the interface of engines' server/a.h '#include "runtime/engine/engine_api.h"'
expect 1 'server to an engine' server/api/a.h '#include "runtime/engine/core/engine_core.h"'
expect 0 'launcher to actors' launcher/a.h '#include "actors/engine.h"'
expect 1 'launcher from runtime' runtime/a.h '#include "launcher/options.h"'
expect 1 'not from the root' runtime/a.h '#include "params.h"'
expect 1 'upwards' runtime/a.h '#include "../kernels/ops.h"'
expect 1 'caf in runtime' runtime/a.h '#include <caf/all.hpp>'
expect 0 'caf in actors' actors/a.h '#include <caf/all.hpp>'
expect 0 'caf in client' client/a.h '#include <caf/all.hpp>'
expect 1 'caf in server' server/a.h '#include <caf/all.hpp>'
expect 1 'mpi in actors' actors/a.h '#include <mpi.h>'
expect 0 'mpi in parallel' parallel/a.cc '#include <mpi.h>'
expect 1 'nccl in kernels' kernels/a.cc '#include <nccl.h>'
expect 1 'cuda in models' models/a.cc '#include <cuda_runtime.h>'
expect 1 'cublas in parallel' parallel/a.cc '#include <cublas_v2.h>'
expect 0 'cuda in kernels' kernels/a.cu '#include <cuda_bf16.h>'
expect 1 'cuda beside nccl' parallel/communicators/nccl_communicator.cc '#include <nccl.h>' '#include <cuda_runtime.h>'
expect 0 'nccl in parallel' parallel/communicators/nccl_communicator.cc '#include <nccl.h>'
expect 0 'kernels beside nccl' parallel/communicators/nccl_communicator.cc '#include "kernels/cuda/backend.h"' '#include <nccl.h>'
expect 1 'CLI11 in runtime' runtime/a.cc '#include <CLI/CLI.hpp>'
expect 0 'CLI11 in launcher' launcher/a.cc '#include <CLI/CLI.hpp>'
expect 1 'gtest outside tests' models/a.cc '#include <gtest/gtest.h>'
rm -rf "$tree"/*
if "$checker" "$tree" >/dev/null 2>&1; then
  echo "FAILED: an empty tree passes"
  failures=$((failures + 1))
fi

# A copy of the repository with one wrong line in a real file.
for folder in kernels parallel models runtime launcher; do
  cp -r "$repository/$folder" "$tree/"
done
"$checker" "$tree" || { echo "FAILED: a copy of the repository does not pass"; failures=$((failures + 1)); }
echo '#include "runtime/scheduling/scheduler.h"' >>"$tree/kernels/ops.h"
if "$checker" "$tree" >/dev/null; then
  echo "FAILED: a wrong include in kernels/ops.h passes"
  failures=$((failures + 1))
fi

"$checker" "$repository" || failures=$((failures + 1))
[ "$failures" = 0 ]
