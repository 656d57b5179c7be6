"""Makes libraries of a pack smaller by what its programs never read."""
import re
import struct
import subprocess

# Of ICU's data: normal forms, breaks, names of languages, what opens them. (Properties of characters are code.)
ICU_KEPT = re.compile(r".*(\.nrm|/brkitr/[^/]*\.brk|/(brkitr|lang)/(root|res_index|en)\.res|/root\.res|/pool\.res"
                      r"|/(likelySubtags|metadata|supplementalData|langInfo)\.res|/(cnvalias|ulayout|uemoji)\.icu)")
# What checks of a GPU call nothing of: MPI, languages and markup of texts, and of curl's what HTTP needs nothing of.
LEFT_OUT = re.compile(r"lib(mpi|ldap|lber|rtmp|gssapi_krb5|idn2|psl|brotlidec|zstd|nghttp2|ssh2|cld2|expat|md4c)[-.\d]*\.so.*")


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


def symbols(file, kind):
    """name -> (letter of nm, version or "") of a file's dynamic symbols."""
    done = subprocess.run(["nm", "-D", kind, file], capture_output=True, text=True, check=True)
    out = {}
    for line in done.stdout.splitlines():
        letter, name = line.split()[-2:]
        name, _, version = name.partition("@")
        out[name] = (letter, version.lstrip("@"))
    return out


def leave_out(library, users, compiler):
    """Puts a library of the same name in its place: what the users take of it, functions that end the process; but for those
    that only make it ready, which do nothing (curl calls libssh2_init() whatever it is asked)."""
    offered, taken = symbols(library, "--defined-only"), {}
    for user in users:
        taken.update({n: version for n, (_, version) in symbols(user, "--undefined-only").items() if n in offered})
    source = ["#include <stdio.h>", "#include <stdlib.h>",
              f'static void none(void) {{ fputs("this pack has no {library.name}\\n", stderr); exit(70); }}']
    versions = {}
    for name, version in sorted(taken.items()):
        is_data = offered[name][0] in "BDRV"
        body = "return 0;" if name.endswith("_init") else "none(); return 1;"
        source.append(f"char {name}[1024];" if is_data else f"int {name}() {{ {body} }}")
        if version:
            versions.setdefault(version, []).append(name)
    library.unlink()
    script = library.with_suffix(".map")
    script.write_text("".join(f"{version} {{ {' '.join(f'{n};' for n in names)} }};\n" for version, names in versions.items()))
    subprocess.run([compiler, "-shared", "-fPIC", "-w", "-x", "c", "-", "-o", library, f"-Wl,-soname,{library.name}",
                    *([f"-Wl,--version-script={script}"] if versions else [])],
                   input="\n".join(source) + "\n", text=True, check=True)
    script.unlink()


def leave_out_all(lib, programs, compiler):
    for library in [f for f in sorted(lib.iterdir()) if LEFT_OUT.fullmatch(f.name)]:
        leave_out(library, [*programs, *(f for f in lib.iterdir() if f != library)], compiler)
