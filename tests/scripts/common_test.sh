#!/bin/sh
# scripts/common.sh: a failing build ends the script with status 1, names the log and shows its end; progress is read
# from ninja's output; and what scripts/test makes of its options. The build tools are stand-ins, found first in PATH.
set -eu
repository=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/bin" "$folder/scripts"
cp "$repository/scripts/common.sh" "$folder/scripts/"
cat >"$folder/bin/cmake" <<'STANDIN'
#!/bin/sh
case $1 in
  --preset) echo "configured $*" ;;
  --build)
    i=0
    while [ $i -lt 10 ]; do
      i=$((i + 1))
      echo "[$i/10] Building file_$i"
    done
    [ "$STANDIN_FAILS" = no ] || { echo "file_10: error: something is wrong"; exit 3; }
    ;;
esac
STANDIN
chmod +x "$folder/bin/cmake"
PATH=$folder/bin:$PATH
export PATH
cat >"$folder/scripts/program" <<'PROGRAM'
set -eu
root=$1
. "$root/scripts/common.sh"
configure cpu
build cpu "$root/build" target
echo built
PROGRAM

output=$(STANDIN_FAILS=no sh "$folder/scripts/program" "$folder" 2>&1)
printf '%s\n' "$output" | grep -q '^built$' || { echo "FAILED: a build that works does not end: $output"; exit 1; }
printf '%s\n' "$output" | grep -q 'compiled 10 of 10' || { echo "FAILED: no progress: $output"; exit 1; }

# A new folder compiles files together, an old one as it did before.
grep -q 'TANDEM_UNITY=ON' "$folder/build/logs/configure-cpu.log" || { echo "FAILED: a new folder is configured without TANDEM_UNITY"; exit 1; }
touch "$folder/build/CMakeCache.txt"
STANDIN_FAILS=no sh "$folder/scripts/program" "$folder" >/dev/null 2>&1
! grep -q 'TANDEM_UNITY' "$folder/build/logs/configure-cpu.log" || { echo "FAILED: an old folder is configured anew"; exit 1; }

status=0
output=$(STANDIN_FAILS=yes sh "$folder/scripts/program" "$folder" 2>&1) || status=$?
[ $status = 1 ] || { echo "FAILED: a failing build gives status $status: $output"; exit 1; }
for text in 'preset cpu failed' 'something is wrong' "$folder/build/logs/build-cpu.log"; do
  printf '%s\n' "$output" | grep -qF "$text" || { echo "FAILED: the message lacks '$text': $output"; exit 1; }
done
if printf '%s\n' "$output" | grep -q '^built$'; then
  echo "FAILED: the script goes on after a failing build"
  exit 1
fi

# scripts/test gives ctest the label and the filter, and adds up what ctest reports.
cp "$repository/scripts/test" "$folder/scripts/"
cat >"$folder/bin/ctest" <<'STANDIN'
#!/bin/sh
echo "$*" >"$CTEST_ARGUMENTS"
while [ $# -gt 1 ]; do
  [ "$1" != --output-junit ] || echo '<testsuite name="x" tests="3" failures="0" skipped="1" disabled="0"></testsuite>' >"$2"
  shift
done
STANDIN
chmod +x "$folder/bin/ctest"
CTEST_ARGUMENTS=$folder/arguments
STANDIN_FAILS=no
export CTEST_ARGUMENTS STANDIN_FAILS
output=$("$folder/scripts/test" --no-install --quick --filter base 2>&1)
printf '%s\n' "$output" | grep -q '^2 passed, 0 failed$' || { echo "FAILED: scripts/test --quick: $output"; exit 1; }
grep -q -- '-L ^quick$ -R base$' "$CTEST_ARGUMENTS" || { echo "FAILED: scripts/test --quick: ctest $(cat "$CTEST_ARGUMENTS")"; exit 1; }
"$folder/scripts/test" --no-install >/dev/null 2>&1
if grep -q -- ' -L ' "$CTEST_ARGUMENTS"; then
  echo "FAILED: scripts/test without --quick: ctest $(cat "$CTEST_ARGUMENTS")"
  exit 1
fi
