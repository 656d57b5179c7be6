#!/bin/sh
# scripts/summarise_profile: prints what `tandem bench --profile` prints; merges the traces of ranks in processes.
# Exit status 77: python3 is missing, or the program is not built.
set -eu
source=$1
build=$2
command -v python3 >/dev/null || exit 77
[ -x "$build/bin/tandem" ] || exit 77
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
summarise=$source/scripts/summarise_profile

bench() {
  "$build/bin/tandem" bench latency --model "$source/examples/demo-model" --kv-cache-memory 16MiB --input-len 16 --output-len 4 \
    --batch-size 4 --num-iters 2 --num-iters-warmup 0 "$@"
}
# Compute threads; stages of a pipeline, beside which the engine is a thread that may still end.
for flags in '--threads 2' '--threads 1 --pp 2 --distributed-executor-backend threads'; do
  bench $flags --profile "$folder/trace.json" >"$folder/printed" 2>"$folder/log" || { cat "$folder/log"; exit 1; }
  [ "$flags" = '--threads 2' ] && others=none || others='engine: outputs'
  sed -n '/^Profile of/,$p' "$folder/printed" | grep -v "$others" >"$folder/expected" || { echo "FAILED: bench prints no profile"; exit 1; }
  "$summarise" "$folder/trace.json" | grep -v "$others" >"$folder/found"
  diff -u "$folder/expected" "$folder/found" || { echo "FAILED: the tables differ"; exit 1; }
done
[ "$(grep -c 'Idle, of the time .* for other stages$' "$folder/found")" = 2 ] || { cat "$folder/found"; echo "FAILED: no idle time"; exit 1; }

bench --threads 1 --tp 2 --profile "$folder/ranks.json" >/dev/null 2>"$folder/log" || { cat "$folder/log"; exit 1; }
"$summarise" --merge "$folder/all.json" "$folder/ranks.json" "$folder/ranks.rank0.json" "$folder/ranks.rank1.json"
"$summarise" "$folder/all.json" >"$folder/found"
for words in 'Profile of rank 0: ' 'Profile of rank 1: ' 'all_reduce' 'engine: schedule'; do
  grep -q "$words" "$folder/found" || { cat "$folder/found"; echo "FAILED: no $words"; exit 1; }
done

# What is no trace is said to be none.
echo '{}' >"$folder/other.json"
status=0
"$summarise" "$folder/other.json" 2>"$folder/log" || status=$?
[ "$status" = 1 ] && grep -q other.json "$folder/log"
