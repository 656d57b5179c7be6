#!/usr/bin/env python3
"""Writes tests/data/images: files of images of every kind, and expected.json, what Pillow makes of them.

    make_images.py DIR      needs Pillow and NumPy; the files are of Pillow 13

expected.json: for each file the CRC-32 of the bytes of Image.open(file).convert("RGB"), upright as ImageOps.exif_transpose()
has it, and of those resized to each of some sizes with each filter.
"""
import io, json, pathlib, struct, sys, zlib

import numpy as np
from PIL import Image, ImageOps

WIDTH, HEIGHT = 37, 23
SIZES = [(16, 16), (40, 10), (7, 50), (37, 12), (12, 23), (1, 1), (64, 64), (35, 18), (35, 19)]
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def packed(samples, depth):
    """Rows of samples [h, n] as PNG has them, each behind filter 0."""
    rows = []
    for row in samples:
        if depth == 16:
            data = row.astype(">u2").tobytes()
        elif depth == 8:
            data = row.astype(np.uint8).tobytes()
        else:
            bits = ((row[:, None] >> np.arange(depth - 1, -1, -1)) & 1).astype(np.uint8).reshape(-1)
            data = np.packbits(bits).tobytes()
        rows.append(b"\0" + data)
    return b"".join(rows)


def png(values, color, depth, extra=b"", interlaced=False):
    height, width, channels = values.shape
    assert channels == CHANNELS[color]
    data = b""
    for x, y, dx, dy in ADAM7 if interlaced else [(0, 0, 1, 1)]:
        part = values[y::dy, x::dx]
        if part.size:
            data += packed(part.reshape(part.shape[0], -1), depth)
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, int(interlaced))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + chunk(b"IDAT", zlib.compress(data, 9)) + chunk(b"IEND", b"")


def picture(channels, limit, seed):
    """Slopes, edges and a little noise."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    out = np.stack([(x * (c + 3) + y * (7 - c)) % 97 / 96 for c in range(channels)], -1)
    out[5:12, 8:20] = 1 - out[5:12, 8:20]
    out += random.normal(0, 0.02, out.shape)
    return np.clip(out * limit, 0, limit).round().astype(np.int64)


def jpeg(mode, **options):
    image = Image.fromarray(picture({"L": 1, "RGB": 3, "CMYK": 4}[mode], 255, 9).astype(np.uint8).squeeze(), mode)
    out = io.BytesIO()
    image.save(out, "JPEG", **options)
    return out.getvalue()


def image(mode, seed=4):
    """Of Pillow's mode; palettes have 60 colors."""
    if mode == "P":
        return image("RGB", seed).quantize(60)
    if mode == "I;16":
        return Image.fromarray(picture(1, 700, seed).astype(np.uint16).squeeze())
    if mode == "1":
        return Image.fromarray(picture(1, 1, seed).astype(bool).squeeze())
    values = picture({"L": 1, "LA": 2, "RGB": 3, "RGBA": 4, "CMYK": 4}[mode], 255, seed).astype(np.uint8)
    return Image.fromarray(values.squeeze(), mode)


def saved(picture, kind, **options):
    out = io.BytesIO()
    picture.save(out, kind, **options)
    return out.getvalue()


def bmp(bits, rows, palette=b"", compression=0, masks=b"", size=40, height=HEIGHT, data=None):
    """rows: bytes of each, from the lowest one up, without padding."""
    body = b"".join(row + bytes(-len(row) % 4) for row in rows) if data is None else data
    if size == 12:
        header = struct.pack("<IHHHH", 12, WIDTH, HEIGHT, 1, bits)
    else:
        header = struct.pack("<IiiHHIIiiII", size, WIDTH, height, 1, bits, compression, len(body), 0, 0, 0, 0)
        header += bytes(size - 40) if not masks or size == 40 else masks + bytes(size - 40 - len(masks))
    rest = (masks if size == 40 else b"") + palette
    offset = 14 + len(header) + len(rest)
    return b"BM" + struct.pack("<IHHI", offset + len(body), 0, 0, offset) + header + rest + body


