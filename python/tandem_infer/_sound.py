"""Sounds and images as callers have them → bytes of files, or paths, that the engine takes."""
from __future__ import annotations

import base64
import io
import os
import struct
from typing import TYPE_CHECKING, Any, BinaryIO, Dict, Optional, Tuple, Union

import numpy as np
from numpy.typing import NDArray

from ._errors import MissingFileError, RequestError

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

# A file's path, its bytes, an open one; or samples of one or more channels ([n] or [channels, n], float: full scale is 1, or
# int16), which are at 16 kHz unless their rate stands beside them: {"array": …, "sampling_rate": …} or (samples, rate).
Sound = Union[str, "os.PathLike[str]", bytes, BinaryIO, NDArray[Any], Tuple[NDArray[Any], int], Dict[str, Any]]
Image = Union[str, "os.PathLike[str]", bytes, "PillowImage", NDArray[np.uint8]]


def wav_of(samples: Any, rate: int) -> bytes:
    """A WAV file of float32 samples, exactly those."""
    if samples is None or np.ndim(samples) == 0:
        raise RequestError(f"sound: must be a path, bytes, an open file or samples, not {type(samples).__name__}", param="sound")
    array = np.asarray(samples)
    if array.dtype == np.int16:
        array = array.astype(np.float32) / 32768.0
    elif not np.issubdtype(array.dtype, np.floating):
        raise RequestError(f"sound: samples are floats or int16, not {array.dtype}", param="sound")
    if array.ndim == 1:
        array = array[np.newaxis]
    if array.ndim != 2 or array.size == 0 or array.shape[0] > 64:
        raise RequestError(f"sound: samples are [n] or [channels, n], not {list(np.shape(samples))}", param="sound")
    if not isinstance(rate, (int, float, np.number)) or not 1000 <= rate <= 768000:
        raise RequestError(f"sound: {rate!r} samples a second, from 1000 to 768000 are taken", param="sound")
    channels, rate = array.shape[0], int(rate)
    data = np.ascontiguousarray(array.T, dtype="<f4").tobytes()
    if len(data) > 0xFFFFFF00:
        raise RequestError("sound: more samples than a WAV file can have; give the path of a file", param="sound")
    head = struct.pack("<HHIIHHH", 3, channels, rate, rate * channels * 4, channels * 4, 32, 0)
    body = (b"WAVEfmt " + struct.pack("<I", len(head)) + head + b"fact" + struct.pack("<II", 4, array.shape[1])
            + b"data" + struct.pack("<I", len(data)) + data)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def existing(path: Union[str, os.PathLike[str]], param: str) -> str:
    name = os.fspath(path)
    if not os.path.exists(name):
        raise MissingFileError(f"{param}: {name!r} does not exist", param=param)
    return name


def file_of_sound(sound: Sound) -> Tuple[str, Optional[bytes]]:
    """A path, or a name and a file's bytes."""
    if isinstance(sound, (str, os.PathLike)):
        return existing(sound, "sound"), None
    if isinstance(sound, (bytes, bytearray, memoryview)):
        return "sound", bytes(sound)
    if isinstance(sound, dict):
        samples = sound.get("array", sound.get("raw"))
        if samples is None:
            raise RequestError("sound: an object has \"array\" (or \"raw\") and \"sampling_rate\"", param="sound")
        return "sound", wav_of(samples, sound.get("sampling_rate", 16000))
    if isinstance(sound, tuple) and len(sound) == 2:
        first, second = sound
        if np.ndim(first) == 0:  # (rate, samples), as scipy and gradio have them
            first, second = second, first  # type: ignore[assignment]
        return "sound", wav_of(first, second)
    if hasattr(sound, "read"):
        return "sound", sound.read()
    return "sound", wav_of(sound, 16000)


def url_of_image(image: Image) -> str:
    """A path, or a data URL."""
    if isinstance(image, (str, os.PathLike)):
        name = os.fspath(image)
        return name if name.startswith(("data:", "http:", "https:", "file:")) else existing(image, "image")
    if not isinstance(image, (bytes, bytearray, memoryview)):
        if isinstance(image, np.ndarray):
            from PIL import Image as pillow

            image = pillow.fromarray(image)
        if not hasattr(image, "mode"):
            raise RequestError(f"image: must be a path, bytes, a Pillow image or an array, not {type(image).__name__}", param="image")
        out = io.BytesIO()
        (image.convert("RGB") if image.mode not in ("RGB", "RGBA", "L", "P", "1", "LA") else image).save(out, "PNG")
        image = out.getvalue()
    return "data:image/png;base64," + base64.b64encode(bytes(image)).decode()
