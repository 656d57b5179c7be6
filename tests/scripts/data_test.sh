#!/bin/sh
# tests/data holds each set of weights once, and stays small: what a test needs in another container or type it writes
# (tests/support/goldens/golden_twins.h).
set -eu
source=$1
command -v python3 >/dev/null || exit 77
exec python3 - "$source/tests/data" <<'EOF2'
import collections, hashlib, sys
from pathlib import Path

LARGE = 16 << 10  # smaller files are those that each folder of a hub has
LIMIT = 29 << 20
data = Path(sys.argv[1])
files = [file for file in data.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
assert len(files) > 40, files
groups = collections.defaultdict(list)
for file in files:
    if file.stat().st_size >= LARGE:
        groups[hashlib.sha256(file.read_bytes()).digest()].append(str(file.relative_to(data)))
failures = [f"the same contents: {' '.join(sorted(group))}" for group in groups.values() if len(group) > 1]
total = sum(file.stat().st_size for file in files)
if total > LIMIT:
    failures.append(f"{total} bytes, more than {LIMIT}")
print("\n".join(failures) or f"{len(files)} files, {total} bytes")
sys.exit(bool(failures))
EOF2
