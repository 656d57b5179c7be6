#!/usr/bin/env python3
"""Drafts on and off: `tandem bench latency` in turns, on models of make_models.py.

    compare.py --model DIR --args "--dtype int8 --input-len 66 --output-len 64 --random-vocab 50000" [--batches 1,8,32]
    compare.py --model DIR --args "--dataset-path texts.txt --output-len 0" --extra-body '{"max_tokens": 48}'

    compare.py --model DIR --draft-model DIR … drafts of a smaller model as well; with --over-lookup, over those that are looked up

Each round runs both, one after the other; a ratio is that of a round, and the table has their medians. Tokens a step: of a
sequence, in a step that decodes it; it does not depend on the machine.
"""
import argparse, json, pathlib, shlex, statistics, subprocess, tempfile


def run(args, batch, drafts, file, model=""):
    command = [args.tandem, "bench", "latency", "--model", args.model, "--batch-size", str(batch), "--num-iters-warmup", "1",
               "--num-speculative-tokens", str(drafts), "--extra-body", args.extra_body, "--save-result", str(file)]
    if model:
        command += ["--draft-model", model]
    if args.num_prompts:
        command += ["--num-prompts", str(max(batch, args.num_prompts // batch * batch))]
    else:
        command += ["--num-iters", str(args.iterations)]
    subprocess.run(command + shlex.split(args.args), check=True, stdout=subprocess.DEVNULL)
    return json.loads(file.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tandem", default="build/bin/tandem")
    parser.add_argument("--model", required=True)
    parser.add_argument("--args", default="", help="more arguments of tandem bench latency")
    parser.add_argument("--extra-body", default="{}", help="generation parameters")
    parser.add_argument("--batches", default="1,32")
    parser.add_argument("--drafts", type=int, default=8, help="--num-speculative-tokens")
    parser.add_argument("--draft-model", default="", help="a smaller model, for drafts as well")
    parser.add_argument("--over-lookup", action="store_true", help="compare with drafts that are looked up, not with none")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--num-prompts", type=int, default=0, help="different prompts, each once; 0: one batch again and again")
    args = parser.parse_args()
    print("| batch | s without | s with | faster by | least, most | tokens a step | drafts right |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "result.json"
        for batch in map(int, args.batches.split(",")):
            times, ratios, drafts = ([], []), [], {}
            for i in range(args.rounds):
                both = [None, None]
                for on in ((0, 1), (1, 0))[i % 2]:
                    number = args.drafts if on or args.over_lookup else 0
                    result = run(args, batch, number, file, args.draft_model if on else "")
                    both[on] = statistics.median(result["latencies"]) if not args.num_prompts else result["avg_latency"]
                    times[on].append(both[on])
                    drafts = result.get("spec_decode", drafts) if on else drafts
                ratios.append(both[0] / both[1])
            right = drafts["num_accepted_tokens"] / max(1, drafts["num_draft_tokens"])
            print(f"| {batch} | {statistics.median(times[0]):.3f} | {statistics.median(times[1]):.3f} | "
                  f"{statistics.median(ratios):.2f} | {min(ratios):.2f}, {max(ratios):.2f} | "
                  f"{drafts['tokens_per_step']:.2f} | {right:.0%} |", flush=True)


if __name__ == "__main__":
    main()
