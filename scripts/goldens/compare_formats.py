#!/usr/bin/env python3
"""Checkpoints of every family in every form that transformers loads, through transformers and through `tandem generate`:
the tokens must agree, and where transformers has to make a weight up, or loads nothing, tandem must name the reason.

    scripts/goldens/compare_formats.py --tandem build/bin/tandem [--only bart,t5] [--forms float64,legacy]

The weights are those of tests/data/goldens, rewritten. Needs torch and transformers 5.24.
"""
import argparse
import collections
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import torch
import transformers as T
from safetensors.torch import load_file, save_file

T.logging.set_verbosity_error()
torch.set_grad_enabled(False)
torch.set_num_threads(1)
ROOT = pathlib.Path(__file__).resolve().parents[2]
PREFIX = {"led": "led.", "t5": "transformer.", "mt5": "transformer.", "umt5": "transformer."}
ACTIVATIONS = sorted(name for name in T.activations.ACT2CLS if name not in ("prelu", "xielu"))


class Box:
    """A checkpoint in memory, until it is written as a form says."""

    def __init__(self, folder):
        self.folder = folder
        self.config = json.loads((folder / "config.json").read_text())
        settings = folder / "generation_config.json"
        self.settings = json.loads(settings.read_text()) if settings.exists() else None
        pickle = folder / "pytorch_model.bin"
        self.state = torch.load(pickle) if pickle.exists() else load_file(folder / "model.safetensors")
        self.prefix = PREFIX.get(self.config["model_type"], "model.")
        self.write = lambda out: save_file(separate(self.state), out / "model.safetensors", metadata={"format": "pt"})
        self.text = None

    def store(self, out):
        skip = {"config.json", "generation_config.json", "model.safetensors", "pytorch_model.bin", "golden.json",
                "golden.safetensors", "tokenizer_cases.json"}
        for file in self.folder.iterdir():
            if file.name not in skip:
                shutil.copy(file, out)
        (out / "config.json").write_text(self.text or json.dumps(self.config))
        if self.settings is not None:
            (out / "generation_config.json").write_text(json.dumps(self.settings))
        self.write(out)


def separate(state):
    return {name: tensor.detach().clone().contiguous() for name, tensor in state.items()}


FORMS = collections.OrderedDict()


def form(function):
    FORMS[function.__name__] = function
    return function


def cast(box, dtype, matrices=False):
    for name, tensor in box.state.items():
        if not matrices or tensor.dim() == 2:
            box.state[name] = tensor.to(dtype)


@form
def plain(box):
    pass


@form
def float64(box):
    cast(box, torch.float64)
    box.config["torch_dtype"] = "float64"


@form
def float16(box):
    cast(box, torch.float16)


@form
def bfloat16(box):
    cast(box, torch.bfloat16)


@form
def e4m3(box):
    cast(box, torch.float8_e4m3fn, matrices=True)


@form
def e5m2(box):
    cast(box, torch.float8_e5m2, matrices=True)


@form
def integers(box):
    for kind, dtype in (("fc1.bias", torch.int64), ("fc2.bias", torch.int32), ("out_proj.bias", torch.int16),
                        ("k_proj.bias", torch.int8), ("q_proj.bias", torch.bool), ("wo.weight", torch.int8)):
        for name, tensor in box.state.items():
            if name.endswith(kind):
                box.state[name] = (tensor * 2).round().to(dtype)


@form
def mixed_types(box):
    types = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
    for i, name in enumerate(sorted(box.state)):
        box.state[name] = box.state[name].to(types[i % 4])


def save_pickle(box, **options):
    def write(out):
        torch.save(box.state, out / "pytorch_model.bin", **options)
    box.write = write


@form
def pickle(box):
    save_pickle(box)


@form
def legacy(box):
    save_pickle(box, _use_new_zipfile_serialization=False)


@form
def legacy_float64(box):
    cast(box, torch.float64)
    save_pickle(box, _use_new_zipfile_serialization=False)


