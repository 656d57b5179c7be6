#!/usr/bin/env python3
"""How far logits are from fp32's where HuggingFace's linear layers are rounded as Tandem's bf16 and int8 do.

usage: rounded_logits.py DIR…        (checkpoints with goldens; needs torch and transformers)

Prints for each checkpoint the error of the teacher-forced logits in golden.safetensors, root mean square over that of the
logits, and the largest difference: all layers rounded, and all but the last one of each feed-forward layer.
Convolutions are rounded to bf16 by either.
"""
import json
import pathlib
import re
import sys
import wave

import numpy
import torch
from safetensors.torch import load_file
from transformers import AutoFeatureExtractor, AutoModelForSeq2SeqLM, AutoModelForSpeechSeq2Seq

torch.set_grad_enabled(False)
LAST = re.compile(r"(\.wo|\.fc2)$")


def rows_int8(x):
    scale = x.abs().amax(-1, keepdim=True) / 127
    return torch.where(scale > 0, torch.round(x / scale).clamp(-127, 127) * scale, torch.zeros_like(x))


ROUND = {"bf16": lambda x: x.bfloat16().float(), "int8": rows_int8}


def rounded(model, kind, but_last):
    for name, layer in model.named_modules():
        if isinstance(layer, torch.nn.Conv1d):
            layer.weight = torch.nn.Parameter(ROUND["bf16"](layer.weight.float()))
            layer.register_forward_pre_hook(lambda _, args: (ROUND["bf16"](args[0]),))
        if not isinstance(layer, torch.nn.Linear) or (but_last and LAST.search(name)):
            continue
        layer.weight = torch.nn.Parameter(ROUND[kind](layer.weight.float()))
        layer.register_forward_pre_hook(lambda _, args: (ROUND[kind](args[0]),))
    return model


def heard(folder, case):
    with wave.open(str(folder / case["audio"])) as file:
        samples = numpy.frombuffer(file.readframes(file.getnframes()), "<i2").astype(numpy.float32) / 32768
    features = AutoFeatureExtractor.from_pretrained(folder)(samples, sampling_rate=16000, return_tensors="pt")
    return {k: v for k, v in features.items() if k != "attention_mask"}


def cases(folder):
    golden = json.loads((folder / "golden.json").read_text())
    tensors = load_file(folder / "golden.safetensors")
    for case in golden["cases"]:
        if f"{case['name']}.decoder_logits" not in tensors or "log_mel_first_frame" in case:
            continue
        if "encoder_ids" not in case and "audio" not in case:
            continue
        inputs = heard(folder, case) if "audio" in case else {"input_ids": torch.tensor([case["encoder_ids"]])}
        yield (inputs, tensors[f"{case['name']}.decoder_input_ids"][None], tensors[f"{case['name']}.decoder_logits"])


def error(folder, kind, but_last):
    hears = any("audio" in case for case in json.loads((folder / "golden.json").read_text())["cases"])
    auto = AutoModelForSpeechSeq2Seq if hears else AutoModelForSeq2SeqLM
    model = auto.from_pretrained(folder, dtype=torch.float32).eval()
    if kind:
        rounded(model, kind, but_last)
    square, total, worst = 0.0, 0.0, 0.0
    for inputs, decoder, logits in cases(folder):
        out = model(**inputs, decoder_input_ids=decoder).logits[0].float()
        square += float(((out - logits) ** 2).sum())
        total += float((logits ** 2).sum())
        worst = max(worst, float((out - logits).abs().max()))
    return (square / total) ** 0.5, worst


if __name__ == "__main__":
    for path in map(pathlib.Path, sys.argv[1:]):
        row = [f"{100 * e:.2f} % {w:.2g}" for e, w in
               (error(path, kind, but) for kind in ("bf16", "int8") for but in (False, True))]
        print(f"| {path.name} | " + " | ".join(row) + " |", flush=True)
