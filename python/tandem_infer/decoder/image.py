"""Images by Pillow, as docs/images_input.md has them."""
from __future__ import annotations

import io
import struct
import warnings

from PIL import (BmpImagePlugin, ExifTags, GifImagePlugin, Image, ImageOps, JpegImagePlugin, MpoImagePlugin,  # noqa: F401
                 PngImagePlugin, TiffImagePlugin, TiffTags, UnidentifiedImageError, WebPImagePlugin)

from .serve import DONE, IMAGE, PIXELS, Answer, DecodeError, Source

_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
_MOST_BYTES, _MOST_PIXELS, _MOST_SIDE = 32 << 20, 32 << 20, 65_500


def prepare() -> None:
    """Pillow imports some of itself when it meets what needs it."""
    warnings.simplefilter("ignore")
    Image.MAX_IMAGE_PIXELS = None  # ours is checked
    for name in ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"):
        file = io.BytesIO()
        Image.new("RGB", (3, 2)).save(file, name)
        file.seek(0)
        with Image.open(file, formats=_FORMATS) as read:
            ImageOps.exif_transpose(read).convert("RGB").tobytes()


def decode(source: Source, answer: Answer) -> None:
    if source.size > _MOST_BYTES:
        raise DecodeError(f"has {source.size} bytes, at most {_MOST_BYTES} are read", large=True)
    try:
        with Image.open(io.BytesIO(source.read()), formats=_FORMATS) as image:
            width, height = image.size
            if width < 1 or height < 1:
                raise DecodeError(f"has {width} x {height} pixels")
            if width > _MOST_SIDE or height > _MOST_SIDE or width * height > _MOST_PIXELS:
                raise DecodeError(f"has {width} x {height} pixels, at most {_MOST_PIXELS} and {_MOST_SIDE} a side are read",
                                  large=True)
            rgb = ImageOps.exif_transpose(image).convert("RGB")
    except UnidentifiedImageError:
        raise DecodeError("is no image that can be read: PNG, JPEG, WebP, GIF, BMP or TIFF") from None
    except MemoryError:
        raise
    except DecodeError:
        raise
    except Exception as error:  # a broken file may raise nearly anything
        raise DecodeError(f"is an image that cannot be read ({error})") from None
    answer.frame(IMAGE, struct.pack("=ii", *rgb.size))
    answer.data(PIXELS, memoryview(rgb.tobytes()))
    answer.frame(DONE)
