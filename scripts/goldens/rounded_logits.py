#!/usr/bin/env python3
"""How far logits are from fp32's where HuggingFace's linear layers are rounded as Tandem's bf16 and int8 do.

usage: rounded_logits.py DIR…        (checkpoints with goldens; needs torch and transformers)

Prints for each checkpoint the error of the teacher-forced logits in golden.safetensors, root mean square over that of the
logits, and the largest difference: all layers rounded, and all but the last one of each feed-forward layer.
"""
import pathlib
import re
import sys

import torch
from safetensors.torch import load_file
from transformers import AutoModelForSeq2SeqLM

torch.set_grad_enabled(False)
LAST = re.compile(r"(\.wo|\.fc2)$")


def rows_int8(x):
    scale = x.abs().amax(-1, keepdim=True) / 127
    return torch.where(scale > 0, torch.round(x / scale).clamp(-127, 127) * scale, torch.zeros_like(x))


ROUND = {"bf16": lambda x: x.bfloat16().float(), "int8": rows_int8}


def rounded(model, kind, but_last):
    for name, layer in model.named_modules():
        if not isinstance(layer, torch.nn.Linear) or (but_last and LAST.search(name)):
            continue
        layer.weight = torch.nn.Parameter(ROUND[kind](layer.weight.float()))
        layer.register_forward_pre_hook(lambda _, args: (ROUND[kind](args[0]),))
    return model


def cases(folder):
    import json
    golden = json.loads((folder / "golden.json").read_text())
    tensors = load_file(folder / "golden.safetensors")
    for case in golden["cases"]:
        if f"{case['name']}.decoder_logits" in tensors and "encoder_ids" in case:
            yield (torch.tensor([case["encoder_ids"]]), tensors[f"{case['name']}.decoder_input_ids"][None],
                   tensors[f"{case['name']}.decoder_logits"])


def error(folder, kind, but_last):
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32).eval()
    if kind:
        rounded(model, kind, but_last)
    square, total, worst = 0.0, 0.0, 0.0
    for encoder, decoder, logits in cases(folder):
        out = model(input_ids=encoder, decoder_input_ids=decoder).logits[0].float()
        square += float(((out - logits) ** 2).sum())
        total += float((logits ** 2).sum())
        worst = max(worst, float((out - logits).abs().max()))
    return (square / total) ** 0.5, worst


if __name__ == "__main__":
    for path in map(pathlib.Path, sys.argv[1:]):
        row = [f"{100 * e:.2f} % {w:.2g}" for e, w in
               (error(path, kind, but) for kind in ("bf16", "int8") for but in (False, True))]
        print(f"| {path.name} | " + " | ".join(row) + " |", flush=True)
