#!/usr/bin/env python3
"""A random T5 with gated feed-forward layers, in bf16, for bench_gpu. Speed does not depend on the values.

    make_random_t5.py --out DIR [--size xl|tiny] [--device cuda]

xl: google/flan-t5-xl's shape, 2.85 billion parameters, 5.7 GB. Needs PyTorch and safetensors. Files as large as that would fill
a loan by copying them there: they are made on the machine that reads them.
"""
import argparse
import json
import pathlib

import torch
from safetensors.torch import save_file

SIZES = {"xl": (24, 2048, 32, 64, 5120, 32128), "tiny": (2, 64, 4, 16, 128, 512)}  # layers, d_model, heads, d_kv, d_ff, vocabulary
BUCKETS = 32


def tensors(size, device):
    layers, width, heads, head, inner, vocabulary = SIZES[size]
    out = {}

    def weight(name, *shape, deviation=None):
        deviation = shape[-1] ** -0.5 if deviation is None else deviation
        out[name] = (torch.randn(*shape, device=device, dtype=torch.bfloat16) * deviation).cpu()

    def norm(name):
        out[name] = torch.ones(width, dtype=torch.bfloat16)

    def attention(name):
        for part in "qkv":
            weight(f"{name}.{part}.weight", heads * head, width, deviation=width ** -0.5 * (head ** -0.25 if part in "qk" else 1))
        weight(f"{name}.o.weight", width, heads * head)

    weight("shared.weight", vocabulary, width, deviation=1.0)
    weight("lm_head.weight", vocabulary, width)
    for stack in ("encoder", "decoder"):
        for i in range(layers):
            block = f"{stack}.block.{i}.layer"
            parts = ["SelfAttention"] + (["EncDecAttention"] if stack == "decoder" else [])
            for k, part in enumerate(parts):
                attention(f"{block}.{k}.{part}")
                norm(f"{block}.{k}.layer_norm.weight")
            if i == 0:
                weight(f"{block}.0.SelfAttention.relative_attention_bias.weight", BUCKETS, heads, deviation=0.5)
            for part in ("wi_0", "wi_1"):
                weight(f"{block}.{len(parts)}.DenseReluDense.{part}.weight", inner, width)
            weight(f"{block}.{len(parts)}.DenseReluDense.wo.weight", width, inner)
            norm(f"{block}.{len(parts)}.layer_norm.weight")
        norm(f"{stack}.final_layer_norm.weight")
    return out


def config(size):
    layers, width, heads, head, inner, vocabulary = SIZES[size]
    return {"architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "d_model": width, "d_kv": head, "d_ff": inner,
            "num_layers": layers, "num_decoder_layers": layers, "num_heads": heads, "vocab_size": vocabulary,
            "feed_forward_proj": "gated-gelu", "relative_attention_num_buckets": BUCKETS, "relative_attention_max_distance": 128,
            "layer_norm_epsilon": 1e-6, "tie_word_embeddings": False, "decoder_start_token_id": 0, "pad_token_id": 0,
            "eos_token_id": 1, "is_encoder_decoder": True, "torch_dtype": "bfloat16"}


def tokenizer(size):
    """A word for each id: the engine wants one, and is given ids."""
    words = {"<pad>": 0, "</s>": 1, "<unk>": 2, **{f"w{i}": i for i in range(3, SIZES[size][5])}}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
            "model": {"type": "WordLevel", "vocab": words, "unk_token": "<unk>"}}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=pathlib.Path, required=True)
    p.add_argument("--size", choices=SIZES, default="xl")
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = p.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    made = tensors(args.size, args.device)
    save_file(made, str(args.out / "model.safetensors"), metadata={"format": "pt"})
    (args.out / "tokenizer.json").write_text(json.dumps(tokenizer(args.size)) + "\n")
    (args.out / "config.json").write_text(json.dumps(config(args.size), indent=1) + "\n")
    print(f"{args.out}: T5 {args.size}, {sum(t.numel() for t in made.values()) / 1e6:.0f} million parameters")


if __name__ == "__main__":
    main()
