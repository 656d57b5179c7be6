# Functions shared by the scripts in this folder; sourced with `root` (the repository) set. POSIX sh.

logs=$root/build/logs
mkdir -p "$logs"

cores() { nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1; }
seconds() { date +%s; }
say() { printf '%s\n' "$*"; }

# fail LOG MESSAGE: what went wrong, the end of the log, and where the rest is.
fail() {
  log=$1
  shift
  {
    say ""
    say "error: $*"
    if [ -s "$log" ]; then
      say "The last lines of $log:"
      grep -n -E 'error|FAILED|undefined reference|E:' "$log" | tail -n 5 | sed 's/^/  line /' || true
      tail -n 15 "$log" | sed 's/^/  | /'
      say "Read all of it in $log"
    fi
  } >&2
  exit 1
}

# logged LOG COMMAND…: runs the command with everything it prints in LOG; its status is returned.
logged() {
  log=$1
  shift
  "$@" >"$log" 2>&1
}

# show_progress LOG: copies ninja's output to LOG and shows its [done/total] on one line of a terminal, or at every
# quarter elsewhere.
show_progress() {
  shown=0
  : >"$1"
  while IFS= read -r line; do
    printf '%s\n' "$line" >>"$1"
    case $line in
      \[*/*\]*) ;;
      *) continue ;;
    esac
    count=${line#\[}
    count=${count%%\]*}
    done_=${count%/*}
    total=${count#*/}
    case $done_$total in
      *[!0-9]*) continue ;;
    esac
    if [ -t 1 ]; then
      printf '\r      compiled %s of %s ' "$done_" "$total"
    elif [ "$total" -ge 8 ] && [ $((done_ * 4 / total)) -gt "$shown" ]; then
      shown=$((done_ * 4 / total))
      printf '      compiled %s of %s\n' "$done_" "$total"
    fi
  done
  if [ -t 1 ]; then
    printf '\r%40s\r' ''
  fi
}

# configure PRESET [cmake options]: ccache is used where it is installed. A folder that is new compiles files together.
configure() {
  preset=$1
  shift
  launcher=$(command -v ccache || true)
  together=
  [ -f "$(build_folder "$preset")/CMakeCache.txt" ] || together=-DTANDEM_UNITY=ON
  # shellcheck disable=SC2086
  (cd "$root" && logged "$logs/configure-$preset.log" \
    cmake --preset "$preset" "-DCMAKE_CXX_COMPILER_LAUNCHER=$launcher" $together "$@") ||
    fail "$logs/configure-$preset.log" "CMake could not configure preset $preset"
}

# build PRESET FOLDER [targets]: compiles with as many jobs as there are cores.
build() {
  preset=$1
  folder=$2
  shift 2
  targets=
  [ $# -eq 0 ] || targets="--target $*"
  rm -f "$logs/build-$preset.status"
  # shellcheck disable=SC2086
  {
    status=0
    NINJA_STATUS='[%f/%t] ' cmake --build "$folder" -j "$(cores)" $targets 2>&1 || status=$?
    echo $status >"$logs/build-$preset.status"
  } | show_progress "$logs/build-$preset.log"
  [ "$(cat "$logs/build-$preset.status")" = 0 ] ||
    fail "$logs/build-$preset.log" "the build of preset $preset failed"
}

# build_folder PRESET: where CMakePresets.json puts it.
build_folder() {
  case $1 in
    cpu) echo "$root/build" ;;
    *) echo "$root/build-$1" ;;
  esac
}
