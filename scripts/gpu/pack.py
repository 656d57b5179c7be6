"""Packs the built programs, tests, benchmarks, goldens and the libraries that they need (scripts/gpu_check pack)."""
import argparse
import gzip
import json
import lzma
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import time

import slim
import travel

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAMS = ["tandem", "cuda_test", "device_test", "bench_gpu", "bench_gpu_ops", "make_random_bart"]
OF_SEVERAL = ["bench_all_reduce"]
PLUGIN = "libtandem_cuda.so"
MPI_PLUGIN = "libtandem_mpi.so"  # of jobs on several GPUs
# What every machine has, and has to be its own: glibc and the driver; and CUDA's libraries.
GLIBC = r"(linux-vdso|ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|anl|nsl|nss_\w+|mvec|BrokenLocale|thread_db))\.so.*"
CUDA = r"lib(cuda|cublasLt|cublas|nccl|nvidia-\w+|nvrtc\S*)\.so.*"
MODELS = ["tests/data/goldens", "examples/demo-model"]  # device_test runs some of every family's


def parse(argv):
    p = argparse.ArgumentParser(prog="gpu_check pack", description=__doc__)
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="build folder with the CUDA plugin")
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path("gpu_check.tar.xz"),
                   help="a .tar.xz or .tar.gz file, or a folder to make")
    p.add_argument("--with-models", action="store_true", help="the goldens too, for a machine without the repository")
    p.add_argument("--several-gpus", action="store_true", help="what several GPUs need too: MPI, and the benchmark of their sums")
    p.add_argument("--alone", action="store_true", help="the repository does not travel beside it: the pack alone has to fit")
    p.add_argument("--preset", type=int, choices=range(10), default=6, help="of xz: more is smaller and slower")
    p.add_argument("--list", action="store_true", help="print what is packed, with sizes")
    return p.parse_args(argv)


def die(message):
    sys.exit(f"gpu_check pack: {message}")


