#!/usr/bin/env python3
"""Without drafts and with them: `tandem bench latency` in turns, on models of make_models.py.

    compare.py --model DIR --args "--dtype int8 --input-len 66 --output-len 64 --random-vocab 50000" [--batches 1,8,32]
    compare.py --model DIR --args "--dataset-path texts.txt --output-len 0" --extra-body '{"max_tokens": 48}'

    compare.py --model DIR --draft-model DIR … drafts of a smaller model as well (scripts/distil_draft makes one)

Each round runs all ways, one after the other: none, drafts that are looked up, drafts of the draft model or looked up. A
ratio is that of a round, and the table has their medians. Tokens a step: of a sequence, in a step that decodes it; it does
not depend on the machine. CPU: the same ratio of processor seconds, which other jobs disturb less.
"""
import argparse, json, pathlib, shlex, statistics, subprocess, tempfile


def run(args, batch, way, file):
    """(seconds of a batch, processor seconds, what came of drafts or None)"""
    command = [args.tandem, "bench", "latency", "--model", args.model, "--batch-size", str(batch), "--num-iters-warmup", "1",
               "--num-speculative-tokens", str(0 if way == "none" else args.drafts), "--extra-body", args.extra_body,
               "--save-result", str(file)]
    if way == "draft model":
        command += ["--draft-model", args.draft_model]
    if args.num_prompts:
        command += ["--num-prompts", str(max(batch, args.num_prompts // batch * batch))]
    else:
        command += ["--num-iters", str(args.iterations)]
    subprocess.run(command + shlex.split(args.args), check=True, stdout=subprocess.DEVNULL)
    result = json.loads(file.read_text())
    seconds = result["avg_latency"] if args.num_prompts else statistics.median(result["latencies"])
    return seconds, result["avg_cpu"], result.get("spec_decode")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tandem", default="build/bin/tandem")
    parser.add_argument("--model", required=True)
    parser.add_argument("--args", default="", help="more arguments of tandem bench latency")
    parser.add_argument("--extra-body", default="{}", help="generation parameters")
    parser.add_argument("--batches", default="1,32")
    parser.add_argument("--drafts", type=int, default=8, help="--num-speculative-tokens")
    parser.add_argument("--draft-model", default="", help="a smaller model, for drafts as well")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--num-prompts", type=int, default=0, help="different prompts, each once; 0: one batch again and again")
    args = parser.parse_args()
    ways = ["none", "looked up"] + (["draft model"] if args.draft_model else [])
    print("| batch | drafts | s | over | faster by | least, most | CPU | tokens a step | drafts right |\n|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "result.json"
        for batch in map(int, args.batches.split(",")):
            rounds = []
            for i in range(args.rounds):
                order = ways[i % len(ways):] + ways[:i % len(ways)]
                rounds.append({way: run(args, batch, way, file) for way in order})
            seconds = {way: statistics.median(r[way][0] for r in rounds) for way in ways}
            print(f"| {batch} | none | {seconds['none']:.3f} | | | | | 1 | |")
            for way in ways[1:]:
                drafts = rounds[-1][way][2]
                right = drafts["num_accepted_tokens"] / max(1, drafts["num_draft_tokens"])
                for other in ways[:ways.index(way)]:
                    ratios = [r[other][0] / r[way][0] for r in rounds]
                    cpu = statistics.median(r[other][1] / r[way][1] for r in rounds)
                    print(f"| {batch} | {way} | {seconds[way]:.3f} | {other} | {statistics.median(ratios):.2f} | "
                          f"{min(ratios):.2f}, {max(ratios):.2f} | {cpu:.2f} | {drafts['tokens_per_step']:.2f} | {right:.0%} |", flush=True)


if __name__ == "__main__":
    main()
