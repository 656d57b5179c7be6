#!/bin/sh
# The first thing that a CUDA kernel does is to wait for earlier kernels (kernels/cuda/launch.cuh): before it, memory that those
# write may not be touched. In front of it are allowed: prefetches of constants, loads of weights (`load_weights()` reads nothing
# else), sums of indices for them, and variables that have no value yet.
# Exit status 77: python3 is missing.
set -eu
repository=$1
command -v python3 >/dev/null || exit 77
python3 - "$repository/kernels/cuda" <<'PYTHON'
import pathlib
import re
import sys


def kernels(text):
    """(name, the body up to its wait, or None where it has none)."""
    for found in re.finditer(r"__global__\s", text):
        depth, at = 0, found.end()
        while depth or text[at] not in "{;":
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        if text[at] == ";":
            continue
        name = re.findall(r"(\w+)\s*\(", text[found.end():at])[-1]
        body = text[at + 1:text.index("\n}", at)]
        before, wait, _ = body.partition("wait_for_earlier_kernels();")
        yield name, before if wait else None


def is_allowed(statement):
    index = r"const(?:expr)? (int|int64_t) \w+ = ((?!->)[^\[\]])*"
    prefetch = r"(if \(early[^;]*\) )?prefetch\w*(<\w+>)?\([^;]*\)"
    weights = r"\w+\.load_weights\([^;]*\)"
    variables = r"\w+(<[\w, ]+>)?( \w+,)* \w+"
    return re.fullmatch(f"{index}|{prefetch}|{weights}|{variables}", statement) is not None


def wrong(text):
    for name, before in kernels(text):
        if before is None:
            yield f"{name} does not wait"
            continue
        code = re.sub(r"//[^\n]*|^#.*", "", before, flags=re.MULTILINE)
        for statement in filter(None, (" ".join(s.split()) for s in code.split(";"))):
            if not is_allowed(statement):
                yield f"{name}, before it waits: {statement}"


GOOD = "__global__ void f(int* x) {\n  const int i = static_cast<int>(threadIdx.x);\n  wait_for_earlier_kernels();\n  x[i] = 1;\n}\n"
assert not list(wrong(GOOD))
assert list(wrong(GOOD.replace("  wait_for_earlier_kernels();\n", ""))) == ["f does not wait"]
assert list(wrong(GOOD.replace("static_cast<int>(threadIdx.x)", "x[0]"))) == ["f, before it waits: const int i = x[0]"]
for good in "held.load_weights(p, 0, i)", "Chunk<T, S> now, next":
    assert is_allowed(good), good
for bad in "held.load_rows(p, 0, i)", "int now = x[0]", "x[i] = 1", "Chunk<T, S> now(x[0])", "f(x)":
    assert not is_allowed(bad), bad

seen, errors = 0, []
for file in sorted(pathlib.Path(sys.argv[1]).rglob("*.cu*")):
    if file.name == "checked_entry.cuh":  # never run
        continue
    seen += len(list(kernels(file.read_text())))
    errors += [f"{file}: {what}" for what in wrong(file.read_text())]
print("\n".join(errors) or f"{seen} kernels wait for earlier ones")
sys.exit(bool(errors) or seen < 20)
PYTHON
