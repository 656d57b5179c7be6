#!/bin/sh
# scripts/gpu_check: what it packs is complete and not too large, and a machine without a GPU is told so.
# Exit status 77: no CUDA plugin is built, or what is packed with it is not, or python3 is missing.
set -eu
source=$1
build=$2
command -v python3 >/dev/null || exit 77
for file in libtandem_cuda.so tandem cuda_test device_test bench_gpu bench_all_reduce make_random_bart; do
  [ -f "$build/bin/$file" ] || exit 77
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() {
  echo "FAILED: $*"
  exit 1
}
for script in run rank; do sh -n "$source/scripts/gpu/$script"; done

# --- the file: its size, and that it is the folder that is tested below ---
"$source/scripts/gpu_check" pack --build "$build" --out "$folder/pack.tar.xz"
[ "$(wc -c <"$folder/pack.tar.xz")" -le $((64 * 1024 * 1024)) ] || fail "the pack is too large"
python3 -m tarfile -e "$folder/pack.tar.xz" "$folder"
pack=$folder/gpu_check
python3 -m json.tool "$pack/pack.json" >/dev/null
for file in run bin/tandem bin/libtandem_cuda.so bin/cuda_test scripts/check.py scripts/compare_torch.py \
  tests/data/goldens/bart-tiny/golden.json examples/demo-model/model.safetensors; do
  [ -f "$pack/$file" ] || fail "$file is not packed"
done
grep -rl "$source" "$pack/run" "$pack/scripts" && fail "scripts name a path of this machine"

# --- its libraries: all from the pack, but for glibc, the driver, CUDA's and NCCL's ---
allowed='^(linux-vdso|ld-linux-.*|/.*/ld-linux-.*|lib(c|m|dl|rt|pthread|resolv|util)|lib(cuda|cublas|cublasLt|nccl))\.so(\..*)?$'
for program in "$pack"/bin/*; do
  [ "$(head -c 4 "$program" | tail -c 3)" = ELF ] || continue
  LD_LIBRARY_PATH="$pack/lib" ldd "$program" >"$folder/ldd" || fail "$program cannot be read"
  while read -r name _ path _; do
    printf '%s\n' "$name" | grep -qE "$allowed" && continue
    case $path in
      "$pack"/*) ;;
      *) fail "$(basename "$program") takes $name from ${path:-nowhere}" ;;
    esac
  done <"$folder/ldd"
done

# --- every program starts with them, in an empty environment ---
start() {
  env -i LD_LIBRARY_PATH="$pack/lib" PATH=/usr/bin:/bin HOME="$folder" "$@" >"$folder/out" 2>&1 || {
    cat "$folder/out"
    fail "$*"
  }
}
start "$pack/bin/tandem" --version
start "$pack/bin/tandem" generate --help
start "$pack/bin/device_test" --gtest_list_tests
grep -q DeviceGoldens "$folder/out" || fail "device_test lists no tests"
start "$pack/bin/bench_gpu" --help
start "$pack/bin/make_random_bart" --out "$folder/model" --size tiny
# On the CPU the packed programs do what they do on a GPU.
start "$pack/bin/bench_gpu" --model "$folder/model" --device cpu --dtype float32 --batch 2 --least-source 4 --most-source 8 \
  --new-tokens 3 --repeat 1 --threads 1
python3 -c 'import json, sys
row = json.loads(open(sys.argv[1]).read())
assert row["batch"] == 2 and row["tokens_per_second"] > 0 and row["decode_step_ms"] > 0, row' "$folder/out"
# Every rank has a host name of its own for NCCL.
mkdir "$folder/fake"
cp "$pack/bin/rank" "$folder/fake"
printf '#!/bin/sh\necho "$1 $NCCL_HOSTID"\n' >"$folder/fake/tandem"
chmod +x "$folder/fake/tandem"
for rank in 0 1; do
  start "$folder/fake/rank" worker --replica 0 --rank $rank --ranks 2
  [ "$(cat "$folder/out")" = "worker tandem-rank-$rank" ] || fail "rank $rank is host $(cat "$folder/out")"
done
# cuda_test needs cuBLASLt, which a machine with the toolkit has.
if LD_LIBRARY_PATH="$pack/lib" ldd "$pack/bin/cuda_test" | grep -q 'not found'; then
  echo "no cuBLASLt or NCCL here: cuda_test was not started"
else
  start "$pack/bin/cuda_test" --gtest_list_tests
  grep -q CudaSelect "$folder/out" || fail "cuda_test lists no tests"
fi

# --- a run without a GPU: told so, nothing passed, and the results can be read ---
status=0
env CUDA_VISIBLE_DEVICES= "$source/scripts/gpu_check" run "$pack" --out "$folder/results" >"$folder/out" 2>&1 || status=$?
if [ "$status" != 77 ]; then
  cat "$folder/out"
  fail "status $status instead of 77 without a GPU"
fi
grep -q "no GPU, nothing is run" "$folder/out" || fail "it does not say that there is no GPU"
python3 - "$folder/results" <<'EOF'
import json
import pathlib
import sys

folder = pathlib.Path(sys.argv[1])
results = json.loads((folder / "gpu_check.json").read_text())
assert results["summary"] == {"passed": 0, "failed": 0, "not run": len(results["steps"])}, results["summary"]
names = [s["name"] for s in results["steps"]]
for name in ["kernels", "goldens.float32", "ranks.2", "faults.rank_killed", "sanitizer.memcheck", "bench.greedy", "bench.torch"]:
    assert name in names, name
text = (folder / "gpu_check.md").read_text()
assert all(n in text for n in names) and "No GPU" in text
EOF

# --- the same steps on the CPU: ranks as processes, a killed rank, benchmarks ---
"$source/scripts/gpu_check" run "$pack" --out "$folder/cpu" --device cpu \
  --steps kernels,goldens.float32,ranks.2,faults.rank_killed,bench.model,bench.greedy,bench.beams,bench.online >"$folder/out" 2>&1 || {
  cat "$folder/out" "$folder"/cpu/logs/*
  fail "the steps fail on the CPU"
}
grep -q '^not run *kernels' "$folder/out" || fail "kernels of a GPU cannot have run"
grep -q '^passed *goldens.float32' "$folder/out" || fail "the goldens were not run"

# --- with a device that fails: a step that fails does not stop the others, and the status tells ---
status=0
"$source/scripts/gpu_check" run "$pack" --out "$folder/failing" --plugin "$folder/no_such_plugin.so" \
  --steps libraries,kernels,goldens.float32,ranks.1,bench.model >"$folder/out" 2>&1 || status=$?
[ "$status" = 1 ] || {
  cat "$folder/out"
  fail "status $status instead of 1 after failures"
}
python3 - "$folder/failing" "$folder/results" <<'EOF'
import json
import pathlib
import sys

folder = pathlib.Path(sys.argv[1])
steps = {s["name"]: s for s in json.loads((folder / "gpu_check.json").read_text())["steps"]}
assert steps["kernels"]["status"] == "not run", steps["kernels"]
assert steps["goldens.float32"]["status"] == "failed" and steps["goldens.float32"]["why"], steps["goldens.float32"]
assert steps["ranks.1"]["status"] == "failed", steps["ranks.1"]
assert steps["bench.model"]["status"] == "passed", steps["bench.model"]
assert all((folder / "logs" / pathlib.Path(s["log"]).name).exists() for s in steps.values())
EOF
status=0
"$source/scripts/gpu_check" run "$folder" >"$folder/out" 2>&1 || status=$?
[ "$status" = 2 ]
