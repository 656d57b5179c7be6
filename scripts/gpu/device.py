"""What this machine has: the GPU, its driver, CUDA's libraries."""
import ctypes
import glob
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

# NVIDIA's figures, dense: memory GB/s, bf16 TFLOP/s. The first name that fits.
ROOFLINES = [("H200", 4800, 989), ("H100 NVL", 3938, 835), ("H100 PCIe", 2039, 756), ("H100", 3352, 989), ("B200", 8000, 2250),
             ("GH200", 4000, 989), ("A100-SXM4-80GB", 2039, 312), ("A100", 1555, 312), ("L40S", 864, 362), ("L4", 300, 121),
             ("RTX 5090", 1792, 210), ("RTX 4090", 1008, 165), ("T4", 320, 65)]


def roofline(name):
    for part, memory, compute in ROOFLINES:
        if part in name:
            return {"memory_gb_s": memory, "bf16_tflop_s": compute}
    return None


def output(*command, timeout=20):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
        return done.stdout if done.returncode == 0 else ""
    except (OSError, subprocess.TimeoutExpired):
        return ""


def find_tool(name):
    places = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/cuda/bin", "/usr/local/nvidia/bin",
                              *glob.glob("/usr/local/cuda/compute-sanitizer"), *sorted(glob.glob("/opt/nvidia/nsight-compute/*"))])
    return shutil.which(name, path=places) or ""


def python_folders():
    """Where wheels of NVIDIA's libraries lie, PyTorch's among them."""
    folders = []
    for base in {p for p in sys.path if p.endswith(("site-packages", "dist-packages"))}:
        folders += glob.glob(f"{base}/nvidia/*/lib")
    return sorted(folders)


def library_folders(names):
    """Folders that the program does not look into by itself and that hold the libraries named; and the names found nowhere."""
    known = output("ldconfig", "-p") or output("/sbin/ldconfig", "-p")
    given = [f for f in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if f]
    places = given + ["/usr/local/nvidia/lib64", "/usr/local/cuda/lib64", *sorted(glob.glob("/usr/local/cuda-1[3-9]*/lib64")),
                      *glob.glob("/usr/local/cuda/targets/*/lib"), *python_folders()]
    folders, missing = [], []
    for name in names:
        place = next((p for p in places if pathlib.Path(p, name).exists()), None)
        if place is not None:
            folders.append(place)
        elif f"\t{name} " not in known:
            missing.append(name)
    return list(dict.fromkeys(folders)), missing


def driver_version():
    for line in output(find_tool("nvidia-smi") or "nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").splitlines():
        return line.strip()
    try:
        found = re.search(r"Kernel Module.*?\s([\d.]+)\s", pathlib.Path("/proc/driver/nvidia/version").read_text())
        return found[1] if found else "unknown"
    except OSError:
        return "unknown"


def ask_driver(folders):
    """Name, memory and compute capability of the first GPU, from libcuda."""
    path = next((str(pathlib.Path(f, "libcuda.so.1")) for f in folders if pathlib.Path(f, "libcuda.so.1").exists()),
                "libcuda.so.1")
    try:
        cuda = ctypes.CDLL(path)
    except OSError as e:
        return {"problem": f"no driver: {e}"}
    error = cuda.cuInit(0)
    if error:
        return {"problem": f"the driver does not start (cuInit: error {error})"}
    count = ctypes.c_int()
    if cuda.cuDeviceGetCount(ctypes.byref(count)) or count.value == 0:
        return {"problem": "the driver knows of no GPU"}
    device, name, memory = ctypes.c_int(), ctypes.create_string_buffer(100), ctypes.c_size_t()
    major, minor, version = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    cuda.cuDeviceGet(ctypes.byref(device), 0)
    cuda.cuDeviceGetName(name, 100, device)
    cuda.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    cuda.cuDeviceGetAttribute(ctypes.byref(major), 75, device)
    cuda.cuDeviceGetAttribute(ctypes.byref(minor), 76, device)
    cuda.cuDriverGetVersion(ctypes.byref(version))
    return {"problem": "", "name": name.value.decode(), "count": count.value, "memory_gib": round(memory.value / 2**30, 1),
            "capability": f"{major.value}.{minor.value}", "cuda": f"{version.value // 1000}.{version.value % 1000 // 10}"}


def look(pack, plugin, device):
    """All there is to say; `problem` is empty where checks can run."""
    packed = json.loads((pack / "pack.json").read_text())
    about = {"commit": packed["commit"], "packed": packed["packed"], "python": platform.python_version(),
             "system": f"{platform.system()} {platform.release()}, glibc {platform.libc_ver()[1]}", "cores": os.cpu_count(),
             "tools": {t: find_tool(t) for t in ["compute-sanitizer", "ncu", "nvidia-smi"]}}
    about["library_folders"], missing = library_folders([*packed["theirs"], "libcuda.so.1"])
    if device == "cpu":
        return {**about, "name": "no GPU: the CPU", "driver": "none", "problem": "", "kind": "cpu"}
    if plugin is not None:
        return {**about, "name": f"no GPU: {plugin.name}", "driver": "none", "problem": "", "kind": "emulated"}
    about.update(ask_driver(about["library_folders"]))
    about["driver"] = driver_version()
    about["kind"] = "none" if about["problem"] else "gpu"
    about["missing_libraries"] = missing
    about["roofline"] = roofline(about.get("name", ""))
    return about
