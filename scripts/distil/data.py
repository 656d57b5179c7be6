"""What the teacher says of the texts, and batches of that. Without PyTorch."""
import json, subprocess, sys, time


def fail(message):
    sys.exit(f"distil_draft: {message}")


class Progress:
    """A line on a terminal that is written again; elsewhere a line every 10 %."""

    def __init__(self, what):
        self.what, self.begun, self.next, self.live = what, time.monotonic(), 0, sys.stderr.isatty()
        self.said = 0

    def show(self, share, note=""):
        now = time.monotonic()
        if now < self.next and share < 1 if self.live else share < self.said:
            return
        self.next, self.said = now + 0.2, share + 0.1
        line = f"{self.what} {share:4.0%}  {now - self.begun:5.0f} s  {note}"
        print(f"\r{line:<79}" if self.live else line, end="" if self.live else "\n", file=sys.stderr, flush=True)

    def end(self):
        if self.live:
            print(file=sys.stderr)


def read_sources(path):
    """The texts, a line each; each once, in order."""
    with open(path, encoding="utf-8") as file:
        return list(dict.fromkeys(line.strip() for line in file if line.strip()))


def run_teacher(args, texts, out):
    """Writes {"source", "prompt", "output"}, token ids, for each text that the teacher takes: a line each."""
    params = {**json.loads(args.params), "num_beams": 1, "do_sample": False, "truncate_prompt_tokens": -1}
    command = [args.tandem, "generate", "--model", args.teacher, "--jsonl", "--input", "-", "--threads", str(args.threads),
               "--log-level", "warning"]
    requests = out.with_name(out.name + ".requests")
    with requests.open("w", encoding="utf-8") as file:
        for text in texts:
            file.write(json.dumps({"prompt": text, "params": params}) + "\n")
    progress, refused = Progress("the teacher's tokens"), []
    partial = out.with_name(out.name + ".partial")
    with requests.open("rb") as source, partial.open("w", encoding="utf-8") as kept:
        process = subprocess.Popen(command, stdin=source, stdout=subprocess.PIPE, text=True)
        n = 0
        for n, line in enumerate(process.stdout, 1):
            result = json.loads(line)
            if "error" in result:
                refused.append(result["error"]["message"])
            else:
                row = {"source": result["encoder_prompt_token_ids"], "prompt": result["prompt_token_ids"],
                       "output": result["outputs"][0]["token_ids"]}
                kept.write(json.dumps(row) + "\n")
            progress.show(n / len(texts))
        process.wait()
    progress.end()
    requests.unlink()
    if n != len(texts) or process.returncode != 0 and not refused:
        fail(f"{args.tandem} failed")
    if refused:
        print(f"{len(refused)} texts were refused, the first because: {refused[0]}", file=sys.stderr)
    partial.rename(out)


def read_outputs(path):
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return [row for row in rows if row["output"] and row["prompt"]]


def tokens_per_step(hits, drafts):
    """Of lists of flags, a sequence each: whether the draft's token was the teacher's. A step makes `drafts` drafts."""
    steps = tokens = 0
    for sequence in hits:
        at = 0
        while at < len(sequence):
            right = 0
            while right < drafts and at + right < len(sequence) and sequence[at + right]:
                right += 1
            at += right + 1
            steps += 1
        tokens += len(sequence)
    return tokens / max(1, steps)


def batches_of(rows, indices, size, order=None):
    """Lists of indices of rows of about the same length, of at most `size` padded tokens of the decoder's each, and 8 times
    as many of the encoder's. order: a random.Random, for others each time."""
    blur = {i: order.uniform(0.8, 1.25) if order else 1 for i in indices}
    out, batch = [], []
    wide = long = 0
    for i in sorted(indices, key=lambda i: (len(rows[i]["output"]) // 2, len(rows[i]["source"]) * blur[i])):
        source, target = len(rows[i]["source"]), len(rows[i]["prompt"]) + len(rows[i]["output"])
        n = len(batch) + 1
        if batch and (n * max(wide, source) > 8 * size or n * max(long, target) > size):
            out.append(batch)
            batch, wide, long = [], 0, 0
        batch.append(i)
        wide, long = max(wide, source), max(long, target)
    return out + [batch] if batch else out
