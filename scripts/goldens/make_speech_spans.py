#!/usr/bin/env python3
"""Writes tests/data/speech/spans.json: where faster-whisper finds speech, by random probabilities.

  pip install faster-whisper
  scripts/goldens/make_speech_spans.py

Each case has faster-whisper's VadOptions, the number of samples, probabilities of windows of 512 samples (a letter each:
a is 0, k is 1), and the spans that get_speech_timestamps() returns for them.
"""
import json
import pathlib
import random

import faster_whisper
from faster_whisper import vad
import numpy as np

WINDOW = 512
OUT = pathlib.Path(__file__).resolve().parent.parent.parent / "tests/data/speech/spans.json"


def letters_of(rng):
    """Runs of speech and silence of all lengths, with what lies between."""
    out, count = [], rng.choice([1, 20, 200, 600])
    while len(out) < count:
        level = rng.choice(["ab", "abcde", "efg", "hijk", "jk", "abcdefghijk"])
        out += [rng.choice(level) for _ in range(rng.choice([1, 2, 3, 5, 10, 40, 100]))]
    return "".join(out)


def options_of(rng):
    out = {}
    if rng.random() < 0.3:
        out["threshold"] = rng.choice([0.1, 0.25, 0.7])
    if rng.random() < 0.3:
        out["neg_threshold"] = rng.choice([0.05, 0.3, 0.6])
    if rng.random() < 0.5:
        out["min_silence_duration_ms"] = rng.choice([0, 50, 100, 333, 500])
    if rng.random() < 0.4:
        out["speech_pad_ms"] = rng.choice([0, 17, 30, 100, 1000])
    if rng.random() < 0.4:
        out["min_speech_duration_ms"] = rng.choice([32, 100, 250, 1000])
    if rng.random() < 0.4:
        out["max_speech_duration_s"] = rng.choice([1, 1.5, 3, 5])
    return out


def main():
    rng = random.Random(7)
    cases = []
    for _ in range(100):
        letters, options = letters_of(rng), options_of(rng)
        # The model gets whole windows, and one more if there are no others.
        samples = len(letters) * WINDOW - rng.choice([1, 7, 300, WINDOW])
        probabilities = [(ord(x) - ord("a")) / 10 for x in letters]
        vad.get_vad_model = lambda: lambda audio: np.array(probabilities, dtype=np.float32)
        spans = vad.get_speech_timestamps(np.zeros(samples, dtype=np.float32), vad.VadOptions(**options))
        cases.append({"options": options, "samples": samples, "probabilities": letters,
                      "spans": [[int(x["start"]), int(x["end"])] for x in spans]})
    text = ",\n".join(json.dumps(x, separators=(",", ":")) for x in cases)
    OUT.write_text(f'{{"faster_whisper": "{faster_whisper.__version__}", "cases": [\n{text}\n]}}\n')
    print(f"{len(cases)} cases, {sum(len(x['spans']) for x in cases)} spans: {OUT}")


if __name__ == "__main__":
    main()
