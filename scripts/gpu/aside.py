"""Takes what a GPU needs not out of a checkout that travels to one, and puts it back (scripts/gpu_check aside, back)."""
import pathlib
import subprocess
import sys
import tarfile

import travel

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
KEPT_AT = ROOT / "build/aside.tar"


def git(*arguments):
    return subprocess.run(["git", "-C", ROOT, *arguments], check=True, capture_output=True, text=True).stdout


def aside():
    if KEPT_AT.exists():
        sys.exit("gpu_check aside: build/aside.tar is there; scripts/gpu_check back first")
    if git("status", "--porcelain", "--untracked-files=no"):
        sys.exit("gpu_check aside: commit first (git status)")
    files = git("ls-files", "-z", "--", ".", *(f":!{place}" for place in travel.KEPT)).strip("\0").split("\0")
    KEPT_AT.parent.mkdir(exist_ok=True)
    part = KEPT_AT.with_suffix(".part")
    with tarfile.open(part, "w") as tar:  # with the times of files, so that nothing is built anew
        for name in files:
            tar.add(ROOT / name, name)
    part.rename(KEPT_AT)
    for name in files:
        (ROOT / name).unlink()
    print(f"{len(files)} files are in build/aside.tar; scripts/gpu_check back puts them back")


def back():
    if not KEPT_AT.exists():
        sys.exit("gpu_check back: there is no build/aside.tar")
    with tarfile.open(KEPT_AT) as tar:
        tar.extractall(ROOT)
    KEPT_AT.unlink()


if __name__ == "__main__":
    {"aside": aside, "back": back}[sys.argv[1]]()
