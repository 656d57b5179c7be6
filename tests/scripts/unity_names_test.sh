#!/bin/sh
# With TANDEM_UNITY=ON the files of a target are compiled many at a time (and CUDA's with TANDEM_CUDA_CHECK=ON), and which ones
# are together changes when one is added. So two files of a target may not define the same name in their unnamed namespaces
# (functions: with the same parameters).
# Exit status 77: no python3, or nothing was built together.
set -eu
build=$2
command -v python3 >/dev/null || exit 77
python3 - "$build" <<'PYTHON'
import collections
import pathlib
import re
import sys


def without_text(code):
    """Comments and literals become blanks, so that braces can be counted."""
    token = r'//[^\n]*|/\*.*?\*/|R"(\w*)\((?:.|\n)*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|^[ \t]*#[^\n]*(?:\\\n[^\n]*)*'
    return re.sub(token, " ", code, flags=re.DOTALL | re.MULTILINE)


def statements(code):
    """(namespaces around it, its text up to the first brace, "{" or ";") of each statement at the level of namespaces."""
    around, at = [], 0
    while at < len(code):
        end = re.compile(r"[{};]").search(code, at)
        if not end:
            return
        text, mark = " ".join(code[at:end.start()].split()), end[0]
        at = end.end()
        if mark == "}":
            if around:
                around.pop()
            continue
        space = re.fullmatch(r"(?:inline )?namespace ?([\w:]*)", text)
        if mark == "{" and space:
            around.append(space[1])
            continue
        yield tuple(around), text, mark
        if mark == "{":
            depth = 1
            while depth and at < len(code):
                depth += {"{": 1, "}": -1}.get(code[at], 0)
                at += 1
            # What stands between a body and its semicolon belongs to it ("} name;", "= {…};").
            rest = re.compile(r"[ \t\n]*;").match(code, at)
            at = rest.end() if rest else at


def name_of(text, mark):
    """(name, what must be equal besides for two to clash), or None."""
    text = re.sub(r"^template ?<.*?> (?=struct|class|[\w:]+ )", "", text)
    kind = re.match(r"(?:struct|class|enum(?: class)?|union) (?:alignas\([^)]*\) )?(\w+)", text)
    if kind:
        return (kind[1], "") if mark == "{" else None
    if text.startswith("using "):
        alias = re.match(r"using (\w+) ?= ?(.*)", text)
        return (alias[1], "=" + alias[2]) if alias else None
    assigned = re.split(r"(?<![=!<>])=(?!=)", text)[0]
    function = re.match(r"[\w:<>,&*~\[\]. ]*?\b(\w+) ?\((.*)", assigned)
    if function and mark == "{" and "operator" not in text and "=" not in text.split("(")[0]:
        if re.search(r"\w+::\w+ ?\(", assigned.split("(")[0] + "("):
            return None  # a member's or a declared function's definition
        types = re.sub(r"\b(\w+)(?=[,)]|$)", "", function[2].rsplit(")", 1)[0])
        return function[1], "(" + "".join(types.split())
    variable = re.match(r"(?:static |constexpr |const |constinit |inline |thread_local )+[\w:<>,&* ]*?\b(\w+)(?:\[[^\]]*\])?$", assigned.strip())
    return (variable[1], "") if variable else None


def clashes(files):
    """Names that more than one of the files (name → text) defines for itself."""
    seen = collections.defaultdict(dict)
    for file, code in files.items():
        for around, text, mark in statements(without_text(code)):
            local = "" in around or text.startswith("static ")
            found = name_of(text, mark) if local else None
            if found and not re.fullmatch(r"[A-Z_]{4,}\w*", found[0]):  # (macros such as TEST)
                seen[tuple(n for n in around if n), found[0]].setdefault(file, set()).add(found[1])
    for (around, name), places in sorted(seen.items()):
        listed = sorted(places.items())
        for i, (file, forms) in enumerate(listed):
            for other, theirs in listed[i + 1:]:
                both = forms | theirs
                aliases = all(form.startswith("=") for form in both)
                # (Of tests' helpers, whose arguments are in braces, overloads are ambiguous too.)
                overloads = all(form.startswith("(") for form in both) and "/tests/" not in file
                if (aliases and len(both) > 1) or (overloads and forms & theirs) or not (aliases or overloads):
                    yield f"{file} and {other}: {'::'.join(around)}::{name}"


ONE = "namespace a {\nnamespace {\nconstexpr int kX = 1;\nint f(int x) { return x; }\nusing J = int;\n}\nint g() { return 1; }\n}\n"
for other, clash in [("namespace a {\nnamespace {\nint f(int y) {}\n}\n}", "f"), ("namespace a {\nnamespace {\nint f(char y) {}\n}\n}", None),
                     ("namespace b {\nnamespace {\nint f(int y) {}\n}\n}", None), ("namespace a {\nstatic int f(int y) {}\n}", "f"),
                     ("namespace a {\nnamespace {\nconst char kX[] = \"{\";\n}\n}", "kX"), ("namespace a {\nnamespace {\nusing J = int;\n}\n}", None),
                     ("namespace a {\nnamespace {\nusing J = char;\n}\n}", "J"), ("namespace a {\nnamespace {\nstruct f {\n};\n}\n}", "f")]:
    found = list(clashes({"one": ONE, "two": other}))
    assert len(found) == (clash is not None) and (clash is None or found[0].endswith("::" + clash)), (other, found)

targets = collections.defaultdict(dict)
build = pathlib.Path(sys.argv[1])
for batch in [*build.rglob("*.dir/Unity/unity_*_cxx.cxx"), *build.rglob("together/together_*.cu")]:  # (cmake/cuda.cmake)
    target = batch.parent.parent.name[:-4] if batch.parent.name == "Unity" else "CUDA kernels"
    for source in re.findall(r'#include "([^"]+)"', batch.read_text()):
        if "/generated/" not in source and pathlib.Path(source).exists():
            targets[target][source] = pathlib.Path(source).read_text()
errors = [f"{target}: {what}" for target, files in sorted(targets.items()) for what in clashes(files)]
print("\n".join(errors) or f"{sum(map(len, targets.values()))} files of {len(targets)} targets")
sys.exit(1 if errors else 0 if targets else 77)
PYTHON
