"""CTranslate2's model.bin: named tensors, without CTranslate2 and without numpy."""
import struct
from dataclasses import dataclass
from typing import Dict, List

DTYPES = {0: "F32", 1: "I8", 2: "I16", 3: "I32", 4: "F16", 5: "BF16"}  # by the file's numbers: safetensors' names
SIZES = {"F32": 4, "I8": 1, "I16": 2, "I32": 4, "F16": 2, "BF16": 2}
VERSIONS = range(4, 7)  # of the format: those whose tensors say their type


@dataclass
class Tensor:
    dtype: str
    shape: List[int]
    data: memoryview

    def rows(self, begin, end):
        """Some rows of a matrix, or numbers of a vector."""
        width = len(self.data) // self.shape[0]
        return Tensor(self.dtype, [end - begin, *self.shape[1:]], self.data[begin * width:end * width])


class Reader:
    def __init__(self, data):
        self.data, self.at = memoryview(data), 0

    def take(self, count):
        if count > len(self.data) - self.at:
            raise ValueError(f"the file ends at byte {len(self.data)}; {count} more are announced at {self.at}")
        self.at += count
        return self.data[self.at - count:self.at]

    def number(self, kind):
        return struct.unpack("<" + kind, self.take(struct.calcsize("<" + kind)))[0]

    def text(self):  # with a zero at its end
        return bytes(self.take(self.number("H"))).rstrip(b"\0").decode()


def read(path):
    """The name of the architecture, and its tensors; a name that stands for another has the same one."""
    reader = Reader(path.read_bytes())
    version = reader.number("I")
    if version not in VERSIONS:
        raise ValueError(f"{path}: version {version} of the format is not one of {list(VERSIONS)}")
    architecture, _revision = reader.text(), reader.number("I")
    tensors: Dict[str, Tensor] = {}
    for _ in range(reader.number("I")):
        name = reader.text()
        shape = [reader.number("I") for _ in range(reader.number("B"))]
        dtype = DTYPES[reader.number("B")]
        tensors[name] = Tensor(dtype, shape, reader.take(reader.number("I")))
        count = SIZES[dtype]
        for size in shape:
            count *= size
        if count != len(tensors[name].data):
            raise ValueError(f"{path}: {name} of shape {shape} has {len(tensors[name].data)} bytes instead of {count}")
    for _ in range(reader.number("I")):
        alias, name = reader.text(), reader.text()
        tensors[alias] = tensors[name]
    if reader.at != len(reader.data):
        raise ValueError(f"{path}: {len(reader.data) - reader.at} bytes stand behind the tensors")
    return architecture, tensors