def needed(file, search):
    """Libraries that the file needs, by name: their paths, or None where ldd finds none."""
    environment = dict(os.environ, LD_LIBRARY_PATH=os.pathsep.join(search))
    done = subprocess.run(["ldd", file], capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        return {}
    found = {}
    for line in done.stdout.splitlines():
        words = line.split()
        if "=>" in words:
            found[words[0]] = None if "not found" in line else pathlib.Path(words[2])
    return found


def add_libraries(folder):
    """The closure of everything in the folder, less glibc and CUDA, to lib/. Returns names that the target has to have."""
    lib = folder / "lib"
    kept = {f.name: f for f in lib.glob("*")} if lib.exists() else {}
    lib.mkdir(exist_ok=True)
    theirs, wanted = set(), set()
    files = [f for f in (folder / "bin").iterdir() if f.read_bytes()[:4] == b"\x7fELF"]
    for file in files:
        for name, path in needed(file, [str(lib)] if kept else []).items():
            wanted.add(name)
            if re.fullmatch(CUDA, name):
                theirs.add(name)
            elif re.fullmatch(GLIBC, name):
                continue
            elif path is None:
                die(f"{file.name} needs {name}, which is not on this machine")
            elif folder not in path.parents and not (lib / name).exists():
                shutil.copy(path, lib / name)
    # (ldd tells the whole closure: libraries of libraries are there too.)
    for name in kept.keys() - wanted:
        kept[name].unlink()
    return theirs


def cached(build, name):
    """A value of the build folder's CMakeCache.txt; "" where it has none."""
    cache = build / "CMakeCache.txt"
    found = re.search(rf"^{name}:\w+=(.*)$", cache.read_text(), re.M) if cache.exists() else None
    return found[1] if found else ""


def architectures(build):
    """What the kernels were compiled for, where the build folder was told; else this machine's own, or 90a."""
    return [a for a in cached(build, "TANDEM_CUDA_ARCHITECTURES").split(";") if a]


def strip(folder):
    for file in folder.rglob("*"):
        if file.is_file() and not file.is_symlink() and file.read_bytes()[:4] == b"\x7fELF":
            file.chmod(0o755)
            subprocess.run(["strip", "--strip-unneeded", file], stderr=subprocess.DEVNULL)


def commit():
    done = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def fill(folder, args):
    binaries = args.build / "bin"
    programs = PROGRAMS + (OF_SEVERAL if args.several_gpus else [])
    if not (binaries / PLUGIN).exists():
        die(f"{binaries} has no {PLUGIN}: build with a CUDA toolkit (targets: tandem_cuda {' '.join(programs)})")
    if cached(args.build, "TANDEM_CUDA_CHECK") == "ON":
        die(f"the kernels of {args.build} are hardly optimised (scripts/test builds them so where no GPU is): configure with "
            "-DTANDEM_CUDA_CHECK=OFF and build again")
    missing = [p for p in programs if not (binaries / p).exists()]
    if missing:
        die(f"not built: {' '.join(missing)}")
    compiled = architectures(args.build)
    if compiled == ["all"] or len(compiled) > 1:
        print(f"gpu_check pack: the kernels are compiled for {' '.join(compiled)}; with -DTANDEM_CUDA_ARCHITECTURES=90a-real "
              "the pack of an H100 is smaller", file=sys.stderr)
    (folder / "bin").mkdir(parents=True)
    for name in [*programs, PLUGIN, *([MPI_PLUGIN] if args.several_gpus else [])]:
        shutil.copy(binaries / name, folder / "bin" / name)
    theirs = add_libraries(folder)
    if not args.several_gpus:
        slim.leave_out_all(folder / "lib", [folder / "bin" / name for name in programs], os.environ.get("CC", "cc"))
        add_libraries(folder)  # what only those needed is gone
    for library in (folder / "lib").glob("libicudata.so*"):
        slim.icu_data(library)
    strip(folder)
    for name in MODELS if args.with_models else []:
        shutil.copytree(ROOT / name, folder / name)
    shutil.copytree(ROOT / "scripts/gpu", folder / "scripts", ignore=shutil.ignore_patterns("__pycache__", "pack.py"))
    shutil.copytree(ROOT / "benchmarks/gpu", folder / "scripts", ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    for name, target in {"run": "run", "rank": "bin/rank"}.items():
        shutil.move(folder / "scripts" / name, folder / target)
        (folder / target).chmod(0o755)
    (folder / "pack.json").write_text(json.dumps({"commit": commit(), "packed": time.strftime("%Y-%m-%d %H:%M:%S"),
                                                  "theirs": sorted(theirs)}, indent=1) + "\n")


def compressed(path, preset):
    """To write to. The programs have most of their code in common: a dictionary that reaches from one to the next says more
    than a slow search (gzip has none such)."""
    if path.suffix == ".gz":
        return gzip.open(path, "wb", compresslevel=6)
    return lzma.open(path, "wb", filters=[{"id": lzma.FILTER_X86}, {"id": lzma.FILTER_LZMA2, "preset": preset, "dict_size": 128 << 20}])


def main(argv):
    args = parse(argv)
    to_file = args.out.suffix in (".gz", ".xz")
    folder = args.out.with_name(args.out.name + ".tmp") if to_file else args.out
    if folder.exists():
        die(f"{folder} exists already")
    if not to_file:
        folder.mkdir(parents=True)
    try:
        fill(folder, args)
        if args.list:
            for file in sorted((f for f in folder.rglob("*") if f.is_file()), key=lambda f: -f.stat().st_size)[:40]:
                print(f"{file.stat().st_size:>10} {file.relative_to(folder)}")
        whole = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
        size = whole
        if to_file:
            with compressed(args.out, args.preset) as file, tarfile.open(fileobj=file, mode="w") as tar:
                tar.add(folder, "gpu_check")
            size = args.out.stat().st_size
    finally:
        if to_file:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{args.out}: {size / (1 << 20):.1f} MiB" + (f", {whole / (1 << 20):.1f} MiB unpacked" if to_file else ""))
    if to_file:
        # (The pack lies in the repository where nobody says otherwise: it is not counted twice.)
        fits, said = travel.verdict(None if args.alone else travel.tree_bytes(ROOT, [args.out]), size)
        print(said)
        if not fits and not args.alone:
            fits, said = travel.verdict(travel.tree_bytes(ROOT, [args.out], travel.KEPT), size)
            print(f"after `scripts/gpu_check aside`: {said}")
        if not fits:
            die("that is too large")


if __name__ == "__main__":
    main(sys.argv[1:])
