#!/bin/sh
# The scripts explain themselves, refuse options that they do not know with status 2, and work from any folder.
set -eu
repository=$1
cd /
failures=0
wrong() {
  echo "FAILED $*"
  failures=$((failures + 1))
}
for script in quickstart test test_long test_fresh test_aarch64 smoke install_dependencies check_style check_locks build_wheel; do
  file=$repository/scripts/$script
  # test_fresh is for a developer's machine and uses bash, which a bare root has as well.
  [ -x "$file" ] || wrong "$script is not executable"
  help=$("$file" --help) || wrong "$script --help: exit status $?"
  printf '%s' "$help" | grep -q "scripts/$script" || wrong "$script --help shows no usage: $help"
  status=0
  "$file" --no-such-option >/dev/null 2>&1 || status=$?
  [ $status = 2 ] || wrong "$script --no-such-option: exit status $status instead of 2"
done
for bad in "--preset nonesuch" "--repeat 0" "--repeat many"; do
  status=0
  # shellcheck disable=SC2086 # two words
  "$repository/scripts/test" $bad >/dev/null 2>&1 || status=$?
  [ $status = 2 ] || wrong "test $bad: exit status $status instead of 2"
done
status=0
"$repository/scripts/test" --long no-such-part >/dev/null 2>&1 || status=$?
[ $status = 2 ] || wrong "test --long with a part that does not exist: exit status $status instead of 2"
# The record has a row for each part.
for part in $("$repository/scripts/test_long" --list); do
  grep -q "^| \`$part\` | [0-9–]" "$repository/docs/long_tests.md" || wrong "docs/long_tests.md has no row of $part"
done
status=0
"$repository/scripts/quickstart" --no-install /no/such/text >/dev/null 2>&1 || status=$?
[ $status = 2 ] || wrong "quickstart with a file that is not there: exit status $status instead of 2"
for bad in "--steps nonesuch" "--jobs 0" "--jobs many" "--only" "--goldens /no/such/folder"; do
  status=0
  # shellcheck disable=SC2086 # two words
  "$repository/scripts/test_aarch64" $bad >/dev/null 2>&1 || status=$?
  [ $status = 2 ] || wrong "test_aarch64 $bad: exit status $status instead of 2"
done
for bad in "--steps nonesuch" "--turns 3"; do
  status=0
  # shellcheck disable=SC2086 # two words
  "$repository/scripts/test_fresh" $bad >/dev/null 2>&1 || status=$?
  [ $status = 2 ] || wrong "test_fresh $bad: exit status $status instead of 2"
done
"$repository/scripts/test" --help | grep -q -- "--quick " || wrong "test --help does not explain --quick"
packages=$("$repository/scripts/install_dependencies" --list)
for package in g++ cmake ninja-build libprotobuf-dev; do
  printf '%s\n' "$packages" | grep -qxF "$package" || wrong "install_dependencies --list lacks $package"
done
! printf '%s\n' "$packages" | grep -qx chromium || wrong "install_dependencies --list has a browser unasked"
"$repository/scripts/install_dependencies" --list --browser | grep -qx chromium || wrong "install_dependencies --browser lacks chromium"
[ $failures = 0 ]