@form
def legacy_transposed(box):
    for name, tensor in box.state.items():
        if tensor.dim() == 2:
            box.state[name] = tensor.T.contiguous().T
    save_pickle(box, _use_new_zipfile_serialization=False)


@form
def pickle_fp8(box):
    cast(box, torch.float8_e4m3fn, matrices=True)
    save_pickle(box)


@form
def pickle_with_remarks(box):
    box.state = {**box.state, "epoch": 3, "optimizer": {"lr": 0.1, "state": [1, 2]}}
    save_pickle(box)


@form
def pickle_of_parameters(box):
    box.state = collections.OrderedDict((n, torch.nn.Parameter(t, requires_grad=t.is_floating_point()))
                                        for n, t in box.state.items())
    save_pickle(box)


def shards(box, suffix, save, folder="", extra=()):
    names = sorted(box.state)
    index = {"metadata": {"total_size": 1}, "weight_map": {}}

    def write(out):
        (out / folder).mkdir(exist_ok=True)
        for i in range(3):
            part = {n: box.state[n] for n in names[i::3]}
            file = f"{folder}odd name {i}.{suffix}"
            save(part, out / file)
            index["weight_map"].update({n: file for n in part})
        index["weight_map"].update({n: file for n in extra})
        base = "model.safetensors" if suffix == "safetensors" else "pytorch_model.bin"
        (out / f"{base}.index.json").write_text(json.dumps(index))
    box.write = write


def save_tensors(part, file):
    save_file(separate(part), file, metadata={"format": "pt"})


@form
def sharded(box):
    shards(box, "safetensors", save_tensors)


@form
def sharded_in_a_folder(box):
    shards(box, "safetensors", save_tensors, folder="parts/")


@form
def index_with_tied_names(box):
    shards(box, "safetensors", save_tensors, extra=["lm_head.weight", "nowhere.weight"])


@form
def sharded_pickle(box):
    shards(box, "bin", torch.save)


@form
def pickle_beside_safetensors(box):
    before = box.write

    def write(out):
        before(out)
        torch.save({n: t + 1 for n, t in box.state.items()}, out / "pytorch_model.bin")
    box.write = write


@form
def without_prefix(box):
    box.state = {n.removeprefix(box.prefix): t for n, t in box.state.items()}


@form
def with_prefix(box):
    box.state = {n if n.startswith((box.prefix, "lm_head", "final_logits")) else box.prefix + n: t
                 for n, t in box.state.items()}


@form
def half_with_prefix(box):
    names = sorted(box.state)
    box.state = {n.removeprefix(box.prefix) if i % 2 else n: box.state[n] for i, n in enumerate(names)}


@form
def head_with_prefix(box):
    if "lm_head.weight" in box.state:
        box.state[box.prefix + "lm_head.weight"] = box.state.pop("lm_head.weight")


@form
def tensors_of_no_layer(box):
    box.state["classification_head.dense.weight"] = torch.ones(2, 2)
    box.state["model.encoder.layers.77.fc1.weight"] = torch.ones(2, 2, dtype=torch.float64)
    box.state["encoder.embed_positions._float_tensor"] = torch.zeros(1)
    box.state["other"] = torch.zeros(3, dtype=torch.complex64)


@form
def without_architectures(box):
    box.config.pop("architectures", None)


@form
def null_architectures(box):
    box.config["architectures"] = None


@form
def empty_architectures(box):
    box.config["architectures"] = []


@form
def unknown_architecture(box):
    box.config["architectures"] = ["MyOwnModel"]


@form
def second_architecture(box):
    box.config["architectures"].insert(0, "BartForSequenceClassification")


@form
def architecture_of_others(box):
    box.config["architectures"] = ["LongT5ForConditionalGeneration", "GPT2LMHeadModel"]


@form
def numbers_of_python(box):
    text = json.dumps(box.config)
    box.text = '{"x": NaN, "y": [Infinity, -Infinity], "z": {"__float__": "NaN"}, ' + text[1:]


