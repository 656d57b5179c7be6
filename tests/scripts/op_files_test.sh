#!/bin/sh
# Every op of kernels/op_list.h is defined in files of the name that the list gives it: NAME.cc in kernels/check, NAME.* or
# NAME_*.* in kernels/cpu and kernels/cuda. No file of the checks or of the CPU is of no op.
set -eu
repository=$1
cd "$repository/kernels"
errors=0
wrong() {
  printf '%s\n' "$*"
  errors=$((errors + 1))
}

# name arguments file
ops=$(sed -n 's/^ *OP(\([a-z_]*\), *\([A-Za-z]*\), *\([a-z_]*\)).*/\1 \2 \3/p' op_list.h)
[ "$(printf '%s\n' "$ops" | wc -l)" -ge 10 ] || wrong "op_list.h: hardly any op was found"

# is_defined NAME ARGUMENTS FILES…: one of the files defines the op.
is_defined() {
  definition="^void $1([A-Za-z]*&\( ctx\)\{0,1\}, const \(ops::\)\{0,1\}$2& args) {"
  shift 2
  grep -q "$definition" "$@" /dev/null
}

list=$(mktemp)
trap 'rm -f "$list"' EXIT
printf '%s\n' "$ops" >"$list"
while read -r name arguments file; do
  is_defined "$name" "$arguments" "check/$file.cc" || wrong "op $name is not checked in kernels/check/$file.cc"
  # shellcheck disable=SC2046
  is_defined "$name" "$arguments" $(find cpu -name "$file.cc" -o -name "${file}_*.cc") ||
    wrong "op $name is not in kernels/cpu/$file*.cc"
  # shellcheck disable=SC2046
  is_defined "$name" "$arguments" $(find cuda -name "$file.cu" -o -name "${file}_*.cu") ||
    wrong "op $name is not in kernels/cuda/**/$file*.cu"
  grep -q "ops_of(ctx)\.$name(ctx, args)" "check/$file.cc" || wrong "kernels/check/$file.cc does not dispatch $name"
done <"$list"

# Files of checks and of the CPU that are of no op.
for path in check/*.cc cpu/*.cc; do
  file=$(basename "$path" .cc)
  case $path in cpu/pack_weight*.cc) continue ;; esac  # how `linear` has its weights
  known=no
  for name in $(printf '%s\n' "$ops" | awk '{ print $3 }' | sort -u); do
    case $file in "$name" | "${name}_"*) known=yes ;; esac
  done
  [ $known = yes ] || wrong "kernels/$path is a file of no op"
done

[ $errors = 0 ] && echo "$(printf '%s\n' "$ops" | wc -l) ops, each in its files"
[ $errors = 0 ]
