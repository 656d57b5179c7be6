#!/usr/bin/env python3
"""Models for measuring drafts (benchmarks/speculation/compare.py). It wants numpy.

    make_models.py widened --model examples/demo-model --out DIR [--decoder-width N] [--encoder-width N]
    make_models.py copying --out DIR [--seed N]
    make_models.py doubled --model WHISPER --out DIR [--layers 12]
    make_models.py noisy --model WHISPER --out DIR --noise 0.1 [--seed N]

widened: a BART with feed-forward layers made wider by weights that are zero: the same tokens, at the cost of a larger
model. By default a step of the demo model reads as many weights as one of BART-base's.
copying: a model of BART-base's shape, made by hand, that copies its source: cross-attention finds the position, and the
head what stands there. Sampled with a temperature it makes mistakes, as an extract with light edits has.
doubled: a Whisper that computes what another does, with each dimension there twice and with further layers that add nothing:
of tiny, the shape of small. It is the other's slower equal, with the same texts of real speech.
noisy: a Whisper whose decoder's weights are each off by a random share: a draft model that is wrong now and then.
"""
import argparse, json, pathlib, shutil, struct

import numpy as np

SIZES = {"BF16": 2, "F16": 2, "F32": 4}


def read(path):
    """name -> (type, shape, bytes)"""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (t["dtype"], t["shape"], data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]])
            for name, t in header.items()}


def write(path, tensors):
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            out.write(data)


def widen(args):
    source, out = pathlib.Path(args.model), pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    for file in source.iterdir():
        if file.suffix in (".json", ".txt") and file.name != "golden.json":
            shutil.copyfile(file, out / file.name)
    config = json.loads((source / "config.json").read_text())
    widths = {"encoder": args.encoder_width, "decoder": args.decoder_width}
    tensors = read(source / "model.safetensors")
    for name, (dtype, shape, data) in tensors.items():
        width = next((w for half, w in widths.items() if f"{half}.layers" in name), 0)
        more = max(0, width - (shape[-1] if name.endswith("fc2.weight") else shape[0])) * SIZES[dtype]
        if ".fc1." in name:
            columns = shape[1] if len(shape) > 1 else 1
            tensors[name] = (dtype, [max(width, shape[0])] + shape[1:], data + bytes(more * columns))
        elif name.endswith("fc2.weight"):
            row = shape[1] * SIZES[dtype]
            rows = b"".join(data[i * row:(i + 1) * row] + bytes(more) for i in range(shape[0]))
            tensors[name] = (dtype, [shape[0], max(width, shape[1])], rows)
    write(out / "model.safetensors", tensors)
    for half, width in widths.items():
        config[f"{half}_ffn_dim"] = max(width, config[f"{half}_ffn_dim"])
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def bf16(values):
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return "BF16", list(values.shape), (bits >> 16).astype("<u2").tobytes()


