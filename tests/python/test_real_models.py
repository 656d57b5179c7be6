"""scripts/real_models: files of CTranslate2 become tensors of HuggingFace, without a network."""
import json
import struct
import sys

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "scripts/real_models"))
import ctranslate2_file  # noqa: E402
import whisper_checkpoint  # noqa: E402


def text(value):
    return struct.pack("<H", len(value) + 1) + value.encode() + b"\0"


def vector(name, numbers, shape=None):
    shape = shape or [len(numbers)]
    data = struct.pack(f"<{len(numbers)}f", *numbers)
    return text(name) + struct.pack(f"<B{len(shape)}IBI", len(shape), *shape, 0, len(data)) + data


def model(*tensors, aliases=(), version=6):
    head = struct.pack("<I", version) + text("WhisperSpec") + struct.pack("<II", 3, len(tensors))
    return head + b"".join(tensors) + struct.pack("<I", len(aliases)) + b"".join(text(a) + text(b) for a, b in aliases)


def read(tmp_path, data):
    (tmp_path / "model.bin").write_bytes(data)
    return ctranslate2_file.read(tmp_path / "model.bin")


def test_fused_products_are_taken_apart(tmp_path):
    fused = "decoder/layer_3/self_attention/linear_0"
    architecture, tensors = read(tmp_path, model(
        vector(fused + "/weight", range(12), [6, 2]), vector(fused + "/bias", [1, 2, 0, 0, 5, 6]),
        vector("encoder/conv1/bias", [7, 8]), vector("decoder/embeddings/weight", [1, 2], [1, 2]),
        aliases=[("decoder/projection/weight", "decoder/embeddings/weight")]))
    assert architecture == "WhisperSpec" and tensors["decoder/projection/weight"].shape == [1, 2]
    weights = whisper_checkpoint.weights_of(tensors)
    layer = "model.decoder.layers.3.self_attn."
    assert set(weights) == {layer + name for name in ("q_proj.weight", "k_proj.weight", "v_proj.weight", "q_proj.bias", "v_proj.bias")} | {
        "model.encoder.conv1.bias", "model.decoder.embed_tokens.weight"}
    assert struct.unpack("<4f", weights[layer + "v_proj.weight"].data) == (8, 9, 10, 11)
    assert struct.unpack("<2f", weights[layer + "v_proj.bias"].data) == (5, 6)
    whisper_checkpoint.write_safetensors(tmp_path / "model.safetensors", weights)
    data = (tmp_path / "model.safetensors").read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    place = json.loads(data[8:8 + length])["model.encoder.conv1.bias"]
    begin, end = place["data_offsets"]
    assert struct.unpack("<2f", data[8 + length + begin:8 + length + end]) == (7, 8) and place["shape"] == [2]


@pytest.mark.parametrize("data", [
    b"", model(version=3), model()[:-1], model() + b"x",
    model(text("x") + struct.pack("<BIBI", 1, 9, 0, 4) + b"1234"),
    model(text("x") + struct.pack("<BIBI", 1, 1, 0, 1 << 31) + b"1234")])
def test_files_that_are_wrong(tmp_path, data):
    with pytest.raises((ValueError, KeyError)):
        read(tmp_path, data)


def test_keys_have_no_bias(tmp_path):
    with pytest.raises(ValueError, match="keys' bias"):
        whisper_checkpoint.weights_of(read(tmp_path, model(vector("encoder/layer_0/self_attention/linear_0/bias", range(6))))[1])
    with pytest.raises(ValueError, match="has no place"):
        whisper_checkpoint.weights_of(read(tmp_path, model(vector("decoder/other/weight", [1, 2], [1, 2])))[1])
