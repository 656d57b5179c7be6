#!/usr/bin/env python3
"""Documents against the same sentences as lines: what does splitting, joining and keeping markup cost?

    documents.py [--model examples/demo-model] [--sentences 600] [--documents 2] [--rounds 5] [-- --dtype int8]

Writes documents of sentences of its own: plain text (paragraphs, indented lists, blank lines) and, every second one, HTML
(headings, paragraphs, lists, a table; one sentence in ten has a word in bold), and a file with each sentence on a line. In turns,
`tandem translate` computes the documents, `tandem summarize` sums them up, and `tandem generate --lines` computes the lines. All
load the model; the time of a run with one short text is taken off. Prints the best rates and their ratios to the lines.

Checks that each document keeps its lines, indentation and tags, and that it has the answer of each sentence once, in order: the
answers of the lines, to the letter. What stands behind "--" goes to all commands.
"""
import argparse, html, pathlib, random, re, resource, subprocess, sys, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parents[1]
WORDS = ("tool library package server file network image sound program system language text user data module window "
         "driver archive font game editor parser index cache format").split()


def sentence(chance):
    words = [chance.choice(WORDS) for _ in range(chance.randint(6, 14))]
    return "The " + " ".join(words) + chance.choice(". ! ?".split())


def paragraphs(chance, count):
    """Lists of sentences."""
    out = []
    while count > 0:
        out.append([sentence(chance) for _ in range(min(count, chance.randint(1, 6)))])
        count -= len(out[-1])
    return out


def plain_text(chance, parts):
    lines = []
    for part in parts:
        lines += ["  " * chance.randint(0, 2) + " ".join(part), *[""] * chance.randint(0, 1)]
    return "\n".join(lines) + "\n"


def with_bold(chance, text):
    words = text.split()
    if chance.random() < 0.1:
        at = chance.randrange(1, len(words))
        words[at] = f"<b>{words[at]}</b>"
    return " ".join(words)


def web_page(chance, parts):
    lines = ["<!DOCTYPE html>", '<html lang="en">', "<head>", "<style>p { color: red }</style>", "</head>", "<body>"]
    for part in parts:
        text = " ".join(with_bold(chance, s) for s in part)
        kind = chance.choice(["p", "p", "p", "h2", "li", "td"])
        before, after = {"li": ("<ul>\n", "\n</ul>"), "td": ("<table><tr>", "</tr></table>")}.get(kind, ("", ""))
        lines.append(f'{before}<{kind} class="c{chance.randint(1, 9)}">{text}</{kind}>{after}')
    return "\n".join([*lines, "</body>", "</html>"]) + "\n"


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(command):
    """((seconds, seconds of processors), what it printed)"""
    begun, used = time.monotonic(), cpu_seconds()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"documents: {' '.join(map(str, command))}: status {done.returncode}: {done.stderr[-2000:]}")
    return (time.monotonic() - begun, cpu_seconds() - used), done.stdout


def layout(text, is_page):
    """All but the words."""
    if is_page:
        return re.findall(r"<[^>]*>", text)
    return [line[:len(line) - len(line.lstrip())] for line in text.splitlines()]


def blocks(text, is_page):
    """The text of each paragraph."""
    if not is_page:
        return [line.strip() for line in text.splitlines() if line.strip()]
    text = re.sub(r"</?b>", "", re.sub(r"<style>.*?</style>", "", text))
    return [html.unescape(block).strip() for block in re.split(r"<[^>]*>", text) if block.strip()]


def check(number, source, result, answers):
    """answers: of each paragraph's sentences."""
    is_page = source.startswith("<!")
    if layout(result, is_page) != layout(source, is_page):
        sys.exit(f"documents: document {number} has lost its layout")
    found, expected = blocks(result, is_page), [" ".join(part) for part in answers]
    if found != expected:
        at = next((i for i, (a, b) in enumerate(zip(found, expected)) if a != b), min(len(found), len(expected)))
        sys.exit(f"documents: document {number}, paragraph {at} of {len(expected)}:\n  {found[at:at + 1]}\nis not\n  {expected[at:at + 1]}")


def main():
    argv = sys.argv[1:]
    own, more = (argv[:argv.index("--")], argv[argv.index("--") + 1:]) if "--" in argv else (argv, [])
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", default=ROOT / "examples/demo-model")
    p.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/bin")
    p.add_argument("--sentences", type=int, default=600, help="of a document (30 pages)")
    p.add_argument("--documents", type=int, default=2)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args(own)
    chance = random.Random(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        sources = []
        for i in range(args.documents):
            parts = paragraphs(chance, args.sentences)
            sources.append((parts, web_page(chance, parts) if i % 2 else plain_text(chance, parts)))
            (folder / f"{i}.{'html' if i % 2 else 'txt'}").write_text(sources[-1][1])
        (folder / "lines").write_text("".join(s + "\n" for parts, _ in sources for part in parts for s in part))
        files = [folder / f"{i}.{'html' if i % 2 else 'txt'}" for i in range(args.documents)]
        tandem, common = args.bin / "tandem", ["--no-enable-encoder-cache", "--no-enable-prefix-caching", "--max-new-tokens", "16", *more]
        commands = {
            "documents": [tandem, "translate", args.model, *files, "--split", "sentences", "--output-dir", folder / "out", *common],
            "lines": [tandem, "generate", args.model, "--lines", "--input", folder / "lines", *common],
            "summaries": [tandem, "summarize", args.model, *files, "--output-dir", folder / "sums", *common],
            "start": [tandem, "generate", args.model, "One text.", *common]}
        seconds, printed = {name: [] for name in commands}, {}
        for _ in range(args.rounds):
            for name, command in commands.items():
                time_taken, printed[name] = run(command)
                seconds[name].append(time_taken)
        answers = iter(printed["lines"].splitlines())
        for i, (parts, source) in enumerate(sources):
            result = (folder / "out" / f"{i}.translated{files[i].suffix}").read_text()
            check(i, source, result, [[next(answers).strip() for _ in part] for part in parts])
        for file in (folder / "sums").iterdir():
            if not file.read_text().strip():
                sys.exit(f"documents: {file.name} is empty")
        count = args.documents * args.sentences
        print(f"{args.documents} documents of {args.sentences} sentences, the best of {args.rounds} rounds")
        for place, what in enumerate(("of time", "of processor time, for a machine with other work")):
            of = {name: min(value[place] for value in values) for name, values in seconds.items()}
            rates = {name: count / (of[name] - of["start"]) for name in ("documents", "lines", "summaries")}
            print(f"sentences a second {what}: lines {rates['lines']:.0f}, documents {rates['documents']:.0f} (ratio "
                  f"{rates['documents'] / rates['lines']:.2f}), summaries {rates['summaries']:.0f} (ratio "
                  f"{rates['summaries'] / rates['lines']:.2f})")


if __name__ == "__main__":
    main()
