#!/usr/bin/env python3
"""What --quantization changes in a model's results: the table of docs/gpu/quantization.md.

    quantization_accuracy.py [--tandem build/bin/tandem] [--model examples/demo-model] [--device cuda] [--json FILE]
                             [--quantizations none,int8,int4,fp8] [--dtypes bfloat16,float16] [--limit N]

For the texts of the model's golden.json: the share of greedy and of beam outputs whose tokens are those of float32 (HuggingFace's,
as golden.json has them); the share of greedy tokens that are chosen alike, each behind float32's tokens before it; and how much
less likely, per token, float32's greedy outputs are, with the mean size of the difference of single log-probabilities.
float32 is the same program without quantisation on the same device. Needs nothing but Python's standard library; works on any
device that `tandem --device` takes, and on the emulator (TANDEM_CUDA_PLUGIN=build/tests/libtandem_cuda_emulated.so).
"""
import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def parse(argv):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--tandem", default=str(ROOT / "build/bin/tandem"))
    p.add_argument("--model", default=str(ROOT / "examples/demo-model"), help="a folder with golden.json (tests/data/goldens/FORMAT.md)")
    p.add_argument("--device", default="cuda")
    p.add_argument("--quantizations", default="none,int8,int4,fp8")
    p.add_argument("--dtypes", default="bfloat16,float16")
    p.add_argument("--limit", type=int, help="so many texts of each kind only")
    p.add_argument("--json", help="also writes the rows there")
    return p.parse_args(argv)


def run(args, command, lines, dtype, quantization):
    """Results by id."""
    whole = [args.tandem, command, "--model", args.model, "--jsonl", "--device", args.device, "--dtype", dtype,
             "--quantization", quantization]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    done = subprocess.run(whole, input=text, capture_output=True, text=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    bad = [row for row in rows if "error" in row]
    if done.returncode != 0 or bad or len(rows) != len(lines):
        sys.exit(f"{' '.join(whole)}: status {done.returncode}, {len(rows)} of {len(lines)} results\n{bad[:1]}\n{done.stderr}")
    return {row["id"]: row for row in rows}


def kinds(golden, limit):
    greedy, beams = [], []
    for case in golden["cases"]:
        if "output_ids" in case or "sequences" in case:
            (beams if case["generation"].get("num_beams", 1) > 1 else greedy).append(case)
    return greedy[:limit], beams[:limit]


def unpadded(ids, pad):
    while len(ids) > 1 and ids[-1] == pad:
        ids = ids[:-1]
    return ids


def share_alike(cases, rows, pad):
    alike = 0
    for case in cases:
        row = rows[case["name"]]
        got = [unpadded(row["prompt_token_ids"] + o["token_ids"], pad) for o in row["outputs"]]
        alike += got == [unpadded(ids, pad) for ids in case.get("sequences") or [case["output_ids"]]]
    return alike / len(cases) if cases else None


def score_lines(cases, pad):
    lines = []
    for case in cases:
        target = unpadded(case["output_ids"], pad)[len(case.get("decoder_prompt_ids", [0])):]
        lines.append({"id": case["name"], "prompt": {"prompt_token_ids": case["encoder_ids"]}, "append_eos": False,
                      "target": {"prompt_token_ids": target}, "params": {"logprobs": 1}})
    return lines


def best(row):
    """The most likely token at each place: `logprobs` has it and the target's."""
    return [max(place, key=lambda token: place[token]["logprob"]) for place in row["logprobs"]]


def compare(args, greedy, beams, pad, reference, dtype, quantization):
    generated = run(args, "generate", [{"id": c["name"], "prompt": {"prompt_token_ids": c["encoder_ids"]},
                                        "params": c["generation"]} for c in greedy + beams], dtype, quantization)
    scored = run(args, "score", score_lines(greedy, pad), dtype, quantization)
    lower, size, alike, tokens = 0.0, 0.0, 0, 0
    for name, row in scored.items():
        for ours, theirs in zip(row["token_logprobs"], reference[name]["token_logprobs"]):
            lower += theirs - ours
            size += abs(theirs - ours)
            tokens += 1
        alike += sum(a == b for a, b in zip(best(row), best(reference[name])))
    return {"quantization": quantization, "dtype": dtype, "greedy": share_alike(greedy, generated, pad),
            "beams": share_alike(beams, generated, pad), "next_token": alike / tokens, "logprob_lower": lower / tokens,
            "logprob_difference": size / tokens, "texts": len(greedy), "beam_texts": len(beams), "tokens": tokens}


def main(argv):
    args = parse(argv)
    golden = json.loads((pathlib.Path(args.model) / "golden.json").read_text())
    pad = json.loads((pathlib.Path(args.model) / "config.json").read_text())["pad_token_id"]
    greedy, beams = kinds(golden, args.limit)
    reference = run(args, "score", score_lines(greedy, pad), "float32", "none")
    rows = []
    print("| weights | activations | greedy outputs alike | beam outputs alike | next token alike | log-probability lower by | mean difference |")
    print("|---|---|---|---|---|---|---|")
    for quantization in args.quantizations.split(","):
        for dtype in args.dtypes.split(","):
            r = compare(args, greedy, beams, pad, reference, dtype, quantization)
            rows.append(r)
            beam = "" if r["beams"] is None else f"{r['beams']:.1%}"
            print(f"| {quantization} | {dtype} | {r['greedy']:.1%} | {beam} | {r['next_token']:.2%} | {r['logprob_lower']:.4f} "
                  f"| {r['logprob_difference']:.4f} |", flush=True)
    print(f"\n{len(greedy)} texts greedily, {len(beams)} with beams, {rows[0]['tokens']} tokens scored", flush=True)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
