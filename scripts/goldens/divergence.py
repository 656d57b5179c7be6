#!/usr/bin/env python3
"""Where a compute type's greedy tokens leave HuggingFace's fp32 ones: statistics of the first divergence.

    divergence.py --tandem build/bin/tandem --goldens DIR [--only bart-tiny,...] [--args "--dtype bfloat16"]

Reports, not a test: 16-bit arithmetic may choose another token wherever two are nearly equally likely. Needs nothing
but Python's standard library.
"""
import argparse, json, pathlib, shlex, statistics, subprocess

KINDS = ("greedy", "prompt", "option")


def load(folder):
    golden = json.loads((folder / "golden.json").read_text())
    return load(folder.parent / golden["same_as"]) if "same_as" in golden else golden


def run(args, folder, cases):
    lines = []
    for case in cases:
        prompt = {"encoder_prompt": {"prompt_token_ids": case["encoder_ids"]},
                  "decoder_prompt": {"prompt_token_ids": case["decoder_prompt_ids"]}}
        lines.append(json.dumps({"id": case["name"], "prompt": prompt, "params": case["generation"]}))
    command = [args.tandem, "generate", "--jsonl", "--model", str(folder)] + shlex.split(args.args)
    out = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    return [json.loads(row)["outputs"][0]["token_ids"] for row in out.stdout.splitlines()]


def first_difference(got, want):
    for i, (a, b) in enumerate(zip(got, want)):
        if a != b:
            return i
    return None if len(got) == len(want) else min(len(got), len(want))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--tandem", required=True)
    p.add_argument("--goldens", required=True, type=pathlib.Path)
    p.add_argument("--only", default="")
    p.add_argument("--args", default="--dtype bfloat16")
    args = p.parse_args()
    only = [name for name in args.only.split(",") if name]
    print("| checkpoint | cases | same to the end | tokens before the first other one: median, share of the length |")
    print("|---|---|---|---|")
    for folder in sorted(args.goldens.iterdir()):
        if not (folder / "golden.json").exists() or (only and not any(folder.name.startswith(o) for o in only)):
            continue
        cases = [c for c in load(folder)["cases"] if c["kind"] in KINDS and "sequences" not in c and "encoder_ids" in c]
        places = []
        for case, got in zip(cases, run(args, folder, cases)):
            want = case["output_ids"][len(case["decoder_prompt_ids"]):]
            at = first_difference(got, want)
            if at is not None:
                places.append((at, at / len(want)))
        middle = "–"
        if places:
            middle = f"{statistics.median(a for a, _ in places):g}, {statistics.median(s for _, s in places):.0%}"
        print(f"| {folder.name} | {len(cases)} | {len(cases) - len(places)} | {middle} |")


if __name__ == "__main__":
    main()
