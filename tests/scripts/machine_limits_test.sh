#!/bin/sh
# benchmarks/machine_limits.py: the least time of a batch, counted by hand for a checkpoint of three kinds of weights.
set -eu
source=$1
command -v python3 >/dev/null || exit 77
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# A probe that says what it was asked for, with rates that are easy to reckon with.
cat >"$folder/probe" <<'PROBE'
#!/usr/bin/env python3
import json, sys
sizes = sys.argv[sys.argv.index("--megabytes") + 1].split(",")
print(json.dumps({"gflops": {"float32": 1, "bfloat16": 2, "int8": 4}, "gbytes": {size: 8 for size in sizes}}))
PROBE
chmod +x "$folder/probe"
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$source/benchmarks python3 - "$folder" <<'TEST'
import json, pathlib, struct, sys
import xml.etree.ElementTree as xml
import machine_limits as limits

folder = pathlib.Path(sys.argv[1])
tensors = {"model.encoder.layers.0.fc1.weight": [30, 10], "model.decoder.layers.0.fc1.weight": [20, 10],
           "model.decoder.layers.0.encoder_attn.k_proj.weight": [10, 10], "model.decoder.layers.0.encoder_attn.v_proj.weight": [10, 10],
           "model.shared.weight": [100, 10], "model.decoder.embed_positions.weight": [50, 10], "model.encoder.layers.0.fc1.bias": [30]}
header = json.dumps({"__metadata__": {"format": "pt"}} | {n: {"dtype": "F32", "shape": s, "data_offsets": [0, 0]} for n, s in tensors.items()})
(folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header.encode())
(folder / "config.json").write_text(json.dumps({"vocab_size": 100, "d_model": 10}))

def equal(a, b):
    assert abs(a - b) <= 1e-9 * abs(b), f"{a} is not {b}"

shapes = limits.Shapes(folder)
assert (shapes.encoder, shapes.cross, shapes.decoder, shapes.width_of_keys) == (300, 200, 200 + 100 * 10, 20)
equal(shapes.decoder_bytes("int8"), 1200)
equal(shapes.decoder_bytes("int4"), 1200 * 17 / 32)
rates = limits.probe(folder / "probe", 2, shapes, ["float32", "int4"])
assert rates == {"float32": (1e9, 8e9), "int4": (4e9, 8e9)}, rates
# 3 sequences of 7 tokens, 2 new ones. A step reads 4800 bytes (0.6 us) and multiplies 3 x 1200 pairs (7.2 us).
seconds = limits.least_seconds(shapes, "float32", rates, 3, 7, 2)
equal(seconds, 2 * 500 * 3 * 7 / 1e9 + 2 * 7.2e-6 + 3 * 20 * (8 + 9) * 4 / 8e9)
# One in a type whose products are quick waits for the weights; keys in one byte.
seconds = limits.least_seconds(shapes, "float32", {"float32": (1e15, 8e9)}, 1, 7, 1, 1)
equal(seconds, 2 * 500 * 7 / 1e15 + 0.6e-6 + 20 * 8 / 8e9)

# A model without linear layers by these names is refused.
(folder / "config.json").write_text(json.dumps({"vocab_size": 30, "d_model": 10}))
try:
    limits.Shapes(folder)
    sys.exit("FAILED: a checkpoint without an encoder is accepted")
except ValueError as error:
    assert str(folder) in str(error)

# A bar for each engine and batch, a line where there is a limit, no two heights out of the picture.
rows = [{"engine": e, "batch": b, "tokens_per_second": t} for b in (1, 8) for e, t in (("tandem-int8", 100), ("ct2", 50))]
rows[0]["limit_tokens_per_second"] = 400
picture = xml.fromstring(limits.svg({"model": "tiny", "results": rows}))
name = "{http://www.w3.org/2000/svg}"
bars = [r for r in picture.iter(name + "rect") if r.find(name + "title") is not None]
assert [float(r.get("height")) for r in bars] == [62.5, 31.2, 250.0, 125.0], [r.get("height") for r in bars]
assert len(list(picture.iter(name + "path"))) == 1
TEST
echo "machine_limits: as counted by hand"
