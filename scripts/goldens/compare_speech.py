#!/usr/bin/env python3
"""Transcribes synthetic sounds with HuggingFace and with `tandem generate --jsonl`, and compares them.

  compare_speech.py --model DIR --tandem PROGRAM [--seconds 12,40,75]

Temperature fallback (with beams, silence, text before), one by one; chunked long form against the pipeline, with and
without times. Sampling is of the most likely token only (top_k 1), so that every token can be compared. Thresholds lie
in the middle of what the model's windows have: some are good enough, some are not. Exit status 1 if anything differs.
Needs torch, transformers 5.23 and numpy.
"""
import argparse
import functools
import json
import pathlib
import subprocess
import sys
import tempfile
import wave

import numpy as np
import torch
import transformers
from transformers import AutoFeatureExtractor, AutoTokenizer, WhisperForConditionalGeneration, pipeline

RATE = 16000
transformers.logging.set_verbosity_error()


def sound(seconds, seed):
    """Tones that change a few times a second, noise, and silence now and then."""
    rng = np.random.default_rng(seed)
    parts = []
    while sum(map(len, parts)) < seconds * RATE:
        t = np.arange(int(rng.uniform(0.1, 1.2) * RATE)) / RATE
        kind = rng.integers(4)
        part = sum(np.sin(2 * np.pi * f * t) for f in rng.uniform(80, 4000, size=kind + 1)) / (kind + 2)
        if kind == 0:
            part = rng.normal(size=len(t)) * rng.uniform(0, 0.2)
        if rng.random() < 0.25:
            part = part * 0
        parts.append(part * rng.uniform(0.1, 0.6))
    return (np.concatenate(parts)[: int(seconds * RATE)] * 32767).astype("<i2")


