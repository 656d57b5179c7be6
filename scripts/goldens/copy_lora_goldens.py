#!/usr/bin/env python3
"""Copies small adapters of the goldens of adapters, and their cases, to tests/data/lora.

    copy_lora_goldens.py FEATURES OUT       FEATURES: a folder with lora/BASE as its FORMAT.md describes them

A case of each kind for each adapter, and the base's first ones; what a test does not read of a case is left out.
"""
import json
import pathlib
import shutil
import sys

ADAPTERS = {"bart-tiny": ["qv-r4", "dora-r4"], "t5-tiny": ["attention-r1-rslora", "dora-r8", "ffn-r4"]}
OF_KIND = 3  # cases of an adapter and a kind
KEYS = ("name", "kind", "adapter", "encoder_ids", "decoder_prompt_ids", "generation", "output_ids", "sequences")


def main():
    features, out = map(pathlib.Path, sys.argv[1:])
    for base, adapters in ADAPTERS.items():
        folder, to = features / "lora" / base, out / base
        for name in adapters:
            shutil.copytree(folder / "adapters" / name, to / name, dirs_exist_ok=True)
            for file in (to / name).iterdir():
                file.chmod(0o644)
        cases, seen = [], {}
        for case in json.loads((folder / "golden.json").read_text())["cases"]:
            if case["adapter"] not in (None, *adapters):
                continue
            kind = (case["adapter"], case["kind"])
            seen[kind] = seen.get(kind, 0) + 1
            if seen[kind] <= OF_KIND:
                cases.append({k: case[k] for k in KEYS if k in case})
        (to / "golden.json").write_text(json.dumps({"base": base, "cases": cases}) + "\n")


if __name__ == "__main__":
    main()
