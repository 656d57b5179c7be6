#!/usr/bin/env python3
"""Random answers to chunks of sound, and what HuggingFace's pipeline makes of them: tests/data/speech/chunks.json.

  make_chunk_cases.py TOKENIZER_DIR > tests/data/speech/chunks.json

A case: seconds and tokens of chunks that share their ends (with faults), and the texts of _decode_asr(). The tokenizer is
that of tests/data/goldens/whisper-tiny-rand. Needs torch and transformers 5.23.
"""
import json
import random
import sys

import torch
import transformers

transformers.logging.set_verbosity_error()
SPECIAL, LANGUAGES, ZERO = range(500, 607), range(502, 601), 607


def chunk(rng, stream, at, length, times, odd):
    """About three tokens a second of the stream from `at` on; times among them if wanted."""
    out, begin = [], int(at * 3)
    tokens = stream[begin : begin + int(length * 3)]
    cut = sorted(rng.sample(range(len(tokens) + 1), min(rng.randrange(1, 5), len(tokens)))) if times else []
    for i, token in enumerate(tokens):
        if i in cut:
            now = min(int(i / 3 / 0.02), 1500)
            out += [ZERO + now] * rng.choice([1, 2, 2, 2]) if out else [ZERO + now]
        if rng.random() < 0.05:
            continue
        out.append(rng.randrange(500) if rng.random() < 0.05 else token)
        if odd and rng.random() < 0.03:
            out.append(rng.choice([rng.choice(LANGUAGES), rng.choice(SPECIAL), ZERO + rng.randrange(1501)]))
    if times and rng.random() < 0.7:
        out.append(ZERO + min(int(length / 0.02), 1500))
    return out


def main():
    tokenizer = transformers.AutoTokenizer.from_pretrained(sys.argv[1])
    rng, cases = random.Random(18), []
    for i in range(24):
        length, count = rng.choice([5.0, 8.0, 12.0]), rng.randrange(1, 5)
        left, right = rng.choice([(0.0, 0.0), (1.0, 1.0), (2.0, 0.5), (length / 6, length / 6)])
        times, odd = i % 2 == 1, i >= 16
        stream = [rng.randrange(500) for _ in range(400)]
        chunks, outputs, at = [], [], 0.0
        for k in range(count):
            last = k + 1 == count
            own = rng.uniform(left + 0.1, length) if last else length
            tokens = chunk(rng, stream, at, own, times, odd)
            if odd and rng.random() < 0.15:
                tokens = []
            stride = (own, left if k else 0.0, 0.0 if last else right)
            chunks.append({"stride": stride, "tokens": tokens})
            outputs.append({"stride": stride, "tokens": torch.tensor([tokens], dtype=torch.long)})
            at += length - left - right
        text, more = tokenizer._decode_asr(outputs, return_timestamps=times, return_language=False, time_precision=0.02)
        cases.append({"times": times, "chunks": chunks, "text": text,
                      "texts": [[c["text"], *c["timestamp"]] for c in more.get("chunks", [])]})
    print("[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "\n]")


if __name__ == "__main__":
    main()
