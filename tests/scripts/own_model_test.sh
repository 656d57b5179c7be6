#!/bin/sh
# A model family outside the tree builds against the installed engine, registers itself and answers like the family whose
# weights its checkpoint has.
set -eu
source=$1
build=$2
for file in client/libtandem_client.a actors/libtandem_actor_protocol.a runtime/libtandem_engine.a bin/offline_generate; do
  [ -f "$build/$file" ] || exit 77 # not built
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for component in client engine; do
  cmake --install "$build" --component $component --prefix "$folder/prefix" >"$folder/log" 2>&1 || {
    cat "$folder/log"
    exit 1
  }
done
compiler=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
generator=$(sed -n 's/^CMAKE_GENERATOR:[A-Z]*=//p' "$build/CMakeCache.txt")
sanitize=$(sed -n 's/^TANDEM_SANITIZE:[A-Z]*=//p' "$build/CMakeCache.txt")
cp -R "$source/examples/own_model" "$folder/example" # nothing of the tree can be found by a relative path
if ! { cmake -G "$generator" -S "$folder/example" -B "$folder/build" -DCMAKE_PREFIX_PATH="$folder/prefix" \
  -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_CXX_FLAGS="${sanitize:+-fsanitize=$sanitize}" &&
  cmake --build "$folder/build"; } >"$folder/log" 2>&1; then
  cat "$folder/log"
  exit 1
fi

# bart-tiny under other names.
theirs=$source/tests/data/goldens/bart-tiny
mkdir "$folder/model"
cp "$theirs"/*.json "$theirs"/model.safetensors "$folder/model"
[ ! -f "$theirs/merges.txt" ] || cp "$theirs/merges.txt" "$folder/model"
sed -e 's/"BartForConditionalGeneration"/"OwnModel"/; s/"model_type": *"bart"/"model_type": "own_model"/' \
  -e 's/"d_model"/"width"/; s/"encoder_layers"/"depth"/' "$theirs/config.json" >"$folder/model/config.json"
"$folder/build/own_model" "$folder/model" "a lighthouse keeper" "one" | sort >"$folder/ours.txt"
"$build/bin/offline_generate" "$theirs" "a lighthouse keeper" "one" | sort >"$folder/theirs.txt"
[ "$(wc -l <"$folder/ours.txt")" = 2 ]
cmp "$folder/ours.txt" "$folder/theirs.txt"
# Tandem itself does not know it.
status=0
"$build/bin/offline_generate" "$folder/model" "one" >/dev/null 2>"$folder/refused" || status=$?
[ $status = 1 ] && grep -q "OwnModel (own_model) is not" "$folder/refused"