def runs(rows, halves):
    """RLE: pairs of count and value, a piece as it is, a step aside, lines that end before they are full."""
    out = b""
    for y, row in enumerate(rows):
        row = list(row)
        if y == 3:
            out += bytes([0, 2, 4, 0])  # four to the right
            row = row[4:]
        if y % 2:
            for value in row:
                out += bytes([1, value << 4 if halves else value])
        else:
            head, row = row[:5], row[5:]
            piece = bytes(head) if not halves else bytes(
                (a << 4) | b for a, b in zip(head[::2], head[1::2] + [0]))
            out += bytes([0, 5]) + piece + bytes(len(piece) % 2)
            for value in row if y % 4 else row[:-3]:
                out += bytes([1, value << 4 if halves else value])
        out += bytes([0, 0])
    return out + bytes([0, 1])


def bmp_files():
    random = np.random.default_rng(7)
    grey = picture(1, 255, 5).squeeze()
    colors = bytes(random.integers(0, 256, 4 * 256, dtype=np.uint8))
    for bits, count in ((1, 2), (4, 16), (8, 256)):
        index = (grey * (count - 1) // 255).astype(np.uint8)
        packed_rows = [packed(row[None], bits)[1:] for row in index]
        yield f"palette{bits}.bmp", bmp(bits, packed_rows, colors[:4 * count])
    index = (grey // 16).astype(np.uint8)
    yield "os2.bmp", bmp(4, [packed(row[None], 4)[1:] for row in index], colors[:48], size=12)
    yield "top_down.bmp", bmp(8, [row.tobytes() for row in grey.astype(np.uint8)], colors, height=-HEIGHT)
    yield "rle8.bmp", bmp(8, [], colors, compression=1, data=runs(grey.astype(np.uint8), False))
    yield "rle4.bmp", bmp(4, [], colors[:64], compression=2, data=runs(index, True))
    pixels = random.integers(0, 1 << 16, (HEIGHT, WIDTH)).astype("<u2")
    yield "555.bmp", bmp(16, [row.tobytes() for row in pixels])
    masks = struct.pack("<III", 0xF800, 0x7E0, 0x1F)
    yield "565.bmp", bmp(16, [row.tobytes() for row in pixels], compression=3, masks=masks)
    pixels = random.integers(0, 1 << 32, (HEIGHT, WIDTH)).astype("<u4")
    yield "bgrx.bmp", bmp(32, [row.tobytes() for row in pixels])
    for name, masks in (("xbgr", (0xFF000000, 0xFF0000, 0xFF00, 0)), ("rgba", (0xFF, 0xFF00, 0xFF0000, 0xFF000000)),
                        ("bgar", (0xFF000000, 0xFF00, 0xFF, 0xFF0000))):
        yield name + ".bmp", bmp(32, [row.tobytes() for row in pixels], compression=3,
                                 masks=struct.pack("<IIII", *masks), size=124)
    yield "rgb.bmp", saved(image("RGB"), "BMP")


def other_files():
    turned = Image.Exif()
    turned[0x112] = 6
    yield "lossy.webp", saved(image("RGB"), "WEBP", quality=60)
    yield "lossless.webp", saved(image("RGB"), "WEBP", lossless=True, exif=turned)
    yield "alpha.webp", saved(image("RGBA"), "WEBP", quality=60)
    yield "clear.webp", saved(image("RGBA"), "WEBP", lossless=True, exact=True)
    yield "moving.webp", saved(image("RGB"), "WEBP", save_all=True, append_images=[image("RGB", 6)], quality=60)
    yield "palette.gif", saved(image("P"), "GIF")
    yield "interlaced.gif", saved(image("P"), "GIF", interlace=1)
    yield "clear.gif", saved(image("P"), "GIF", transparency=3)
    yield "grey.gif", saved(image("L"), "GIF")
    yield "moving.gif", saved(image("P"), "GIF", save_all=True, append_images=[image("P", 6)])
    # A screen that is larger than its image, and one that is smaller.
    plain = bytearray(saved(image("P"), "GIF"))
    place = plain.index(b",", 13 + 3 * 64)
    plain[6:10] = struct.pack("<HH", WIDTH + 5, HEIGHT + 4)
    plain[place + 1:place + 5] = struct.pack("<HH", 2, 3)
    yield "large_screen.gif", bytes(plain)
    plain[6:10] = struct.pack("<HH", 4, 4)
    yield "small_screen.gif", bytes(plain)
    for mode in ("1", "L", "P", "LA", "RGB", "RGBA", "CMYK", "I;16"):
        name = mode.lower().replace(";", "").replace("1", "bits") if mode == "1" else mode.lower().replace(";", "")
        yield name + ".tif", saved(image(mode), "TIFF")
        yield name + "_lzw.tif", saved(image(mode), "TIFF", compression="tiff_lzw", tiffinfo={0x112: 8})
    yield "fax.tif", saved(image("1"), "TIFF", compression="group4")
    yield "deflate.tif", saved(image("RGB"), "TIFF", compression="tiff_adobe_deflate", tiffinfo={0x112: 3})
    yield "jpeg.tif", saved(image("RGB"), "TIFF", compression="jpeg")
    yield "packbits.tif", saved(image("RGB"), "TIFF", compression="packbits")


def files():
    yield from bmp_files()
    yield from other_files()
    palette = chunk(b"PLTE", bytes((i * 37 + c * 11) % 256 for i in range(200) for c in range(3)))
    few = chunk(b"PLTE", bytes([10, 20, 30, 200, 100, 50, 0, 255, 128]))
    for color, name in [(0, "grey"), (2, "rgb"), (4, "grey_alpha"), (6, "rgba")]:
        for depth in (8, 16):
            yield f"{name}{depth}.png", png(picture(CHANNELS[color], 2**depth - 1, depth), color, depth)
    for depth in (1, 2, 4):
        yield f"grey{depth}.png", png(picture(1, 2**depth - 1, depth), 0, depth)
    dark = picture(1, 600, 3)
    yield "grey16_dark.png", png(dark, 0, 16)
    yield "palette8.png", png(picture(1, 255, 8), 3, 8, palette + chunk(b"tRNS", bytes(range(100))))
    yield "palette2.png", png(picture(1, 3, 2), 3, 2, few)
    yield "rgb8_clear.png", png(picture(3, 255, 8), 2, 8, chunk(b"tRNS", struct.pack(">HHH", 1, 2, 3)))
    yield "rgb8_interlaced.png", png(picture(3, 255, 8), 2, 8, interlaced=True)
    yield "grey2_interlaced.png", png(picture(1, 3, 8), 0, 2, interlaced=True)
    yield "rgb8_gamma.png", png(picture(3, 255, 8), 2, 8, chunk(b"gAMA", struct.pack(">I", 100000)))
    yield "rgb.jpg", jpeg("RGB", quality=85)
    yield "rgb444.jpg", jpeg("RGB", quality=95, subsampling=0)
    yield "rgb422.jpg", jpeg("RGB", quality=70, subsampling=1)
    yield "progressive.jpg", jpeg("RGB", quality=80, progressive=True)
    yield "grey.jpg", jpeg("L", quality=80)
    yield "cmyk.jpg", jpeg("CMYK", quality=80)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    expected = {}
    for name, data in files():
        (folder / name).write_bytes(data)
        pixels = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
        one = expected[name] = {"width": pixels.width, "height": pixels.height, "crc": zlib.crc32(pixels.tobytes())}
        if name in ("rgb8.png", "grey4.png"):
            one["resized"] = [
                {"width": w, "height": h, "filter": f, "crc": zlib.crc32(pixels.resize((w, h), f).tobytes())}
                for w, h in SIZES for f in range(6)]
    text = ",\n".join(f" {json.dumps(k)}: {json.dumps(v)}" for k, v in expected.items())
    (folder / "expected.json").write_text("{\n" + text + "\n}\n")


if __name__ == "__main__":
    main()
