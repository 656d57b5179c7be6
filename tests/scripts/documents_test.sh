#!/bin/sh
# Links between the documents lead somewhere, each document is in the index, the tour can read their commands, and files
# that documents and comments name exist.
set -eu
repository=$1
command -v python3 >/dev/null || exit 77
exec python3 - "$repository" <<'EOF'
import re, subprocess, sys
from pathlib import Path

root = Path(sys.argv[1])
failures = []

def anchors(path):
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"[`*]|\]\([^)]*\)|\[", "", h).lower()).strip().replace(" ", "-") for h in headings}

documents = [root / "README.md", root / "CONTRIBUTING.md"]
for folder in ("docs", "client", "examples", "benchmarks", "packaging"):
    documents += sorted((root / folder).rglob("*.md"))
assert len(documents) > 20, documents
checked = 0
for document in documents:
    text = re.sub(r"```.*?```", "", document.read_text(), flags=re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)|<img src=\"([^\"]+)\"", text):
        target = target[0] or target[1]
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (document.parent / path) if path else document
        checked += 1
        if not file.exists():
            failures.append(f"{document.relative_to(root)}: {target}: no such file")
        elif anchor and file.suffix == ".md" and anchor not in anchors(file):
            failures.append(f"{document.relative_to(root)}: {target}: no such heading")
assert checked > 50, checked

index = (root / "docs/README.md").read_text()
for document in sorted((root / "docs").rglob("*.md")):
    name = str(document.relative_to(root / "docs"))
    if name != "README.md" and f"({name})" not in index:
        failures.append(f"docs/README.md: {name} is missing")

commands = subprocess.run([sys.executable, root / "tests/tour/tour.py", "--list"], capture_output=True, text=True)
if commands.returncode != 0 or commands.stdout.count("\n") < 50:
    failures.append(f"tests/tour/tour.py --list: {commands.stderr}{commands.stdout[-500:]}")
for words in ("whyever", "brought forth", "brings forth", "that is no more", "are no more,"):
    failures += [f"{d.relative_to(root)}: \"{words}\" does not read once" for d in documents if words in d.read_text()]
for port in ("5000",):  # the default of long ago
    for document in documents:
        if re.search(rf":{port}\b", document.read_text()):
            failures.append(f"{document.relative_to(root)}: port {port}")

# --- Files that documents and comments name: "folder/file.h" from the root, or a source file alone. A name with capital
# letters (NAME.cc) stands for others. What happened once may name what was there then: the CHANGELOG is not read.
tree = [file for folder in root.iterdir() if folder.is_dir() and not re.match(r"\.|build", folder.name)
        for file in folder.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
folders = "|".join(sorted({file.relative_to(root).parts[0] for file in tree}))
basenames = {file.name for file in tree}
foreign = re.compile(r"(mpi|nccl|cuda\w*|cublas\w*|\w*mmintrin)\.h")

def expanded(path):
    """a.{h,cc} is two paths."""
    braces = re.search(r"\{([^{}]*)\}", path)
    if not braces:
        return [path]
    return [p for part in braces[1].split(",") for p in expanded(path[:braces.start()] + part + path[braces.end():])]

def named(text):
    for path in re.findall(rf"(?<![\w./<-])((?:{folders})/[\w./{{}},*-]*[\w}}*])", text):
        if re.search(r"\.(h|cc|cu|cuh|inl|proto|md|py|sh|json|cmake|svg|txt)$|\.\{", path):
            yield from expanded(path)
    yield from (name for name in re.findall(r"(?<![\w./<{*-])(\w+\.(?:h|cc|cu|cuh|inl))\b(?!/)", text) if not foreign.fullmatch(name))

def absent(text):
    paths = [path for path in set(named(text)) if not re.search("[A-Z]", path.rsplit("/", 1)[-1].split(".")[0])]
    return sorted(path for path in paths if not (list(root.glob(path)) if "/" in path else path in basenames))

assert absent("`runtime/{none,such}.h`, none_such.cc and models/NAME.cc") == ["none_such.cc", "runtime/none.h", "runtime/such.h"]
# Programs of the build: tests by folder, benchmarks and others by source file.
programs = {file.stem for file in tree if file.suffix == ".cc"} | {"tandem", "cuda_test", "cuda_emulated_test"}
programs |= {folder.name + "_test" for folder in (root / "tests").glob("**/") if folder.is_dir()}
named_files = 0
for file in tree + [root / "README.md", root / "CONTRIBUTING.md"]:
    name = str(file.relative_to(root))
    if file.suffix == ".md":
        text = file.read_text()
    elif file.suffix in (".h", ".cc", ".cu", ".cuh", ".inl", ".proto"):
        text = "\n".join(re.findall(r"(?<!:)//(.*)$", file.read_text(), re.M))
    elif file.suffix in (".py", ".sh", ".cmake") or file.name == "CMakeLists.txt" or (name.startswith("scripts/") and not file.suffix):
        text = "\n".join(re.findall(r"(?:^|\s)#(.*)$", file.read_text(), re.M))
    else:
        continue
    named_files += len(set(named(text)))
    used = set(re.findall(r"build/bin/([a-z_0-9]+)\b(?!\.)", text)) if file.suffix == ".md" else set()
    failures += [f"{name}: build/bin/{program} is no program" for program in sorted(used - programs)]
    failures += [f"{name}: names {path}, which does not exist" for path in absent(text)]
assert named_files > 300, named_files
print("\n".join(failures) or f"{checked} links, {named_files} names of files")
sys.exit(bool(failures))
EOF
