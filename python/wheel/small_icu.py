"""Makes a libicudata.so with less in it, for a wheel: small_icu.py LIBRARY OUT

ICU's data are 31 MB, a third of a wheel. Left out is what Tandem asks nothing of: converters between encodings (UTF-8 needs none),
the order of words, time zones, currencies, units, transliterations, numbers in words, names of languages and countries in other
languages than English. A program that asks for it gets
U_MISSING_RESOURCE_ERROR from ICU, never a wrong answer. Needs a C compiler.
"""
from __future__ import annotations

import pathlib
import re
import struct
import subprocess
import sys
import tempfile
from typing import List, Tuple

LEFT_OUT = re.compile(r"^[^/]+/((coll|zone|curr|unit|translit|rbnf)/.*|(lang|region)/(?!(en|root|pool|res_index)\.res$).*|.*\.cnv)$")


def items_of(data: bytes, toc: int) -> List[Tuple[str, bytes]]:
    """The files of ICU's common data ("CmnD"): names and contents, by names."""
    count, = struct.unpack_from("<I", data, toc)
    places = [struct.unpack_from("<II", data, toc + 4 + 8 * i) for i in range(count)]
    ends = [place for _, place in places[1:]]
    last = places[-1][1]
    ends.append(len(data) - toc if not ends else last + _size_of_last(data, toc + last))
    return [(data[toc + name:data.index(b"\0", toc + name)].decode(), data[toc + begin:toc + end])
            for (name, begin), end in zip(places, ends)]


def _size_of_last(data: bytes, at: int) -> int:
    """Up to the section's end, of which the rest is zeros."""
    return len(data.rstrip(b"\0")) - at + 16


def common_data(header: bytes, items: List[Tuple[str, bytes]]) -> bytes:
    """The reverse of items_of(), each item at a multiple of 16."""
    table = 4 + 8 * len(items)
    names, places, at = b"", [], table
    for name, _ in items:
        places.append(at)
        names += name.encode() + b"\0"
        at = table + len(names)
    offset = table + len(names)
    offset += -(len(header) + offset) % 16
    entries, contents = b"", b""
    begin = offset
    for (_, content), name_at in zip(items, places):
        entries += struct.pack("<II", name_at, begin + len(contents))
        contents += content + bytes(-len(content) % 16)
    head = struct.pack("<I", len(items)) + entries + names
    return header + head + bytes(offset - len(head)) + contents


def main(library: str, out: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        raw = pathlib.Path(folder, "rodata")
        subprocess.run(["objcopy", "-O", "binary", "--only-section=.rodata", library, str(raw)], check=True)
        data = raw.read_bytes()
        begin = data.index(b"\xda\x27") - 2
        size, = struct.unpack_from("<H", data, begin)
        if data[begin + 12:begin + 16] != b"CmnD" or data[begin + 8] != 0:
            sys.exit(f"small_icu: {library} has no common data of a little-endian ICU")
        kept = [item for item in items_of(data, begin + size) if not LEFT_OUT.match(item[0])]
        small = pathlib.Path(folder, "small.dat")
        small.write_bytes(common_data(data[begin:begin + size], kept))
        dynamic = subprocess.run(["readelf", "-dW", library], capture_output=True, text=True, check=True).stdout
        name = re.search(r"soname: \[([^\]]+)\]", dynamic)
        version = re.search(r"so\.(\d+)", name.group(1) if name else "")
        if name is None or version is None:
            sys.exit(f"small_icu: {library} has no name of ICU's")
        symbol = f"icudt{version.group(1)}_dat"
        source = pathlib.Path(folder, "small.S")
        source.write_text(f'.section .rodata\n.balign 16\n.globl {symbol}\n.type {symbol}, @object\n{symbol}:\n'
                          f'.incbin "{small}"\n.size {symbol}, . - {symbol}\n.section .note.GNU-stack,"",@progbits\n')
        subprocess.run(["cc", "-shared", "-nostdlib", f"-Wl,-soname,{name.group(1)}", "-o", out, str(source)], check=True)


if __name__ == "__main__":
    main(*sys.argv[1:3])
