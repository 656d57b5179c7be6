#!/usr/bin/env python3
"""Writes tests/data/pickles: what torch.save() makes of one dict of tensors, in each of its containers and with each type
of elements, and values.json, what torch makes of the tensors in float32.

    scripts/goldens/make_pickles.py tests/data/pickles
"""

import collections
import json
import sys
from pathlib import Path

import torch

NUMBERS = [0.0, 1.0, -2.0, 0.5, 3.0, 100.0]
TYPES = ["float32", "float16", "bfloat16", "float64", "int64", "int32", "int16", "int8", "uint8", "bool", "uint16",
         "uint32", "uint64", "float8_e4m3fn", "float8_e5m2"]


def tensors(types):
    out = collections.OrderedDict()
    for name in types:
        numbers = torch.tensor(NUMBERS, dtype=torch.float32)
        if name.startswith(("uint", "bool")):
            numbers = numbers.abs()
        out[name] = numbers.to(getattr(torch, name)).reshape(2, 3)
    base = torch.tensor(NUMBERS, dtype=torch.float64).reshape(2, 3)
    out["transposed"] = base.T
    out["column"] = base[:, 1]
    out["tied"] = out["float32"]
    out["parameter"] = torch.nn.Parameter(torch.tensor(NUMBERS[:2]))
    tagged = torch.nn.Parameter(torch.tensor(NUMBERS[2:4]))
    tagged.note = "an attribute"
    out["tagged"] = tagged
    out["scalar"] = torch.tensor(7.5)
    out["empty"] = torch.zeros(0, 3)
    return out


def main():
    to = Path(sys.argv[1])
    to.mkdir(parents=True, exist_ok=True)
    everything = tensors(TYPES)
    # Types without a class of storages of their own cannot be read from the old container.
    early = tensors([name for name in TYPES if name[:4] not in ("uint", "floa") or name in ("uint8", "float32", "float16",
                                                                                            "float64")])
    remarks = {"epoch": 3, "size": torch.Size([2]), "device": torch.device("cpu"), "type": torch.float16, "big": 1 << 70}
    torch.save(everything, to / "zip.bin")
    torch.save(early, to / "before-1.6.bin", _use_new_zipfile_serialization=False)
    torch.save({**everything, **remarks}, to / "remarks.bin")
    torch.save({"epoch": 3, "state_dict": early}, to / "nested-before-1.6.bin", _use_new_zipfile_serialization=False)
    torch.save(everything, to / "protocol-4.bin", pickle_protocol=4)
    values = {}
    for name, tensor in everything.items():
        floats = tensor.detach().to(torch.float32)
        values[name] = {"shape": list(tensor.shape), "values": floats.reshape(-1).tolist()}
    (to / "values.json").write_text(json.dumps(values).replace("}, ", "},\n") + "\n")


main()