@form
def duplicate_keys(box):
    box.text = '{"d_model": 7, "vocab_size": 3, "model_type": "gpt2", ' + json.dumps(box.config)[1:]


@form
def lists_of_one(box):
    for part in (box.config, box.settings or {}):
        for key in ("bos_token_id", "decoder_start_token_id", "eos_token_id", "forced_bos_token_id", "forced_eos_token_id"):
            if part is box.config and box.settings is not None and key != "eos_token_id":
                continue
            if isinstance(part.get(key), int):
                part[key] = [part[key]]


@form
def without_generation_config(box):
    if box.settings is not None:
        box.config.update({k: v for k, v in box.settings.items() if k.endswith("_token_id")})
    box.settings = None


def embeddings(box):
    return [n for n in box.state if n.endswith(("shared.weight", "embed_tokens.weight", "lm_head.weight"))]


def only(box, name):
    table = box.state[embeddings(box)[0]]
    for n in embeddings(box):
        del box.state[n]
    box.state[name] = table


@form
def only_shared(box):
    only(box, ("" if "t5" in box.config["model_type"] else box.prefix) + "shared.weight")


@form
def only_the_head(box):
    only(box, "lm_head.weight")


@form
def only_the_encoders_table(box):
    only(box, ("" if "t5" in box.config["model_type"] else box.prefix) + "encoder.embed_tokens.weight")


@form
def only_the_decoders_table(box):
    only(box, ("" if "t5" in box.config["model_type"] else box.prefix) + "decoder.embed_tokens.weight")


@form
def all_tied_names(box):
    scope = "" if "t5" in box.config["model_type"] else box.prefix
    table = box.state[embeddings(box)[0]]
    for n in ("shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"):
        box.state.setdefault(scope + n, table)
    box.state.setdefault("lm_head.weight", table)


@form
def another_head(box):
    table = box.state[embeddings(box)[0]]
    box.state["lm_head.weight"] = table.flip(0) + 0.01


@form
def another_head_untied(box):
    another_head(box)
    box.config["tie_word_embeddings"] = False


@form
def untied_without_a_head(box):
    box.state.pop("lm_head.weight", None)
    box.config["tie_word_embeddings"] = False


@form
def without_logits_bias(box):
    box.state.pop("final_logits_bias", None)


@form
def without_positions(box):
    for n in [n for n in box.state if "embed_positions" in n]:
        del box.state[n]


@form
def with_positions(box):
    d = box.config.get("d_model", 8)
    scope = box.prefix if any(n.startswith(box.prefix) for n in box.state) else ""
    for side in ("encoder", "decoder"):
        box.state.setdefault(f"{scope}{side}.embed_positions.weights", torch.zeros(9, d))


@form
def a_missing_weight(box):
    del box.state[sorted(n for n in box.state if "layer" in n or "block" in n)[3]]


@form
def a_wrong_shape(box):
    name = sorted(n for n in box.state if "layer" in n or "block" in n)[3]
    box.state[name] = torch.cat([box.state[name]] * 2)


def with_activation(name):
    def change(box):
        key = "feed_forward_proj" if "t5" in box.config["model_type"] else "activation_function"
        if box.config["model_type"].startswith("t5gemma"):
            return False
        old = box.config.get(key, "")
        box.config[key] = ("gated-" if str(old).startswith("gated") else "") + name
        if key == "feed_forward_proj":
            for extra in ("dense_act_fn", "is_gated_act"):
                box.config.pop(extra, None)
    return change


for activation in ACTIVATIONS:
    FORMS["activation_" + activation] = with_activation(activation)


def requests_of(box, count=4):
    draw = random.Random(5)
    vocabulary = box.config.get("vocab_size") or box.config["decoder"]["vocab_size"]
    out = []
    for i in range(count):
        ids = [draw.randrange(4, vocabulary - 4) for _ in range(draw.randrange(3, 14))]
        params = {"max_length": 18, "num_beams": 3 if i % 2 else 1, "do_sample": False}
        out.append({"id": str(i), "prompt": {"prompt_token_ids": ids}, "params": params})
    return out


