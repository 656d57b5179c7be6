#!/bin/sh
# scripts/gpu_check: what it packs is complete and travels beside the repository, plans fit their times, a machine without a
# GPU is told so.
# Exit status 77: no CUDA plugin is built, or it is without code for one (TANDEM_CUDA_CHECK), or what is packed with it is not built, or
# python3 is missing.
set -eu
source=$1
build=$2
command -v python3 >/dev/null || exit 77
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() {
  echo "FAILED: $*"
  exit 1
}
for script in run rank; do sh -n "$source/scripts/gpu/$script"; done

# --- without any program: the plans are of steps that there are, and leave each of them its time ---
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$source/scripts/gpu" python3 - "$source" <<'EOF'
import pathlib
import sys
import tempfile

import op_steps
import plans
import report
import travel

for name, (seconds, names) in plans.PLANS.items():
    steps = plans.chosen(name, [])
    assert [s.name for s in steps] == names and len(set(names)) == len(names), name
    groups = plans.together(steps)
    assert [s for group in groups for s in group] == steps and plans.kept_for(groups) <= seconds, name
    assert all(len(group) == 1 or not any(map(plans.measures, group)) for group in groups), name
    # However long steps take, those behind them have what is kept for them.
    left = seconds
    for i, group in enumerate(groups):
        limits = [plans.limit_of(step, groups[i + 1:], left) for step in group]
        assert all(s.least <= limit <= s.limit for s, limit in zip(group, limits)), (name, limits)
        left -= max(limits)
    assert left >= 0, name
    # With less time the last ones are left out, not the first.
    limits = [plans.limit_of(step, groups[1:], 30) for step in groups[0]]
    assert all(s.least <= limit for s, limit in zip(groups[0], limits)), (name, limits)
assert {n for _, names in plans.PLANS.values() for n in names} == set(plans.STEPS), "a step that no plan has"
assert sum(seconds for seconds, _ in plans.PLANS.values()) <= 780  # and the machine's start, of a quarter of an hour
assert [s.name for s in plans.chosen("a", ["bench.g"])] == ["bench.greedy"]

# The tree counts, and so does the pack.
assert travel.verdict(travel.LIMIT - 5, 5)[0] and not travel.verdict(travel.LIMIT - 5, 6)[0] and travel.verdict(None, travel.LIMIT)[0]
with tempfile.TemporaryDirectory() as folder:
    assert travel.tree_bytes(folder) is None

# A step is the sum of its ops, in a layer and once; without one of them there is no sum.
rows = [{"op": op, "what": what, "m": 8, "us": 2.0} for op, what in [*op_steps.OF_A_LAYER, *op_steps.OF_A_STEP]]
assert [r["us"] for r in op_steps.summed(rows)] == [2.0 * (12 * 12 + 2)]
assert op_steps.summed(rows[1:]) == []
best = {"op": op_steps.BEST[0], "what": op_steps.BEST[1], "m": rows[0]["m"], "us": 5.0}
assert [r["us"] for r in op_steps.summed([*rows, best])] == [2.0 * (12 * 12 + 2), 2.0 * 12 * 12 + 5.0]
# ncu's lines, a metric each: the kernels of the last step, by name.
lines = ['"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"']
for i, kernel in enumerate(["tell_host_kernel", "norm<float>(int)", "norm<float>(int)", "tell_host_kernel", "copy"]):
    lines += [f'"{i}","{kernel}","{op_steps.METRICS[0]}","ns","1,500"', f'"{i}","{kernel}","{op_steps.METRICS[2]}","%","{10 * i}"']
found = op_steps.by_kernel(op_steps.steps_of(op_steps.launches_of("==PROF== hello\n" + "\n".join(lines)))[-1])
assert [(r["kernel"], r["launches"], r["us"]) for r in found] == [("norm", 2, 3.0), ("tell_host_kernel", 1, 1.5)], found
assert found[0]["% of memory"] == 15.0, found
# What is printed last has all that fits.
with tempfile.TemporaryDirectory() as folder:
    results = report.Results(pathlib.Path(folder), {"problem": "none"})
    few, many = [{"a": 1}], [{"a": "x" * 99 + str(i), "b": "same"} for i in range(200)]
    for name, rows in [("one", few), ("two", many), ("three", few)]:
        results.add(plans.chosen("a", ["libraries"])[0]._replace(name=name), {"status": "passed", "figures": {"rows": rows}})
    text = results.brief()
    assert len(text) < 12000 and "two: 200 rows" in text and "three\n| a |" in text, text
EOF
"$source/scripts/gpu_check" --dry-run --plan a >"$folder/out"
grep -q '^| ops.products ' "$folder/out" || fail "the plan is not shown"

! grep -q '^TANDEM_CUDA_CHECK:BOOL=ON' "$build/CMakeCache.txt" || exit 77
for file in libtandem_cuda.so tandem cuda_test device_test bench_gpu bench_gpu_ops make_random_bart; do
  [ -f "$build/bin/$file" ] || exit 77
