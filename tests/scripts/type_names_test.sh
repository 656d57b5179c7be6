#!/bin/sh
# A type's name stands for one type: two headers that define the same name in the same namespace are two types that the linker
# takes for one (its destructor, say, is that of either). No single file sees both. Exit status 77: no python3.
set -eu
command -v python3 >/dev/null || exit 77
cd "$1"
python3 - <<'PYTHON'
import collections
import pathlib
import re
import sys

TEXT = r'//[^\n]*|/\*.*?\*/|R"(\w*)\((?:.|\n)*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\''
TOKEN = re.compile(r"namespace\s*([\w:]*)\s*\{|"
                   r"\b(?:struct|class|enum(?:\s+class)?|union)\s+(?:\[\[[^\]]*\]\]\s*)?(?:alignas\([^)]*\)\s*)?(\w+)(?:\s+final)?\s*"
                   r"(?::(?!:)[^;{()]*)?\{|(\{)|(\})")


def types_of(code):
    """Names of the types that are defined at the level of namespaces, with these; none of unnamed namespaces."""
    around = []
    for space, name, block, end in (match.groups() for match in TOKEN.finditer(re.sub(TEXT, " ", code, flags=re.DOTALL))):
        if end:
            around = around[:-1]
            continue
        if name and all(where is not None and where for where in around):
            yield "::".join([*around, name])
        around.append(space if space is not None and not name and not block else None)


def doubles(files):
    places = collections.defaultdict(set)
    for file, code in files.items():
        for name in types_of(code):
            places[name].add(file)
    return {name: sorted(where) for name, where in places.items() if len(where) > 1}


ONE = "namespace a {\nstruct Page {\n  struct In {\n  };\n};\nclass Later;\nstruct Page::Of {\n};\nnamespace {\nstruct Own {\n};\n}\n}\n"
assert list(types_of(ONE)) == ["a::Page"], list(types_of(ONE))
assert doubles({"one": ONE, "two": "namespace a {\nclass Page final : public B {\n};\n}"}) == {"a::Page": ["one", "two"]}
assert not doubles({"one": ONE, "two": "namespace a::b {\nstruct Page {\n};\n}\nnamespace a {\nstruct In {\n};\n}"})

folders = "base kernels parallel text models runtime actors client server launcher python include tests/support".split()
headers = {str(path): path.read_text() for folder in folders for path in sorted(pathlib.Path(folder).rglob("*"))
           if path.suffix in (".h", ".cuh") and "cuda_emulator/include" not in str(path)}
found = doubles(headers)
for name, where in sorted(found.items()):
    print(f"{name} is defined in {' and in '.join(where)}")
print(f"{len(headers)} headers")
sys.exit(1 if found or len(headers) < 100 else 0)
PYTHON