def by_transformers(folder, requests):
    """Outputs, and why there are none."""
    try:
        model, info = T.AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    except Exception as error:  # whatever it is, it does not load
        return None, type(error).__name__ + ": " + str(error)[:150]
    missing = {n for n in info["missing_keys"] if "embed_positions" not in n}
    if missing or info["mismatched_keys"]:
        return None, f"made up: {sorted(missing)[:3]} {sorted(map(str, info['mismatched_keys']))[:2]}"
    out = []
    try:
        for r in requests:
            ids = torch.tensor([r["prompt"]["prompt_token_ids"]])
            out.append(model.generate(ids, attention_mask=torch.ones_like(ids), **r["params"])[0].tolist())
    except Exception as error:
        return None, "generate: " + type(error).__name__ + ": " + str(error)[:150]
    return out, ""


def by_tandem(tandem, folder, requests):
    # (BART's decoder prompt is start and BOS here: docs/models.md.)
    config = json.loads((folder / "config.json").read_text())
    if config.get("model_type") == "bart":
        start = {"prompt_token_ids": [config.get("decoder_start_token_id", 2)]}
        requests = [{**r, "prompt": {"encoder_prompt": r["prompt"], "decoder_prompt": start}} for r in requests]
    lines = "".join(json.dumps(r) + "\n" for r in requests)
    done = subprocess.run([tandem, "generate", "--jsonl", "--model", str(folder), "--input", "-", "--dtype", "float32"],
                          input=lines, capture_output=True, text=True, timeout=300)
    rows = {}
    for line in done.stdout.splitlines():
        row = json.loads(line)
        rows[row["id"]] = row
    if done.returncode != 0 and not rows:
        return None, done.stderr.strip()[-300:]
    out = []
    for r in requests:
        row = rows[r["id"]]
        if "error" in row:
            return None, str(row["error"])
        out.append(row["prompt_token_ids"] + row["outputs"][0]["token_ids"])
    return out, done.stderr.strip()[-300:]


def stripped(ids, pad):
    while len(ids) > 1 and ids[-1] == pad:
        ids = ids[:-1]
    return ids


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tandem", default=str(ROOT / "build/bin/tandem"))
    parser.add_argument("--goldens", default=str(ROOT / "tests/data/goldens"))
    parser.add_argument("--only", default="")
    parser.add_argument("--forms", default="")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    passed = failed = 0
    for folder in sorted(pathlib.Path(options.goldens).iterdir()):
        wanted = not options.only or any(folder.name.startswith(o) for o in options.only.split(","))
        if not (folder / "config.json").exists() or "whisper" in folder.name or not wanted:
            continue
        for name, change in FORMS.items():
            if options.forms and not any(name.startswith(f) for f in options.forms.split(",")):
                continue
            box = Box(folder)
            try:
                if change(box) is False:
                    continue
            except (KeyError, IndexError) as error:
                print(f"{folder.name} {name}: no such form ({error})")
                continue
            with tempfile.TemporaryDirectory() as out:
                out = pathlib.Path(out)
                box.store(out)
                requests = requests_of(box)
                right, reason = by_transformers(out, requests)
                got, note = by_tandem(options.tandem, out, requests)
            pad = box.config.get("pad_token_id")
            pad = pad if isinstance(pad, int) else 1
            agree = (right is None) == (got is None)
            if right is not None and got is not None:
                agree = [stripped(r, pad) for r in right] == [stripped(g, pad) for g in got]
            passed, failed = passed + agree, failed + (not agree)
            if not agree or options.verbose:
                print(f"{folder.name} {name}: {'agree' if agree else 'DIFFER'}\n  transformers {reason or right}\n"
                      f"  tandem {note if got is None or agree else got} {note if not agree else ''}", flush=True)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
