#!/bin/sh
# Kernels keep all they work on in registers: no stack, so no spills, on every architecture in the library. (Sines and cosines of
# large angles need a stack: angles_kernel.)
# Exit status 77: no CUDA plugin with code for Hopper is built, or it is without code for one (TANDEM_CUDA_CHECK), or python3 or libzstd
# is missing.
set -eu
source=$1
library=$2/bin/libtandem_cuda.so
command -v python3 >/dev/null || exit 77
[ -f "$library" ] || exit 77
! grep -q '^TANDEM_CUDA_CHECK:BOOL=ON' "$2/CMakeCache.txt" || exit 77
report=$source/scripts/ptxas_report

status=0
table=$("$report" "$library") || status=$?
[ "$status" = 0 ] || exit "$status"
for kernel in rows_kernel tiles_kernel select_kernel draw_kernel rank_kernel layer_norm_kernel embedding_kernel write_kv_kernel \
    search_beams_kernel move_pages_kernel one_shot_kernel weight_rows_kernel weight_tiles_kernel \
    linear_best_kernel best_tiles_kernel wide_tiles_kernel join_tiles_kernel join_best_kernel decoder_step_kernel; do
  printf '%s\n' "$table" | grep -q "^| \`\([a-z_]*::\)*$kernel" || {
    echo "FAILED: the table has no $kernel"
    exit 1
  }
done
# Registers were found, not zeros.
if printf '%s\n' "$table" | grep -E '^\| `[^|]*` \| 0 \|'; then
  echo "FAILED: kernels without registers"
  exit 1
fi
# Of each architecture that the library has code for.
checked=
for arch in 75 80 86 89 90a 100a 120a; do
  status=0
  "$report" "$library" --arch $arch --check '^(?!angles_kernel)' || status=$?
  case $status in
    0) checked="$checked $arch" ;;
    77) ;;
    *) exit "$status" ;;
  esac
done
[ -n "$checked" ] || {
  echo "FAILED: no architecture was found"
  exit 1
}
echo "no kernel spills on$checked"

# What it does not find it does not pass.
status=0
"$report" "$library" --check '^no_such_kernel' >/dev/null || status=$?
[ "$status" = 1 ]
status=0
"$report" "$library" --arch 52 2>/dev/null || status=$?
[ "$status" = 77 ]
