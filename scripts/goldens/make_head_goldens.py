#!/usr/bin/env python3
"""Tiny random checkpoints that classify, answer or are an encoder alone, and what HuggingFace makes of a few inputs:
tests/data/goldens/*-labels, *-spans, *-states (tests/data/goldens/FORMAT.md).

    make_head_goldens.py OUT [NAME ...]        (needs torch and transformers 5.24)

Texts are tokenized into bytes. `bart-labels` also has the results of transformers' zero-shot-classification pipeline.
"""
import json
import math
import pathlib
import sys

import numpy as np
import torch
import transformers as T
from safetensors.torch import save_file

T.logging.set_verbosity_error()
torch.set_num_threads(1)
torch.set_grad_enabled(False)

SPECIAL = {"bos_token_id": 2, "pad_token_id": 0, "eos_token_id": 1}
FAIRSEQ = {"d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
           "encoder_ffn_dim": 12, "decoder_ffn_dim": 12, "max_position_embeddings": 96, "activation_function": "gelu"}
T5 = {"d_model": 8, "d_kv": 4, "num_heads": 2, "d_ff": 12, "num_layers": 1, "relative_attention_num_buckets": 8,
      "relative_attention_max_distance": 20, "feed_forward_proj": "gated-gelu"}
NLI = {"id2label": {0: "contradiction", 1: "neutral", 2: "entailment"},
       "label2id": {"contradiction": 0, "neutral": 1, "entailment": 2}}
TEXTS = ["The committee met twice and decided nothing.", "Crème brûlée, naïve façade.", "", "x = y*2  # sure?",
         "你好, world", "A harbour at night", "one", "It rained for three days, and the road was gone."]
LABELS = ["politics", "cooking", "weather", "code"]
ZERO_SHOT = [
    {"sequence": TEXTS[0], "labels": LABELS},
    {"sequence": TEXTS[7], "labels": LABELS, "multi_label": True},
    {"sequence": TEXTS[3], "labels": ["code"]},
    {"sequence": TEXTS[5], "labels": ["night", "day"], "hypothesis_template": "It is about {}."},
    {"sequence": TEXTS[1], "labels": ["eggs", "milk", "eggs"], "hypothesis_template": "{0} {{cooked}}"},
    {"sequence": "word " * 60, "labels": ["long", "short"]},  # cut, the first text only
]


def seed_of(name):
    return sum(ord(c) * 31 ** i for i, c in enumerate(name)) % (1 << 31)


def fill(model, name):
    """Weights with which outputs vary."""
    rng = np.random.default_rng(seed_of(name))
    for key, value in sorted(model.state_dict().items()):
        shape = tuple(value.shape)
        drawn = rng.standard_normal(shape)
        if "norm" in key:
            drawn = drawn * 0.2 + (1 if key.endswith("weight") else 0)
        elif key.endswith("bias"):
            drawn = drawn * 0.2
        elif key.startswith(("classification_head", "qa_outputs")):
            drawn = drawn * 2.0 / math.sqrt(shape[-1])
        elif "shared" in key or "embed" in key:
            drawn = drawn * (0.6 if "positions" in key else 1.0)
        else:
            drawn = drawn * 1.4 / math.sqrt(shape[-1])
        value.copy_(torch.from_numpy(drawn.astype(np.float32)))


def weights_of(model):
    """Each tensor once, under the first of its names."""
    seen, out = set(), {}
    first = ("shared.weight", "model.shared.weight", "transformer.shared.weight")
    for name, value in sorted(model.state_dict().items(), key=lambda item: (item[0] not in first, item[0])):
        if value.data_ptr() not in seen:
            seen.add(value.data_ptr())
            out[name] = value.clone().contiguous()
    return dict(sorted(out.items()))


def rounded(values):
    return [round(float(v), 6) for v in values]


def of_labels(model, ids):
    logits = model(input_ids=torch.tensor([ids])).logits[0]
    return {"logits": rounded(logits), "probs": rounded(logits.softmax(-1)),
            "label": model.config.id2label[int(logits.argmax())]}


def of_spans(model, ids):
    out = model(input_ids=torch.tensor([ids]))
    start, end = out.start_logits[0], out.end_logits[0]
    sums = [(float(start[i] + end[j]), -i, -j) for i in range(len(ids)) for j in range(i, len(ids))]
    best = max(sums)
    return {"start_logits": rounded(start), "end_logits": rounded(end), "best_span": [-best[1], -best[2]]}


def of_states(model, ids):
    return {"embedding": rounded(model(input_ids=torch.tensor([ids])).last_hidden_state[0].mean(0))}


