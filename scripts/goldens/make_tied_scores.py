#!/usr/bin/env python3
"""Log-probabilities that HuggingFace gives a target where config.json ties embeddings, and files store other values, or fewer tables.

    scripts/goldens/make_tied_scores.py tests/data/tied_scores.json

Each case changes a golden checkpoint: it drops tensors, adds copies of tensors times 1 or -1, and puts keys over config.json.
Needs torch and transformers from PyPI (the answers in the repository are of transformers 5.24). Nothing is random.
"""
import json
import pathlib
import shutil
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file

GOLDENS = pathlib.Path(__file__).resolve().parents[2] / "tests/data/goldens"
SOURCE, TARGET = [5, 17, 33, 21, 2], [40, 7, 90, 12, 40, 2]
FAIRSEQ = ["bart-tiny", "mbart-ids", "m2m100-ids", "marian-tiny", "pegasus-ids", "plbart-tiny", "mvp-tiny", "blenderbot-tiny", "blenderbot-small-tiny"]


def cases():
    table, encoder, decoder = "model.decoder.embed_tokens.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
    for base in FAIRSEQ:
        yield base, "head", {"copy": {"lm_head.weight": [table, -1]}}
        yield base, "decoder", {"copy": {"model.shared.weight": [table, -1]}}
        yield base, "sides", {"copy": {encoder: [table, -1]}}
    table, encoder, decoder = "shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"
    yield "t5-tiny", "head", {"copy": {"lm_head.weight": [table, -1]}}
    for base in ("t5-tiny", "mt5-tiny", "flan-t5-untied"):
        tied = {"drop": ["lm_head.weight"], "config": {"tie_word_embeddings": True}}
        yield base, "tied", tied
        yield base, "decoder", {**tied, "copy": {decoder: [table, -1]}}
        yield base, "sides", {"drop": ["lm_head.weight", table], "config": tied["config"], "copy": {encoder: [table, 1], decoder: [table, -1]}}


def scores(base, change):
    with tempfile.TemporaryDirectory() as folder:
        for file in (GOLDENS / base).iterdir():
            if file.is_file() and not file.name.startswith("golden"):
                shutil.copy(file, folder)
        config = json.loads((pathlib.Path(folder) / "config.json").read_text())
        config.update(change.get("config", {}))
        (pathlib.Path(folder) / "config.json").write_text(json.dumps(config))
        stored = load_file(folder + "/model.safetensors")
        tensors = {name: tensor for name, tensor in stored.items() if name not in change.get("drop", [])}
        for name, (of, sign) in change.get("copy", {}).items():
            tensors[name] = sign * stored[of].clone()
        save_file(tensors, folder + "/model.safetensors", metadata={"format": "pt"})
        model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32).eval()
        start = model.config.decoder_start_token_id
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([SOURCE]), attention_mask=torch.ones(1, len(SOURCE), dtype=torch.long),
                           decoder_input_ids=torch.tensor([[start] + TARGET[:-1]])).logits[0]
        return [round(float(row[token]), 5) for row, token in zip(logits.log_softmax(-1), TARGET)]


def main():
    out = {"transformers": transformers.__version__, "source": SOURCE, "target": TARGET, "cases": []}
    for base, name, change in cases():
        out["cases"].append({"base": base, "name": name, **change, "logprobs": scores(base, change)})
    text = json.dumps(out)
    for case in out["cases"]:
        text = text.replace(json.dumps(case), "\n" + json.dumps(case))
    pathlib.Path(sys.argv[1]).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
