#!/bin/sh
# The client library can be installed, and a project outside the tree builds against the installation.
set -eu
source=$1
build=$2
for library in client/libtandem_client.a actors/libtandem_actor_protocol.a runtime/libtandem_protocol.a \
  runtime/libtandem_request_reader.a base/libtandem_base.a; do
  [ -f "$build/$library" ] || exit 77 # not built
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cmake --install "$build" --component client --prefix "$folder/prefix" >"$folder/log" 2>&1 || {
  cat "$folder/log"
  exit 1
}
compiler=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
generator=$(sed -n 's/^CMAKE_GENERATOR:[A-Z]*=//p' "$build/CMakeCache.txt") # cmake's own default may not be installed
sanitize=$(sed -n 's/^TANDEM_SANITIZE:[A-Z]*=//p' "$build/CMakeCache.txt")
cp -R "$source/examples/client" "$folder/example" # nothing of the tree can be found by a relative path
if ! { cmake -G "$generator" -S "$folder/example" -B "$folder/build" -DCMAKE_PREFIX_PATH="$folder/prefix" \
  -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_CXX_FLAGS="${sanitize:+-fsanitize=$sanitize}" &&
  cmake --build "$folder/build"; } >"$folder/log" 2>&1; then
  cat "$folder/log"
  exit 1
fi
if grep -rlF "$source/" "$folder/prefix/lib"*/cmake "$folder/prefix/lib"/*/cmake 2>/dev/null | grep .; then
  echo "FAILED: these name the source tree"
  exit 1
fi
# Without arguments it says what it wants.
status=0
"$folder/build/tandem_example" 2>"$folder/usage" || status=$?
[ $status = 2 ] && grep -q 'host:port' "$folder/usage"
