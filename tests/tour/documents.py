"""Commands and Python snippets of Markdown documents, as they are written there."""
import re
import shlex
from dataclasses import dataclass

# What a command line begins with, behind assignments of variables.
PROGRAMS = {
    "apt", "apt-get", "benchmarks/compare_peers.py", "cmake", "cp", "curl", "docker", "dpkg", "dpkg-buildpackage", "echo",
    "export", "for", "guidellm", "journalctl", "kubectl", "locust", "mpirun", "openssl", "pip", "printf", "python3", "sbatch",
    "srun", "sudo", "sudoedit", "systemctl", "tandem", "unset",
}
PREFIXES = ("build/bin/", "scripts/", "./", ".ci/")
ASSIGNMENT = re.compile(r"^[A-Z][A-Z0-9_]*=\S*$")


@dataclass
class Snippet:
    document: str  # relative to the repository
    line: int      # of its first line, from 1
    language: str  # "sh" or "python"
    text: str
    output: tuple = ()  # lines that the document shows below the command

    @property
    def where(self):
        return f"{self.document}:{self.line}"


def blocks(text):
    """(first line's number, language or None, lines) of fenced and indented code blocks."""
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        fence = re.match(r"^(\s*)```(\w*)\s*$", lines[at])
        if fence:
            end = at + 1
            while end < len(lines) and lines[end].strip() != "```":
                end += 1
            yield at + 2, fence[2], lines[at + 1:end]
            at = end + 1
        elif lines[at].startswith("    ") and (at == 0 or not lines[at - 1].strip() or lines[at - 1].startswith("#")):
            end = at
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            yield at + 1, None, [line[4:] for line in lines[at:end]]
            at = end
        else:
            at += 1


def is_command(line):
    words = line.split()
    while words and ASSIGNMENT.match(words[0]):
        words.pop(0)
    return bool(words) and (words[0] in PROGRAMS or words[0].lstrip("(").startswith(PREFIXES) or words[0] == "(cd")


def needs_more(text):
    """The command goes on in the next line: a backslash, a pipe, or a quote that is still open."""
    stripped = text.rstrip()
    if stripped.endswith(("\\", "|", "&&")):
        return True
    try:
        shlex.split(stripped, comments=True)
    except ValueError:
        return True
    return False


def commands(first, lines):
    """(line number, text, lines of output) of the commands of a block of shell. What follows a command without being one
    is its output."""
    at = 0
    found = []
    while at < len(lines):
        if not lines[at].strip() or lines[at].lstrip().startswith("#"):
            at += 1
            continue
        start = at
        text = lines[at]
        if not is_command(text.strip()):
            found[-1][2].append(text)
            at += 1
            continue
        while needs_more(text) and at + 1 < len(lines):
            at += 1
            text += "\n" + lines[at]
        found.append((first + start, text, []))
        at += 1
    return found


def snippets(root, document):
    """All that can be run in a document. A block is shell if its first line is a command."""
    text = (root / document).read_text()
    for first, language, lines in blocks(text):
        if language == "python":
            yield Snippet(document, first, "python", "\n".join(lines))
            continue
        code = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
        if language not in (None, "", "sh", "bash", "console") or not code or not is_command(code[0].strip()):
            continue
        for line, command, output in commands(first, lines):
            yield Snippet(document, line, "sh", command, tuple(output))
