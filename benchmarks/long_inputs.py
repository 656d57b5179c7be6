#!/usr/bin/env python3
"""Time and memory of an encoder over the length of its input, for models whose cost is to be linear in it.

    long_inputs.py [--tandem build/bin/tandem] [--lengths 1024,2048,4096,8192,16384] [--dtype float32] [--threads 2]
                   [--repeat 3] [--out long_inputs] MODEL…

Models: random ones of make_random_families.py (longt5-local, longt5-tglobal, pegasus-x, bigbird, led; bart for comparison,
whose cost is quadratic), or any checkpoint. For each length and model a process of `tandem generate` reads short inputs, to warm
up, then --repeat inputs of random ids one after the other, and makes a token or two each. Models take turns at each length, so
that whatever else the machine does hits all alike. Seconds: the time to the first token without that in the queue, the least of
the runs. MB: how far the first long input raises the process's largest resident set over what it was before (Linux).
"exponent": the slope of the line through the last two lengths in a plot of logarithms; 1 is linear, 2 is quadratic.

Writes OUT.md, OUT.json and OUT.svg. Needs Python's standard library alone.
"""
import argparse, json, math, pathlib, random, subprocess

WARM_UPS, WARM_UP_TOKENS = 32, 64  # they read nearly all pages of the table of embeddings
COLOURS = ["#0b62a4", "#4aa3df", "#3d8b37", "#b8541a", "#7d3a12", "#777", "#083b63", "#f0a05a"]


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="+", type=pathlib.Path, metavar="MODEL")
    p.add_argument("--tandem", default="build/bin/tandem")
    p.add_argument("--lengths", default="1024,2048,4096,8192,16384")
    p.add_argument("--dtype", default="float32")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--repeat", type=int, default=3)
    p.add_argument("--cache", default="1GiB", help="--kv-cache-memory: enough for the longest input")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path("long_inputs"))
    return p.parse_args()


class Process:
    """`tandem generate`, which answers one input after the other."""

    def __init__(self, args, model):
        self.name = model.name
        command = [args.tandem, "generate", "--jsonl", "--model", model, "--dtype", args.dtype, "--threads", args.threads,
                   "--max-num-seqs", 1, "--kv-cache-memory", args.cache, "--num-speculative-tokens", 0]
        self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def read(self, ids):
        """Seconds to the first token."""
        line = json.dumps({"id": 0, "prompt": {"prompt_token_ids": ids}, "params": {"max_new_tokens": 2, "num_beams": 1}})
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer or "error" in json.loads(answer):
            raise SystemExit(f"long_inputs: {self.name}, {len(ids)} tokens: {answer or f'status {self.process.wait()}'}")
        metrics = json.loads(answer)["metrics"]
        return metrics["time_to_first_token"] - metrics["queue_time"]

    def forget_peak(self):
        pathlib.Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def resident(self, what):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split(what + ":")[1].split()[0]) / 1024

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def run(args, model, length):
    """(seconds of the fastest input, MB that the first one added at most)."""
    vocabulary = json.loads((model / "config.json").read_text())["vocab_size"]
    chance = random.Random(f"{args.seed} {length}")
    ids = lambda count: [chance.randint(200, vocabulary - 1) for _ in range(count)]
    process = Process(args, model)
    try:
        for _ in range(WARM_UPS):
            process.read(ids(WARM_UP_TOKENS))
        process.forget_peak()
        before = process.resident("VmRSS")
        seconds = [process.read(ids(length))]
        added = process.resident("VmHWM") - before
        return min(seconds + [process.read(ids(length)) for _ in range(args.repeat - 1)]), added
    finally:
        process.close()


def measure(args, lengths):
    rows = []
    for length in lengths:
        for model in args.models:
            seconds, added = run(args, model, length)
            rows.append({"model": model.name.removeprefix("random-"), "tokens": length, "seconds": seconds, "mb": added})
            print(f"  {rows[-1]['model']}, {length} tokens: {seconds:.3f} s, {added:.0f} MB", flush=True)
    return rows


def of_model(rows):
    return {name: [r for r in rows if r["model"] == name] for name in dict.fromkeys(r["model"] for r in rows)}