done

# --- the file: its size, and that it is the folder that is tested below ---
"$source/scripts/gpu_check" pack --build "$build" --out "$folder/pack.tar.xz"
kept=$(cd "$source/scripts/gpu" && python3 -c 'import travel; print(*travel.KEPT)')  # after `gpu_check aside`
tree=$(cd "$source" && { git ls-files -z --cached --others --exclude-standard -- $kept 2>/dev/null || true; } | xargs -0 -r stat -c %s | awk '{ sum += $1 } END { print sum + 0 }')
[ $(($(wc -c <"$folder/pack.tar.xz") + tree)) -le $((64 * 1024 * 1024)) ] || fail "the repository and the pack are too large"
python3 -m tarfile -e "$folder/pack.tar.xz" "$folder"
pack=$folder/gpu_check
python3 -m json.tool "$pack/pack.json" >/dev/null
for file in run bin/tandem bin/libtandem_cuda.so bin/cuda_test bin/bench_gpu_ops scripts/check.py scripts/compare_torch.py; do
  [ -f "$pack/$file" ] || fail "$file is not packed"
done
for file in examples tests bin/bench_all_reduce; do
  [ ! -e "$pack/$file" ] || fail "$file is packed"
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
# What was left out of ICU's data is not needed: normal forms are those of the build's own program.
start "$pack/bin/tandem" generate --model "$source/examples/demo-model" --device cpu "This package contains ﬁne ① tools"
mv "$folder/out" "$folder/packed"
"$build/bin/tandem" generate --model "$source/examples/demo-model" --device cpu "This package contains ﬁne ① tools" >"$folder/built" 2>&1
cmp "$folder/packed" "$folder/built" || fail "the packed program says something else"
start "$pack/bin/device_test" --gtest_list_tests
grep -q DeviceGoldens "$folder/out" || fail "device_test lists no tests"
start "$pack/bin/bench_gpu" --help
start "$pack/bin/make_random_bart" --out "$folder/model" --size tiny
# On the CPU the packed programs do what they do on a GPU.
start "$pack/bin/bench_gpu" --model "$folder/model" --device cpu --dtype float32 --batch 2 --least-source 4 --most-source 8 \
  --new-tokens 3 --repeat 1 --threads 1
python3 -c 'import json, sys
row = json.loads(open(sys.argv[1]).read())
assert row["batch"] == 2 and row["decode_step_ms"] > 0, row
assert row["tokens_per_second_low"] <= row["tokens_per_second"] <= row["tokens_per_second_high"], row' "$folder/out"
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
assert sorted(f.name for f in folder.iterdir()) == ["gpu_check.json", "gpu_check.md", "gpu_check_logs.tar.gz"]
text = (folder / "gpu_check.md").read_text()
assert all(n in text for n in names) and "No GPU" in text
EOF

# --- the same steps on the CPU: ranks as processes, a killed rank, benchmarks ---
"$source/scripts/gpu_check" run "$pack" --out "$folder/cpu" --device cpu --models "$source" --time 900 \
  --steps kernels,goldens.float32,goldens.drafts,ranks.2,faults.rank_killed,bench.model,bench.greedy,bench.beams,bench.online >"$folder/out" 2>&1 || {
  cat "$folder/out"
  fail "the steps fail on the CPU"
}
grep -q '^not run *kernels' "$folder/out" || fail "kernels of a GPU cannot have run"
grep -q '^passed *goldens.float32' "$folder/out" || fail "the goldens were not run"
tail -n 40 "$folder/out" | grep -q '^| batch | tokens_per_second ' || fail "the tables are not printed last"

# --- with a device that fails: a step that fails does not stop the others, and the status tells ---
status=0
"$source/scripts/gpu_check" run "$pack" --out "$folder/failing" --plugin "$folder/no_such_plugin.so" --models "$source" \
  --steps libraries,kernels,goldens.float32,ranks.1,bench.model >"$folder/out" 2>&1 || status=$?
[ "$status" = 1 ] || {
  cat "$folder/out"
  fail "status $status instead of 1 after failures"
}
python3 - "$folder/failing" "$folder/results" <<'EOF'
import json
import pathlib
import sys
import tarfile

folder = pathlib.Path(sys.argv[1])
steps = {s["name"]: s for s in json.loads((folder / "gpu_check.json").read_text())["steps"]}
assert steps["kernels"]["status"] == "not run", steps["kernels"]
assert steps["goldens.float32"]["status"] == "failed" and steps["goldens.float32"]["why"], steps["goldens.float32"]
assert steps["ranks.1"]["status"] == "failed", steps["ranks.1"]
assert steps["bench.model"]["status"] == "passed", steps["bench.model"]
logs = tarfile.open(folder / "gpu_check_logs.tar.gz").getnames()
assert sorted(logs) == sorted(s["log"] for s in steps.values()), logs
EOF
status=0
"$source/scripts/gpu_check" run "$folder" >"$folder/out" 2>&1 || status=$?
[ "$status" = 2 ]
