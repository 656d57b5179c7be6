#!/bin/sh
# Every test of the build has one of the labels quick and full, and none that needs the machine for itself is quick.
set -eu
build=$2
command -v python3 >/dev/null || exit 77
list=$(mktemp)
trap 'rm -f "$list"' EXIT
(cd "$build" && ctest --show-only=json-v1) >"$list"
exec python3 - "$list" <<'EOF'
import json, sys

failures, count = [], {"quick": 0, "full": 0}
for test in json.load(open(sys.argv[1]))["tests"]:
    properties = {p["name"]: p["value"] for p in test.get("properties", [])}
    labels = properties.get("LABELS", [])
    if test["name"].endswith("_NOT_BUILT"):
        continue
    if labels not in (["quick"], ["full"]):
        failures.append(f"{test['name']}: labels {labels}")
        continue
    count[labels[0]] += 1
    if labels == ["quick"] and properties.get("RUN_SERIAL"):
        failures.append(f"{test['name']}: is quick and RUN_SERIAL")
if count["quick"] < count["full"]:
    failures.append(f"fewer quick tests than full ones: {count}")
print("\n".join(failures) or count)
sys.exit(bool(failures))
EOF