def copy_model(args):
    """Of the 768 dimensions 512 are a token's, random signs; the others its position's. All attention and feed-forward
    layers add nothing, but the first one across: eight heads look for the position that is theirs."""
    d, words, vocabulary, positions, width, layers = 768, 512, 50265, 1026, 3072, 6
    rng = np.random.default_rng(args.seed)
    sign = lambda rows, columns: rng.integers(0, 2, (rows, columns)).astype(np.float32) * 2 - 1
    embedding = np.zeros((vocabulary, d), np.float32)
    embedding[:, :words] = sign(vocabulary, words)
    places = np.zeros((positions, d), np.float32)
    places[:, words:] = sign(positions, d - words)
    query, value, out = (np.zeros((d, d), np.float32) for _ in range(3))
    for i in range(words):  # head i // 64
        query[i, words + i % (d - words)] = 2
        value[i, i] = 1
        out[i, i] = 4
    zero = np.zeros((d, d), np.float32)
    tensors = {"model.shared.weight": bf16(embedding), "final_logits_bias": bf16(np.zeros((1, vocabulary)))}

    def norm(name):
        tensors[f"{name}.weight"] = bf16(np.ones(d))
        tensors[f"{name}.bias"] = bf16(np.zeros(d))

    def attention(name, looks):
        for part, weight in (("q", query), ("k", query), ("v", value), ("out", out)):
            tensors[f"{name}.{part}_proj.weight"] = bf16(weight if looks else zero)
            tensors[f"{name}.{part}_proj.bias"] = bf16(np.zeros(d))
        norm(f"{name}_layer_norm")

    for half in ("encoder", "decoder"):
        tensors[f"model.{half}.embed_positions.weight"] = bf16(places)
        norm(f"model.{half}.layernorm_embedding")
        for i in range(layers):
            layer = f"model.{half}.layers.{i}"
            attention(f"{layer}.self_attn", False)
            if half == "decoder":
                attention(f"{layer}.encoder_attn", i == 0)
            tensors[f"{layer}.fc1.weight"] = bf16(np.zeros((width, d)))
            tensors[f"{layer}.fc1.bias"] = bf16(np.zeros(width))
            tensors[f"{layer}.fc2.weight"] = bf16(np.zeros((d, width)))
            tensors[f"{layer}.fc2.bias"] = bf16(np.zeros(d))
            norm(f"{layer}.final_layer_norm")
    path = pathlib.Path(args.out)
    path.mkdir(parents=True, exist_ok=True)
    write(path / "model.safetensors", tensors)
    config = {
        "architectures": ["BartForConditionalGeneration"], "model_type": "bart", "activation_function": "gelu",
        "vocab_size": vocabulary, "d_model": d, "max_position_embeddings": positions - 2, "encoder_layers": layers,
        "decoder_layers": layers, "encoder_attention_heads": 12, "decoder_attention_heads": 12, "encoder_ffn_dim": width,
        "decoder_ffn_dim": width, "scale_embedding": False, "tie_word_embeddings": True, "is_encoder_decoder": True,
        "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
    (path / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    (path / "generation_config.json").write_text("{}\n")
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False}, "post_processor": None,
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": {f"w{i}": i for i in range(vocabulary)}, "merges": []}}
    (path / "tokenizer.json").write_text(json.dumps(tokenizer))


NUMBERS = {"F16": "<f2", "F32": "<f4"}


def arrays(path):
    return {name: np.frombuffer(data, NUMBERS[dtype]).reshape(shape).astype(np.float32)
            for name, (dtype, shape, data) in read(path / "model.safetensors").items()}


def write_whisper(args, tensors, **config):
    source, out = pathlib.Path(args.model), pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    for file in source.iterdir():
        if file.suffix in (".json", ".txt"):
            shutil.copyfile(file, out / file.name)
    write(out / "model.safetensors", {name: ("F32", list(t.shape), np.ascontiguousarray(t, np.float32).tobytes())
                                      for name, t in tensors.items()})
    config = {**json.loads((source / "config.json").read_text()), **config, "dtype": "float32"}
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def twice(name, t):
    """x is [x, x] everywhere, also between layers; so a product of it has half its weight twice."""
    if "embed_" in name:
        return np.concatenate([t, t], axis=1)
    if name.endswith("decoder.layer_norm.weight") or name.endswith("decoder.layer_norm.bias"):
        t = t / 2  # the head is the table of embeddings, which is not halved
    out = np.concatenate([t, t], axis=0)
    if t.ndim == 1 or name.endswith("conv1.weight"):  # conv1 reads the features, which are there once
        return out
    return np.concatenate([out, out], axis=1) / 2


def double(args):
    tensors = {name: twice(name, t) for name, t in arrays(pathlib.Path(args.model)).items() if name != "proj_out.weight"}
    config = json.loads((pathlib.Path(args.model) / "config.json").read_text())
    for half in ("encoder", "decoder"):
        last = f"model.{half}.layers.{config[f'{half}_layers'] - 1}."
        for name in [name for name in tensors if name.startswith(last)]:
            for i in range(config[f"{half}_layers"], args.layers):
                silent = "out_proj" in name or ".fc2." in name
                tensors[f"model.{half}.layers.{i}.{name[len(last):]}"] = tensors[name] * (0 if silent else 1)
    sizes = ("d_model", "encoder_ffn_dim", "decoder_ffn_dim", "encoder_attention_heads", "decoder_attention_heads")
    layers = {f"{half}_layers": max(args.layers, config[f"{half}_layers"]) for half in ("encoder", "decoder")}
    write_whisper(args, tensors, **{size: 2 * config[size] for size in sizes}, **layers, num_hidden_layers=layers["encoder_layers"])


def disturb(args):
    rng = np.random.default_rng(args.seed)
    write_whisper(args, {name: t * (1 + args.noise * rng.standard_normal(t.shape, np.float32))
                         if name.startswith("model.decoder.layers") and t.ndim == 2 else t
                         for name, t in arrays(pathlib.Path(args.model)).items()})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    wide = commands.add_parser("widened")
    wide.add_argument("--model", required=True)
    wide.add_argument("--encoder-width", type=int, default=27648)
    wide.add_argument("--decoder-width", type=int, default=54272)
    wide.set_defaults(run=widen)
    copying = commands.add_parser("copying")
    copying.add_argument("--seed", type=int, default=0)
    copying.set_defaults(run=copy_model)
    doubled = commands.add_parser("doubled")
    doubled.add_argument("--layers", type=int, default=12, help="of encoder and decoder")
    doubled.set_defaults(run=double)
    noisy = commands.add_parser("noisy")
    noisy.add_argument("--noise", type=float, required=True, help="standard deviation of a weight, as a share of it")
    noisy.add_argument("--seed", type=int, default=0)
    noisy.set_defaults(run=disturb)
    for command in (doubled, noisy):
        command.add_argument("--model", required=True)
    for command in (wide, copying, doubled, noisy):
        command.add_argument("--out", required=True)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
