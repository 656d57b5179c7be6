#!/bin/sh
# benchmarks/make_random_bart: the same seed gives the same files, another seed other weights; a wrong size is refused.
set -eu
program=$2/bin/make_random_bart
[ -x "$program" ] || exit 77 # the benchmarks are not built
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for name in one two; do
  "$program" --out "$folder/$name" --size tiny --seed 7
done
"$program" --out "$folder/other" --size tiny --seed 8
for file in config.json generation_config.json model.safetensors vocab.json merges.txt tokenizer_config.json; do
  cmp "$folder/one/$file" "$folder/two/$file"
done
if cmp -s "$folder/one/model.safetensors" "$folder/other/model.safetensors"; then
  echo "FAILED: another seed gives the same weights"
  exit 1
fi
if "$program" --out "$folder/wrong" --size huge 2>/dev/null; then
  echo "FAILED: size huge is accepted"
  exit 1
fi
