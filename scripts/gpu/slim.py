"""Makes libraries of a pack smaller by what its programs never read."""
import re
import struct
import subprocess

# Of ICU's data: normal forms, breaks, what opens them. (Properties of characters are code.)
ICU_KEPT = re.compile(r".*(\.nrm|/brkitr/[^/]*\.brk|/brkitr/(root|res_index)\.res|/root\.res|/pool\.res|/(cnvalias|ulayout|uemoji)\.icu)")
MPI = re.compile(r"lib(mpi|open-rte|open-pal|hwloc|event\S*|pmix)\b.*\.so.*")


def icu_data(library):
    """Zeros in place of items that are not kept: sizes stay, and compress to nothing. Returns how many are gone."""
    data = bytearray(library.read_bytes())
    start = data.find(b"CmnD") - 12  # the header's format
    if start < 0 or data[start + 2:start + 4] != b"\xda\x27":
        return 0
    table = start + struct.unpack_from("<H", data, start)[0]
    count = struct.unpack_from("<I", data, table)[0]
    places = [struct.unpack_from("<II", data, table + 4 + 8 * i) for i in range(count)]
    gone = 0
    for i, (name_at, at) in enumerate(places[:-1]):  # (the last one's end is not told)
        name = bytes(data[table + name_at:data.index(0, table + name_at)]).decode()
        if ICU_KEPT.fullmatch(name):
            continue
        end = places[i + 1][1]
        data[table + at:table + end] = bytes(end - at)
        gone += 1
    library.write_bytes(data)
    return gone


def undefined(program):
    done = subprocess.run(["nm", "-D", "--undefined-only", program], capture_output=True, text=True, check=True)
    return sorted({line.split()[-1].split("@")[0] for line in done.stdout.splitlines()})


def without_mpi(lib, programs, compiler):
    """Puts a library of the same name in the place of MPI's, all of whose functions end the process. False: there is none."""
    names = sorted(f.name for f in lib.iterdir() if re.match(r"libmpi\.so", f.name))
    if not names:
        return False
    symbols = {s for p in programs for s in undefined(p) if re.match(r"(P?MPI_|ompi_|OMPI_)", s)}
    source = ["#include <stdio.h>", "#include <stdlib.h>",
              'static void none(void) { fputs("this pack has no MPI\\n", stderr); exit(70); }']
    for s in sorted(symbols):
        is_data = s.startswith("ompi_")
        source.append(f"char {s}[1024];" if is_data else f"int {s}() {{ none(); return 1; }}")
    for file in [f for f in lib.iterdir() if MPI.fullmatch(f.name)]:
        file.unlink()
    subprocess.run([compiler, "-shared", "-fPIC", "-w", "-x", "c", "-", "-o", lib / names[0], f"-Wl,-soname,{names[0]}"],
                   input="\n".join(source) + "\n", text=True, check=True)
    return True
