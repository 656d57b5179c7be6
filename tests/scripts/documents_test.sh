#!/bin/sh
# Links between the documents lead somewhere, each document is in the index, and the tour can read their commands.
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
for port in ("5000",):  # the default of long ago
    for document in documents:
        if re.search(rf":{port}\b", document.read_text()):
            failures.append(f"{document.relative_to(root)}: port {port}")
print("\n".join(failures) or f"{checked} links")
sys.exit(bool(failures))
EOF
