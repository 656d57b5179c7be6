#!/usr/bin/env python3
"""Writes tests/data/images: PNG and JPEG files of every kind, and expected.json, what Pillow makes of them.

    make_images.py DIR      needs Pillow and NumPy; the files are of Pillow 13

expected.json: for each file the CRC-32 of the bytes of Image.open(file).convert("RGB"), and of those resized to each of
some sizes with each filter.
"""
import io, json, pathlib, struct, sys, zlib

import numpy as np
from PIL import Image

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


def files():
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
        image = Image.open(io.BytesIO(data)).convert("RGB")
        one = expected[name] = {"width": image.width, "height": image.height, "crc": zlib.crc32(image.tobytes())}
        if name in ("rgb8.png", "grey4.png"):
            one["resized"] = [
                {"width": w, "height": h, "filter": f, "crc": zlib.crc32(image.resize((w, h), f).tobytes())}
                for w, h in SIZES for f in range(6)]
    text = ",\n".join(f" {json.dumps(k)}: {json.dumps(v)}" for k, v in expected.items())
    (folder / "expected.json").write_text("{\n" + text + "\n}\n")


if __name__ == "__main__":
    main()
