"""What travels to a borrowed machine: the repository's files and the pack beside them, within one limit."""
import pathlib
import subprocess

LIMIT = 64 << 20  # bytes, of both together
# What stays in a checkout after `scripts/gpu_check aside`.
KEPT = ["tests/data/goldens", "tests/data/images", "examples/demo-model", "scripts", ".gitignore"]


def tree_bytes(root, besides=(), of=()):
    """Of the files that git tracks or would add, but for those named; None where there is no repository. of: those in these places."""
    top = subprocess.run(["git", "-C", root, "rev-parse", "--show-toplevel"], capture_output=True, text=True)
    if top.returncode != 0:
        return None
    root = pathlib.Path(top.stdout.strip()).resolve()
    done = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *of],
                          capture_output=True)
    if done.returncode != 0:
        return None
    files = [pathlib.Path(root, name.decode()) for name in sorted(set(done.stdout.split(b"\0"))) if name]
    left_out = {pathlib.Path(f).resolve() for f in besides}
    return sum(f.lstat().st_size for f in files if (f.is_symlink() or f.is_file()) and f not in left_out)


def mib(size):
    return f"{size / (1 << 20):.1f} MiB"


def verdict(tree, pack):
    """(fits, a line that says so)."""
    both = (tree or 0) + pack
    said = f"the repository {mib(tree)} + " if tree is not None else ""
    return both <= LIMIT, f"{said}the pack {mib(pack)} = {mib(both)} of {LIMIT >> 20} MiB"