KINDS = {"classify": of_labels, "answer": of_spans, "embed": of_states}


def texts(tokenizer, most):
    for i, text in enumerate(TEXTS):
        yield {"name": f"text_{i}", "text": text, "encoder_ids": tokenizer(text).input_ids}
        pair = TEXTS[(3 * i + 1) % len(TEXTS)]
        yield {"name": f"pair_{i}", "text": text, "text_pair": pair,
               "encoder_ids": tokenizer(text, pair, truncation=True, max_length=most).input_ids}
    yield {"name": "pair_long", "text": "word " * 30, "text_pair": "other " * 9, "truncated_to": most,
           "encoder_ids": tokenizer("word " * 30, "other " * 9, truncation=True, max_length=most).input_ids}


def random_ids(name, vocabulary, behind):
    rng = np.random.default_rng(seed_of(name + " ids"))
    for n in (1, 2, 5, 9, 16, 17, 30):
        yield {"name": f"ids_{n}", "encoder_ids": [*map(int, rng.integers(4, vocabulary, n)), *behind]}


BYTES = 259
MODELS = {
    "bart-labels": (T.BartForSequenceClassification, T.BartConfig,
                    {**FAIRSEQ, **NLI, "decoder_layers": 2, "vocab_size": BYTES, "decoder_start_token_id": 1}, "classify", []),
    "mbart-labels": (T.MBartForSequenceClassification, T.MBartConfig,
                     {**FAIRSEQ, "max_position_embeddings": 33, "vocab_size": 40, "scale_embedding": True, "num_labels": 5}, "classify", [1, 39]),
    "t5-labels": (T.T5ForSequenceClassification, T.T5Config,
                  {**T5, "vocab_size": 40, "decoder_start_token_id": 0, "num_labels": 4}, "classify", [1]),
    "bart-spans": (T.BartForQuestionAnswering, T.BartConfig,
                   {**FAIRSEQ, "max_position_embeddings": 33, "vocab_size": 40, "decoder_start_token_id": 1}, "answer", [1]),
    "t5-states": (T.T5EncoderModel, T.T5Config, {**T5, "vocab_size": 40}, "embed", [1]),
}


def zero_shot(folder):
    """The pipeline's own results."""
    classifier = T.pipeline("zero-shot-classification", str(folder), dtype=torch.float32)
    classifier.tokenizer.model_max_length = FAIRSEQ["max_position_embeddings"]
    for case in ZERO_SHOT:
        options = {k: v for k, v in case.items() if k not in ("sequence", "labels")}
        result = classifier(case["sequence"], case["labels"], **options)
        yield {**case, "expected": {"labels": result["labels"], "scores": [round(s, 7) for s in result["scores"]]}}


def build(name, out):
    model_class, config_class, settings, kind, behind = MODELS[name]
    torch.manual_seed(0)
    model = model_class(config_class(**settings, **SPECIAL)).eval()
    fill(model, name)
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights_of(model), folder / "model.safetensors", {"format": "pt"})
    written = {"architectures": [model_class.__name__], "model_type": config_class.model_type, "is_encoder_decoder": True,
               "torch_dtype": "float32", **settings, **SPECIAL}
    labels = written.pop("num_labels", 0)
    if labels:
        written["id2label"] = {i: f"LABEL_{i}" for i in range(labels)}
    (folder / "config.json").write_text(json.dumps(written, indent=1) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "ByT5Tokenizer", "extra_ids": 0, "model_max_length": 96}) + "\n")
    loaded = model_class.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = T.AutoTokenizer.from_pretrained(folder)
    inputs = texts(tokenizer, 96) if settings["vocab_size"] == BYTES else random_ids(name, settings["vocab_size"] - 1, behind)
    golden = {"checkpoint": name, "transformers": T.__version__, "dtype": "float32",
              "cases": [{**case, "kind": kind, **KINDS[kind](loaded, case["encoder_ids"])} for case in inputs]}
    if name == "bart-labels":
        golden["zero_shot"] = list(zero_shot(folder))
    (folder / "golden.json").write_text(json.dumps(golden, ensure_ascii=False) + "\n")
    print(name, len(golden["cases"]), "cases,", sum(f.stat().st_size for f in folder.iterdir()), "bytes",
          sorted({str(c.get("label")) for c in golden["cases"]}))


def main():
    for name in sys.argv[2:] or MODELS:
        build(name, pathlib.Path(sys.argv[1]))


if __name__ == "__main__":
    main()