def write(path, samples):
    with wave.open(str(path), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(RATE)
        out.writeframes(samples.tobytes())


class HuggingFace:
    def __init__(self, folder):
        self.model = WhisperForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
        self.extractor = AutoFeatureExtractor.from_pretrained(folder)
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.pipe = pipeline("automatic-speech-recognition", model=self.model, tokenizer=self.tokenizer,
                             feature_extractor=self.extractor)

    def generate(self, samples, params):
        """Segments, and of each attempt: (temperature, compression ratio, log-probability, silence)."""
        params = dict(params)
        attempts = []
        inner = self.model._need_fallback

        def spy(tokens, outputs, index, processors, config, vocab_size, temperature):
            silence = None
            for p in processors or []:
                if type(p).__name__ == "WhisperNoSpeechDetection":
                    silence = float(p.no_speech_prob[index])
            logprob = None
            if isinstance(outputs[index], dict) and "scores" in outputs[index]:
                logprob = float(self.model._retrieve_avg_logprobs(outputs[index]["scores"], tokens,
                                                                        temperature or 0.0))
            attempts.append((temperature, self.model._retrieve_compression_ratio(tokens, vocab_size), logprob, silence))
            return inner(tokens, outputs, index, processors, config, vocab_size, temperature)

        self.model._need_fallback = spy
        audio = samples.astype(np.float32) / 32768
        long = len(audio) > 30 * RATE
        features = self.extractor(audio, sampling_rate=RATE, return_tensors="pt", return_attention_mask=True,
                                  **({"truncation": False, "padding": "longest"} if long else {}))
        try:
            with torch.no_grad():
                out = self.model.generate(features.input_features, return_segments=True, **params)
        finally:
            del self.model._need_fallback
        return [{k: s[k] for k in ("start", "end", "tokens")} for s in out["segments"][0]], attempts

    def chunks(self, samples, params, lengths):
        params = dict(params)
        times = params.pop("return_timestamps", False)
        with torch.no_grad():
            return self.pipe({"raw": samples.astype(np.float32) / 32768, "sampling_rate": RATE},
                             return_timestamps=times, generate_kwargs=params, **lengths)


def middle(values):
    values = sorted(values)
    at = len(values) // 2
    return (values[at - 1] + values[at]) / 2 if len(values) > 1 else values[0] + 0.01


def cases_of(hf, samples):
    base = {"language": "en", "task": "transcribe", "return_timestamps": True}
    measured = {**base, "temperature": [0.0], "logprob_threshold": -1e9, "no_speech_threshold": 2.0}
    _, seen = hf.generate(samples, measured)
    ratio, logprob, silence = (middle([a[i] for a in seen]) for i in (1, 2, 3))
    low = {"temperature": [0.0, 0.2, 0.6], "top_k": 1}
    yield "plain", base
    yield "measured", measured
    yield "ratio", {**base, **low, "compression_ratio_threshold": ratio}
    yield "logprob", {**base, **low, "logprob_threshold": logprob}
    yield "both", {**base, **low, "compression_ratio_threshold": ratio, "logprob_threshold": logprob}
    yield "beams", {**base, **low, "num_beams": 3, "compression_ratio_threshold": ratio, "logprob_threshold": logprob}
    yield "never good", {**base, **low, "num_beams": 2, "compression_ratio_threshold": 0.01}
    yield "silence", {**measured, "logprob_threshold": 0.0, "no_speech_threshold": silence}
    yield "all", {**base, **low, "compression_ratio_threshold": ratio, "logprob_threshold": logprob,
                  "no_speech_threshold": silence}
    yield "text before", {**base, **low, "condition_on_prev_tokens": True, "compression_ratio_threshold": ratio,
                          "logprob_threshold": logprob, "no_speech_threshold": silence}
    yield "one temperature", {**base, "temperature": 0.7, "top_k": 1}
    yield "almost greedy", {**base, "temperature": [0.0, 1e-3], "logprob_threshold": logprob}


class Tandem:
    """All requests in one run."""

    def __init__(self, program, folder):
        self.program, self.folder, self.lines, self.checks = program, folder, [], []

    def add(self, path, params, check):
        self.lines.append({"prompt": {"prompt": "", "multi_modal_data": {"audio": str(path)}}, "params": params})
        self.checks.append(check)

    def run(self):
        text = "".join(json.dumps(line) + "\n" for line in self.lines)
        out = subprocess.run([self.program, "generate", "--model", self.folder, "--dtype", "float32", "--jsonl"],
                             input=text, capture_output=True, text=True)
        answers = [json.loads(line) for line in out.stdout.splitlines()]
        if len(answers) != len(self.checks):
            sys.exit(f"{len(answers)} answers to {len(self.checks)} requests\n{out.stderr}")
        return sum(not check(answer) for check, answer in zip(self.checks, answers))


def same(name, what, want, got):
    if want == got:
        return True
    print(f"{name}: {what}: HuggingFace\n  {want}\nTandem\n  {got}")
    return False


def near(a, b):
    return (a is None or b is None) or abs(a - b) < 2e-4 + 2e-4 * abs(a)


def compare_segments(name, segments, attempts, answer):
    if "error" in answer:
        return same(name, "error", None, answer["error"])
    got = answer["outputs"][0].get("segments", [])
    ok = same(name, "tokens", [s["tokens"].tolist() for s in segments], [s["tokens"] for s in got])
    ok = ok and same(name, "times", [(round(float(s["start"]), 3), round(float(s["end"]), 3)) for s in segments],
                     [(round(s["start"], 3), round(s["end"], 3)) for s in got])
    # Each window's numbers are those of one of HuggingFace's attempts.
    for s in got if ok else []:
        mine = (s["temperature"], s["compression_ratio"], s.get("avg_logprob"), s.get("no_speech_prob"))
        if not any(abs((a[0] or 0) - mine[0]) < 1e-9 and all(near(x, y) for x, y in zip(a[1:], mine[1:]))
                   for a in attempts):
            ok = same(name, "numbers", attempts, mine)
    return ok


def compare_chunks(name, want, answer):
    if "error" in answer:
        return same(name, "error", None, answer["error"])
    got = answer["outputs"][0]
    ok = same(name, "text", want["text"], got["text"])
    if "chunks" in want:
        # A text without an end lasts to the sound's.
        mine = [(s["text"], s["start"], s["end"]) for s in got.get("segments", [])]
        hf = [(c["text"], *(m if t is None else t for t, m in zip(c["timestamp"], n[1:])))
              for c, n in zip(want["chunks"], mine)] if len(mine) == len(want["chunks"]) else want["chunks"]
        ok = same(name, "texts", hf, mine) and ok
    return ok


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--tandem", required=True)
    parser.add_argument("--seconds", default="12,40,75")
    options = parser.parse_args()
    torch.manual_seed(0)
    hf, tandem = HuggingFace(options.model), Tandem(options.tandem, options.model)
    attempts_by = {}
    with tempfile.TemporaryDirectory() as folder:
        for seed, seconds in enumerate(map(float, options.seconds.split(","))):
            samples, path = sound(seconds, seed), pathlib.Path(folder) / f"{seed}.wav"
            write(path, samples)
            for name, params in cases_of(hf, samples):
                segments, attempts = hf.generate(samples, params)
                attempts_by[f"{seconds:g} s, {name}"] = [a[0] for a in attempts]
                tandem.add(path, params, functools.partial(compare_segments, f"{seconds:g} s, {name}", segments, attempts))
            for lengths in ({"chunk_length_s": 30}, {"chunk_length_s": 10, "stride_length_s": [4, 2]},
                            {"chunk_length_s": 20, "stride_length_s": 0}, {"chunk_length_s": 7.5}):
                for times in (False, True):
                    for language in ({"language": "en", "task": "transcribe"}, {}):
                        # (5 beams are the pipeline's own default.)
                        params = {"return_timestamps": times, "num_beams": 5, **language}
                        want = hf.chunks(samples, params, lengths)
                        name = f"{seconds:g} s, {lengths}, {params}"
                        tandem.add(path, {**params, **lengths}, functools.partial(compare_chunks, name, want))
        for name, temperatures in attempts_by.items():
            print(name, temperatures)
        wrong = tandem.run()
    print(f"{len(tandem.checks) - wrong} of {len(tandem.checks)} alike")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
