#!/usr/bin/env python3
"""How far a compute type's log-probabilities are from fp32's, computed by Tandem itself on the same targets.

    compare_types.py [--tandem build/bin/tandem] [--types bfloat16,int8,int4] [--requests 32] [--lines FILE] MODEL…

A type is one of --dtype, or that and one of --kv-cache-dtype: bfloat16/int8.

Every model scores targets (`tandem score`, docs/scoring.md) in float32 and in each of --types. Targets and sources are
random token ids by a seed, or those of --lines, a JSONL file as `tandem score` reads it: take a trained model's own
texts where there are some. A model of images gets random pictures, and random ids beside them where it reads both (with
the vocabulary of a published checkpoint). For each token of a target: |Δ| is the difference of its log-probability from
fp32's; top 1 is whether the most likely token at its place is fp32's. Prints a Markdown table. Needs Python's standard
library alone.
"""
import argparse, json, pathlib, random, statistics, subprocess, tempfile


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="+", type=pathlib.Path, metavar="MODEL")
    p.add_argument("--tandem", default="build/bin/tandem")
    p.add_argument("--types", default="bfloat16,int8,int4")
    p.add_argument("--requests", type=int, default=32)
    p.add_argument("--source-tokens", type=int, default=40)
    p.add_argument("--target-tokens", type=int, default=24)
    p.add_argument("--lines", type=pathlib.Path)
    p.add_argument("--seed", type=int, default=1)
    return p.parse_args()


def sizes_in(config):
    """Of all vocabularies that a configuration names."""
    for key, value in config.items():
        if key in ("vocab_size", "decoder_vocab_size", "src_vocab_size", "tgt_vocab_size") and value:
            yield value
        elif isinstance(value, dict):
            yield from sizes_in(value)


def vocabulary(model):
    """How many ids there are for both sides."""
    return min(sizes_in(json.loads((model / "config.json").read_text())))


def sources(args, model, config, ids, folder):
    """Encoder prompts, as `tandem score` reads them."""
    processor = model / "preprocessor_config.json"
    if not processor.exists() or not {"image_processor_type", "image_mean"} & json.loads(processor.read_text()).keys():
        return [{"prompt_token_ids": ids(args.source_tokens)} for _ in range(args.requests)]
    import compare_requests

    out = []
    for request in compare_requests.make_requests(args, config, folder, args.requests):
        text = {"prompt_token_ids": request["ids"]} if "ids" in request else {"prompt": ""}
        if "bbox" in request:
            text["bbox"] = request["bbox"]
        out.append({**text, "multi_modal_data": {"image": request["image"]}})
    return out


def random_lines(args, model, folder):
    chance = random.Random(args.seed)
    config = json.loads((model / "config.json").read_text())
    low, high = 8, vocabulary(model) - 8  # hardly a special token
    ids = lambda most: [chance.randint(low, high) for _ in range(chance.randint(most // 2, most))]
    return [{"id": i, "encoder_prompt": source, "target": {"prompt_token_ids": ids(args.target_tokens)}, "append_eos": False}
            for i, source in enumerate(sources(args, model, config, ids, folder))]


def score(args, model, dtype, lines):
    """[(log-probability, most likely token)] of all tokens of all targets."""
    compute, _, cache = dtype.partition("/")
    command = [args.tandem, "score", "--jsonl", "--model", str(model), "--dtype", compute, "--logprobs", "1",
               "--kv-cache-dtype", cache or "auto"]
    out = subprocess.run(command, input="".join(json.dumps(line) + "\n" for line in lines), stdout=subprocess.PIPE,
                         text=True)
    tokens = []
    for line in out.stdout.splitlines():
        result = json.loads(line)
        if "error" in result:
            raise SystemExit(f"{model.name}, {dtype}: {result['error']['message']}")
        for value, top in zip(result["token_logprobs"], result["logprobs"]):
            tokens.append((value, next(int(token) for token, entry in top.items() if entry["rank"] == 1)))
    if out.returncode or not tokens:
        raise SystemExit(f"{model.name}, {dtype}: tandem score ended with status {out.returncode}")
    return tokens


def compare(exact, other):
    """Tokens, mean and largest |Δ|, the share of equal top tokens."""
    differences = [abs(a - b) for (a, _), (b, _) in zip(exact, other) if a is not None and b is not None]
    same = sum(a == b for (_, a), (_, b) in zip(exact, other))
    return len(exact), statistics.mean(differences), max(differences), same / len(exact)


def main():
    args = parse()
    types = args.types.split(",")
    print("| checkpoint | tokens | " + " | ".join(f"{t}: mean \\|Δ\\|, largest, same top 1" for t in types) + " |")
    print("|---" * (2 + len(types)) + "|", flush=True)
    for model in args.models:
        with tempfile.TemporaryDirectory() as folder:
            lines = ([json.loads(line) for line in args.lines.read_text().splitlines() if line.strip()]
                     if args.lines else random_lines(args, model, pathlib.Path(folder)))
            exact = score(args, model, "float32", lines)
            cells = []
            for dtype in types:
                count, mean, most, same = compare(exact, score(args, model, dtype, lines))
                cells.append(f"{mean:.4f}, {most:.3f}, {same:.1%}")
        print(f"| {model.name} | {len(exact)} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
