#!/usr/bin/env python3
"""Runs `tandem` on golden checkpoints and compares tokens, scores and texts with HuggingFace's.

    check_goldens.py --tandem build/bin/tandem --goldens DIR [--only bart-tiny,...] [--kinds greedy,beam,...]
                     [--mode batch|single|shuffled|tokenizer|text] [--args "--dtype float32 --block-size 2"] [--list]

Speaks only the JSONL contract of `tandem generate --jsonl` and `tandem tokenize --jsonl`. Exit status 0 when every case
that ran agrees; the last line gives the figures. Needs nothing but Python's standard library.
"""
import argparse, json, pathlib, random, shlex, subprocess, sys

SCORE_TOLERANCE = 2e-3  # absolute, on HuggingFace's sequences_scores (fp32)


def load_golden(folder):
    golden = json.loads((folder / "golden.json").read_text())
    return load_golden(folder.parent / golden["same_as"]) if "same_as" in golden else golden


def requests(golden, kinds):
    for case in golden["cases"]:
        if "output_ids" not in case or not ("encoder_ids" in case or "audio" in case):
            continue
        if kinds and not any(case["kind"].startswith(k) for k in kinds):
            continue
        yield case


def run(command, lines, timeout):
    text = "".join(json.dumps(line) + "\n" for line in lines)
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=timeout)
    rows = []
    for row in done.stdout.splitlines():
        try:
            rows.append(json.loads(row))
        except ValueError:
            pass
    return done.returncode, rows, done.stderr


def as_request(case, with_text, folder):
    if "audio" in case:
        encoder = {"prompt": "", "multi_modal_data": {"audio": str(folder.resolve() / case["audio"])}}
    elif with_text and "text" in case:
        encoder = case["text"]
    else:
        encoder = {"prompt_token_ids": case["encoder_ids"]}
    prompt = encoder
    if "decoder_prompt_ids" in case:
        prompt = {"encoder_prompt": encoder, "decoder_prompt": {"prompt_token_ids": case["decoder_prompt_ids"]}}
    return {"id": case["name"], "prompt": prompt, "params": case["generation"]}


def strip(ids, pad):
    while len(ids) > 1 and ids[-1] == pad:
        ids = ids[:-1]
    return ids


def judge(case, row, pad):
    """Returns '' where the row agrees with the case, else what differs."""
    if row is None:
        return "no answer"
    if "error" in row:
        return "error: " + str(row["error"].get("message", row["error"]))[:120]
    got = [strip(row["prompt_token_ids"] + o["token_ids"], pad) for o in row["outputs"]]
    want = [strip(s, pad) for s in case.get("sequences") or [case["output_ids"]]]
    for k, (g, w) in enumerate(zip(got, want)):
        if g != w:
            at = next((i for i, (a, b) in enumerate(zip(g, w)) if a != b), min(len(g), len(w)))
            return f"sequence {k} differs at position {at}: {g[at:at+4]} instead of {w[at:at+4]} (margin {case.get('min_margin')})"
    if len(got) != len(want):
        return f"{len(got)} sequences instead of {len(want)}"
    for k, w in enumerate(case.get("sequences_scores") or []):
        g = row["outputs"][k].get("score")
        if g is None or abs(g - w) > SCORE_TOLERANCE:
            return f"score {g} instead of {w}"
    return ""


def check_generation(args, folder):
    golden = load_golden(folder)
    config = json.loads((folder / "config.json").read_text())
    pad = config.get("pad_token_id")
    cases = list(requests(golden, args.kinds))
    command = [args.tandem, "generate", "--jsonl", "--model", str(folder), "--input", "-"] + shlex.split(args.args)
    batches = [[c] for c in cases] if args.mode == "single" else [cases]
    if args.mode == "shuffled":
        random.Random(args.seed).shuffle(batches[0])
    bad = []
    for batch in batches:
        if not batch:
            continue
        rc, rows, err = run(command, [as_request(c, args.mode == "text", folder) for c in batch], args.timeout)
        by_id = {r.get("id"): r for r in rows}
        if [r.get("id") for r in rows] != [c["name"] for c in batch]:
            bad.append(("order", f"answers are not in input order, exit {rc}: {err.strip()[-200:]}"))
        for c in batch:
            why = judge(c, by_id.get(c["name"]), pad)
            if why:
                bad.append((c["name"], why))
    return len(cases), bad


def check_tokenizer(args, folder):
    cases = json.loads((folder / "tokenizer_cases.json").read_text())["cases"]
    lines = [{"id": i, "text": c["text"]} for i, c in enumerate(cases)]
    rc, rows, err = run([args.tandem, "tokenize", "--jsonl", "--model", str(folder)], lines, args.timeout)
    by_id = {r.get("id"): r for r in rows}
    bad = []
    for i, c in enumerate(cases):
        r = by_id.get(i, {})
        if r.get("ids") != c["ids"]:
            bad.append((f"text {i}", f"{c['text'][:30]!r}: ids differ" if "ids" in r else f"no answer, exit {rc}: {err.strip()[-120:]}"))
        elif r.get("decoded") != c["decoded"] or r.get("decoded_skip_special") != c["decoded_skip_special"]:
            bad.append((f"text {i}", f"{c['text'][:30]!r}: decoded text differs"))
    return len(cases), bad


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--tandem", required=True)
    p.add_argument("--goldens", required=True, type=pathlib.Path)
    p.add_argument("--only", default="", help="checkpoint names or prefixes, comma-separated")
    p.add_argument("--kinds", default="", help="case kinds or prefixes, comma-separated; all when empty")
    p.add_argument("--mode", default="batch", choices=["batch", "single", "shuffled", "tokenizer", "text"])
    p.add_argument("--args", default="--dtype float32")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--timeout", type=float, default=300)
    p.add_argument("--show", type=int, default=8, help="disagreements to print for a checkpoint")
    p.add_argument("--list", action="store_true")
    args = p.parse_args()
    args.kinds = [k for k in args.kinds.split(",") if k]
    only = [k for k in args.only.split(",") if k]
    need = "tokenizer_cases.json" if args.mode == "tokenizer" else "golden.json"
    folders = [f for f in sorted(args.goldens.iterdir()) if (f / need).exists() and (not only or any(f.name.startswith(o) for o in only))]
    if args.list:
        for f in folders:
            kinds = {}
            for c in load_golden(f)["cases"]:
                kinds[c["kind"]] = kinds.get(c["kind"], 0) + 1
            print(f.name, kinds)
        return 0
    total = failed = 0
    for f in folders:
        try:
            n, bad = (check_tokenizer if args.mode == "tokenizer" else check_generation)(args, f)
        except subprocess.TimeoutExpired:
            n, bad = 1, [("time", f"no end within {args.timeout} s")]
        total += n
        failed += min(n, len(bad))
        print(f"{f.name}: {n - min(n, len(bad))} of {n} agree")
        for name, why in bad[: args.show]:
            print(f"  {name}: {why}")
    print(f"{total - failed} passed, {failed} failed")
    return 1 if failed or not total else 0


if __name__ == "__main__":
    sys.exit(main())