def exponent(rows, what):
    """Of the last two lengths; nan where there is nothing to compare."""
    if len(rows) < 2 or min(rows[-1][what], rows[-2][what]) <= 0:
        return math.nan
    return math.log(rows[-1][what] / rows[-2][what]) / math.log(rows[-1]["tokens"] / rows[-2]["tokens"])


def table(rows, lengths):
    cell = {(r["model"], r["tokens"]): f"{r['seconds']:.3g} s, {r['mb']:.0f} MB" for r in rows}
    out = ["| model | " + " | ".join(str(n) for n in lengths) + " | exponent of time, of memory |", "|---" * (2 + len(lengths)) + "|"]
    for name, mine in of_model(rows).items():
        out.append(f"| {name} | " + " | ".join(cell[name, n] for n in lengths) +
                   f" | {exponent(mine, 'seconds'):.2f}, {exponent(mine, 'mb'):.2f} |")
    return "\n".join(out) + "\n"


def panel(left, title, what, rows, lengths, colours):
    """A plot of logarithms; a grey line has the slope of what is linear."""
    width, height, top = 360, 260, 60
    values = [max(r[what], 1e-3) for r in rows]
    low, high = (math.floor(math.log10(min(values))), math.ceil(math.log10(max(values))))
    x = lambda tokens: left + width * (math.log(tokens / lengths[0])) / math.log(lengths[-1] / lengths[0])
    y = lambda value: top + height * (high - math.log10(max(value, 1e-3))) / (high - low)
    out = [f"<text class='name' x='{left}' y='{top - 12}'>{title}</text>"]
    for power in range(low, high + 1):
        out.append(f"<path class='grid' d='M{left} {y(10**power):.1f}h{width}'/><text x='{left - 6}' y='{y(10**power) + 4:.1f}' "
                   f"text-anchor='end'>{10**power:g}</text>")
    for n in lengths:
        out.append(f"<path class='grid' d='M{x(n):.1f} {top}v{height}'/><text x='{x(n):.1f}' y='{top + height + 18}' "
                   f"text-anchor='middle'>{n // 1024}k</text>")
    begin = 10 ** low * 2
    end = begin * lengths[-1] / lengths[0]
    out.append(f"<path d='M{x(lengths[0]):.1f} {y(begin):.1f}L{x(lengths[-1]):.1f} {y(end):.1f}' stroke='#bbb' stroke-dasharray='5 4' "
               "fill='none'/>")
    for name, mine in of_model(rows).items():
        places = [(x(r["tokens"]), y(r[what])) for r in mine]
        out.append(f"<path d='M{'L'.join(f'{a:.1f} {b:.1f}' for a, b in places)}' fill='none' stroke='{colours[name]}' stroke-width='2'/>")
        out += [f"<circle cx='{a:.1f}' cy='{b:.1f}' r='3' fill='{colours[name]}'/>" for a, b in places]
    return out


def svg(rows, lengths, dtype):
    names = list(of_model(rows))
    colours = dict(zip(names, COLOURS * 9))
    out = ["<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 900 390' font-family='system-ui, sans-serif' font-size='12'>"
           "<style>.grid{stroke:#eee;fill:none}text{fill:#444}.name{font-weight:600}.title{font-size:16px;font-weight:600}</style>"
           "<rect width='900' height='390' fill='#fff'/>"
           f"<text class='title' x='20' y='26'>Cost over the length of the input, {dtype}; dashed: a linear one</text>"]
    out += panel(60, "time to the first token, s", "seconds", rows, lengths, colours)
    out += panel(510, "memory of the input, MB", "mb", rows, lengths, colours)
    left = 60
    for name in names:
        out.append(f"<rect x='{left}' y='366' width='14' height='4' fill='{colours[name]}'/><text x='{left + 20}' y='372'>{name}</text>")
        left += 45 + 8 * len(name)
    return "\n".join(out) + "\n</svg>\n"


def main():
    args = parse()
    lengths = [int(n) for n in args.lengths.split(",")]
    rows = measure(args, lengths)
    text = table(rows, lengths)
    print(text, end="")
    args.out.with_suffix(".md").write_text(text)
    args.out.with_suffix(".json").write_text(json.dumps({"dtype": args.dtype, "threads": args.threads, "rows": rows}, indent=1) + "\n")
    args.out.with_suffix(".svg").write_text(svg(rows, lengths, args.dtype))


if __name__ == "__main__":
    main()
