#!/usr/bin/env python3
"""LLM.generate() of the Python package beside `tandem bench throughput`: what does the way through Python cost?

    python_library.py [--model examples/demo-model] [--prompts 1000] [--rounds 7] [--new-tokens 48] [--options '{"dtype": "int8"}']

Makes prompts of 3 to 150 words. In each round both compute them, each in a process of its own, in turns: A B, then B A. Both
generate until the model's end token, --new-tokens at most, with the caches off. Loading is not timed. Prints the seconds and
the processor seconds (user and system, all threads) of both, the ratio of their medians, and the median of the ratios within
rounds: above 1 the library is slower. A machine that others load says little but by the processor seconds. Fails where the two generate other numbers of tokens.

--options: options of the engine, which are flags of the command. The Python that runs it has numpy; the library is
TANDEM_LIBRARY, or that of --bin.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

from documents import sentence

ROOT = pathlib.Path(__file__).resolve().parents[1]
CACHES_OFF = {"enable_prefix_caching": False, "enable_encoder_cache": False}


def prompts_of(count, seed):
    chance = random.Random(seed)
    out = []
    for _ in range(count):
        words = " ".join(sentence(chance) for _ in range(15)).split()
        out.append(" ".join(words[:round(3 * 50 ** chance.random())]))
    return out


def flags_of(options):
    out = []
    for name, value in options.items():
        flag = name.replace("_", "-")
        out += [f"--{flag}" if value else f"--no-{flag}"] if isinstance(value, bool) else [f"--{flag}", str(value)]
    return out


def by_the_command(args, file, options):
    with tempfile.NamedTemporaryFile() as result:
        command = [args.bin / "tandem", "bench", "throughput", "--model", args.model, "--num-prompts", args.prompts,
                   "--dataset-path", file, "--output-len", 0, "--extra-body", json.dumps({"max_new_tokens": args.new_tokens}),
                   "--save-result", result.name, *flags_of(options)]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"python_library: {' '.join(map(str, command))}: {done.stderr[-2000:]}")
        said = json.loads(pathlib.Path(result.name).read_text())
    return said["duration"], said["cpu_seconds"], said["total_output_tokens"]


def by_the_library(args, file, options):
    child = [sys.executable, __file__, "--child", file, "--model", args.model, "--new-tokens", args.new_tokens, "--options",
             json.dumps(options)]
    done = subprocess.run([str(word) for word in child], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"python_library: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def child(args):
    """One measurement of the library."""
    from tandem_infer import LLM

    prompts = pathlib.Path(args.child).read_text().splitlines()
    with LLM(args.model, **args.options) as llm:
        begun, cpu = time.perf_counter(), time.process_time()
        outputs = llm.generate(prompts, max_new_tokens=args.new_tokens)
        figures = time.perf_counter() - begun, time.process_time() - cpu
        print(json.dumps([*figures, sum(len(one.token_ids) for output in outputs for one in output.outputs)]))


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", default=ROOT / "examples/demo-model")
    p.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/bin")
    p.add_argument("--prompts", type=int, default=1000)
    p.add_argument("--new-tokens", type=int, default=48)
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--options", type=json.loads, default={})
    p.add_argument("--child", help=argparse.SUPPRESS)
    return p.parse_args()


def main():
    args = parse()
    sys.path.insert(0, str(ROOT / "python"))
    os.environ["PYTHONPATH"] = str(ROOT / "python")
    os.environ.setdefault("TANDEM_LIBRARY", str(args.bin / "libtandem.so"))
    if args.child:
        return child(args)
    options = {**CACHES_OFF, **args.options}
    ways = {"command": by_the_command, "library": by_the_library}
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "prompts")
        file.write_text("".join(prompt + "\n" for prompt in prompts_of(args.prompts, args.seed)))
        for number in range(args.rounds):
            order = list(ways)[:: 1 if number % 2 == 0 else -1]
            figures = {name: ways[name](args, file, options) for name in order}
            rounds.append(figures)
            print("  ".join(f"{name} {figures[name][0]:.3f} s, {figures[name][1]:.3f} CPU s" for name in ways), flush=True)
            if figures["command"][2] != figures["library"][2]:
                sys.exit(f"python_library: {figures['library'][2]} tokens of the library, {figures['command'][2]} of the command")

    def median(figure, name):
        return statistics.median(one[name][figure] for one in rounds)

    print(f"{args.prompts} prompts, {rounds[0]['command'][2]} tokens, medians of {args.rounds} rounds:")
    for figure, name in ((0, "seconds"), (1, "CPU seconds")):
        command, library = median(figure, "command"), median(figure, "library")
        of_rounds = statistics.median(one["library"][figure] / one["command"][figure] for one in rounds)
        print(f"{name}: command {command:.3f}, library {library:.3f}; ratio {library / command:.3f}, of rounds {of_rounds:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
