#!/usr/bin/env python3
"""Documents against the same sentences as lines: what does splitting, joining and streaming in order cost?

    documents.py [--model examples/demo-model] [--sentences 600] [--documents 4] [--rounds 5] [-- --dtype int8]

Writes documents of sentences of its own (paragraphs, indented lists, blank lines), and a file with each sentence on a line.
In turns, `tandem translate` computes the documents with --split sentences, and `tandem generate --lines` the lines. Both load
the model; the time of a run with one short text is taken off. Prints the median of each, and their ratio. Checks that every
document keeps its lines, its indentation and one answer for each sentence. What stands behind "--" goes to both commands.
"""
import argparse, pathlib, random, statistics, subprocess, sys, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parents[1]
WORDS = ("tool library package server file network image sound program system language text user data module window "
         "driver archive font game editor parser index cache format").split()


def sentence(chance):
    words = [chance.choice(WORDS) for _ in range(chance.randint(6, 14))]
    return "The " + " ".join(words) + chance.choice(". ! ?".split())


def document(chance, count):
    """(text, sentences)"""
    lines, all_of_it = [], []
    while len(all_of_it) < count:
        paragraph = [sentence(chance) for _ in range(chance.randint(1, 6))][:count - len(all_of_it)]
        all_of_it += paragraph
        lines += ["  " * chance.randint(0, 2) + " ".join(paragraph), *[""] * chance.randint(0, 1)]
    return "\n".join(lines) + "\n", all_of_it


def run(command):
    begun = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"documents: {' '.join(map(str, command))}: {done.stderr[-2000:]}")
    return time.monotonic() - begun, done.stdout


def layout(text):
    return [line[:len(line) - len(line.lstrip())] for line in text.splitlines()]


def main():
    argv = sys.argv[1:]
    own, more = (argv[:argv.index("--")], argv[argv.index("--") + 1:]) if "--" in argv else (argv, [])
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", default=ROOT / "examples/demo-model")
    p.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/bin")
    p.add_argument("--sentences", type=int, default=600, help="of a document (30 pages)")
    p.add_argument("--documents", type=int, default=4)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args(own)
    chance = random.Random(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        texts = [document(chance, args.sentences) for _ in range(args.documents)]
        for i, (text, _) in enumerate(texts):
            (folder / f"{i}.txt").write_text(text)
        (folder / "lines").write_text("".join(s + "\n" for _, sentences in texts for s in sentences))
        tandem, common = args.bin / "tandem", ["--no-enable-encoder-cache", "--max-new-tokens", "16", *more]
        whole = [tandem, "translate", args.model, *(folder / f"{i}.txt" for i in range(len(texts))), "--split", "sentences",
                 "--output-dir", folder / "out", *common]
        lines = [tandem, "generate", args.model, "--lines", "--input", folder / "lines", *common]
        start = [tandem, "generate", args.model, "One text.", *common]
        seconds = {"documents": [], "lines": [], "start": []}
        for _ in range(args.rounds):
            for name, command in (("documents", whole), ("lines", lines), ("start", start)):
                seconds[name].append(run(command)[0])
        for i, (text, _) in enumerate(texts):
            if layout((folder / "out" / f"{i}.txt").read_text()) != layout(text):
                sys.exit(f"documents: document {i} has lost its layout")
        of = {name: statistics.median(values) for name, values in seconds.items()}
        count = sum(len(sentences) for _, sentences in texts)
        rates = {name: count / (of[name] - of["start"]) for name in ("documents", "lines")}
        print(f"{args.documents} documents of {args.sentences} sentences, medians of {args.rounds} rounds: documents "
              f"{rates['documents']:.0f} sentences/s, lines {rates['lines']:.0f}; ratio {rates['documents'] / rates['lines']:.2f}")


if __name__ == "__main__":
    main()
