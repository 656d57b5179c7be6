#!/usr/bin/env python3
"""Word error rates of a real Whisper: Tandem in its types, faster-whisper and HuggingFace, on the same sounds.

  python3 benchmarks/speech_accuracy.py --venv /tmp/speech-venv --install [--minutes 2] [--engines "tandem int8,…"] [--out results.md]

The weights and the recordings come from scripts/real_models/fetch. Beside them espeak-ng says sentences in five voices, with
noise (--minutes in all, --noise dB below the voice; the seed is printed). Errors are counted by jiwer, after HuggingFace's
normaliser of English. All decode greedily, window after window, without thresholds. float32's texts must be HuggingFace's:
else the exit status is 1. Exit status 77: PyPI is not reached, or there is no espeak-ng.
"""
import argparse
import array
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks/support"))
from waves import RATE, read_wave, write_wave  # noqa: E402

PEERS = ["faster-whisper==1.2.1", "jiwer", "torch", "transformers>=5.23,<6"]
VOICES = ["en-gb", "en-us", "en-gb-scotland", "en-us+f3", "en-gb-x-rp+m4"]
WORDS = {
    "who": ["the captain", "an old teacher", "my neighbour", "the whole orchestra", "a young engineer", "nobody", "the committee"],
    "does": ["opened", "forgot", "described", "repaired", "carried", "counted", "followed", "sold"],
    "what": ["a wooden box", "the northern road", "seven letters", "the broken engine", "a history of music", "their last winter",
             "the river boats"],
    "when": ["before breakfast", "in the middle of the night", "after a long meeting", "on the first of March",
             "while it was raining", "for the third time this year"],
    "why": ["because the bridge was closed", "although nobody had asked", "and then went home", "so that the children could sleep",
            "but the answer never came"],
}


def sentence(rng):
    text = " ".join(rng.choice(WORDS[part]) for part in WORDS)
    return text[0].upper() + text[1:] + "."


def with_noise(samples, decibels, rng):
    power = (sum(x * x for x in samples) / len(samples)) ** 0.5
    scale = power * 10 ** (-decibels / 20)
    return array.array("h", (max(-32768, min(32767, round(x + rng.gauss(0, scale)))) for x in samples))


def speak(folder, minutes, decibels, seed):
    """[(file, what is said)]: one for each voice."""
    rng, out = random.Random(seed), []
    for number, voice in enumerate(VOICES):
        samples, texts = array.array("h"), []
        while len(samples) < minutes * 60 * RATE / len(VOICES):
            texts.append(sentence(rng))
            path = folder / "sentence.wav"
            subprocess.run(["espeak-ng", "-v", voice, "-s", "150", "-w", path, texts[-1]], check=True)
            samples += read_wave(path) + array.array("h", bytes(2 * RATE // 2))
        path = folder / f"voice-{number}.wav"
        write_wave(path, with_noise(samples, decibels, rng))
        out.append((path, " ".join(texts)))
    return out


def sounds_of(args, real):
    """[(set, file, what is said)]."""
    folder = real / "spoken"
    folder.mkdir(exist_ok=True)
    out = [("recordings", real / "recordings" / name, text)
           for name, text in json.loads((real / "transcripts.json").read_text()).items()]
    return out + [("espeak-ng", path, text) for path, text in speak(folder, args.minutes, args.noise, args.seed)]


def of_tandem(args, real, dtype, files):
    command = [args.tandem, "transcribe", real / "whisper-tiny.en", "--dtype", dtype, "--threads", str(args.threads), "--timestamps",
               "--format", "verbose_json", "--log-level", "error", *files]
    out = subprocess.run([str(x) for x in command], check=True, stdout=subprocess.PIPE, text=True).stdout
    return [json.loads(line)["text"] for line in out.splitlines()]


WORKER = '''
import json, sys, wave
import numpy as np
kind, dtype, real, threads, files = json.load(sys.stdin)
def samples(path):
    import subprocess
    raw = subprocess.run(["ffmpeg", "-v", "error", "-i", path, "-ar", "16000", "-ac", "1", "-f", "s16le", "-"], check=True,
                         stdout=subprocess.PIPE).stdout
    return np.frombuffer(raw, dtype=np.int16).astype(np.float32) / 32768
out = []
if kind == "faster-whisper":
    from faster_whisper import WhisperModel
    model = WhisperModel(real + "/ctranslate2", device="cpu", compute_type=dtype, cpu_threads=threads)
    for path in files:
        segments, _ = model.transcribe(samples(path), language="en", beam_size=1, temperature=0, condition_on_previous_text=False,
                                       compression_ratio_threshold=None, log_prob_threshold=None, no_speech_threshold=None)
        out.append("".join(segment.text for segment in segments))
else:
    import torch
    from transformers import WhisperFeatureExtractor, WhisperForConditionalGeneration
    from tokenizers import Tokenizer
    torch.set_num_threads(threads)
    model = WhisperForConditionalGeneration.from_pretrained(real + "/whisper-tiny.en", dtype=getattr(torch, dtype)).eval()
    extract = WhisperFeatureExtractor.from_pretrained(real + "/whisper-tiny.en")
    tokenizer = Tokenizer.from_file(real + "/whisper-tiny.en/tokenizer.json")
    for path in files:
        sound = samples(path)
        long = len(sound) > 480000
        features = extract(sound, sampling_rate=16000, return_tensors="pt", return_attention_mask=True, truncation=False,
                           padding="longest" if long else "max_length")
        with torch.no_grad():
            ids = model.generate(features.input_features.to(model.dtype), attention_mask=features.attention_mask, return_timestamps=True,
                                 do_sample=False, num_beams=1, condition_on_prev_tokens=False)[0].tolist()
        out.append(tokenizer.decode([i for i in ids if i < 50256]))
print(json.dumps(out))
'''
SCORER = '''
import json, sys, jiwer
from transformers.models.whisper.english_normalizer import EnglishTextNormalizer
normal = EnglishTextNormalizer({})
out = []
for pairs in json.load(sys.stdin):
    wanted, got = ([normal(pair[i]) for pair in pairs] for i in (0, 1))
    spoken = [(w, g) for w, g in zip(wanted, got) if w]
    made_up = sum(len(g.split()) for w, g in zip(wanted, got) if not w)
    found = jiwer.process_words([w for w, _ in spoken], [g for _, g in spoken])
    errors = found.substitutions + found.deletions + found.insertions
    out.append([errors, found.hits + found.substitutions + found.deletions, made_up])
print(json.dumps(out))
'''


def in_venv(args, program, data):
    done = subprocess.run([args.venv / "bin/python", "-c", program], input=json.dumps(data), stdout=subprocess.PIPE, text=True, check=True,
                          env={**os.environ, "OMP_NUM_THREADS": str(args.threads), "HF_HUB_OFFLINE": "1"})
    return json.loads(done.stdout.splitlines()[-1])


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tandem", default=ROOT / "build/bin/tandem", type=pathlib.Path)
    parser.add_argument("--venv", required=True, type=pathlib.Path)
    parser.add_argument("--install", action="store_true", help="make the environment, from PyPI (several GB)")
    parser.add_argument("--real", default=ROOT / "build/real_models", type=pathlib.Path)
    parser.add_argument("--minutes", default=2.0, type=float, help="of espeak-ng's speech in all")
    parser.add_argument("--noise", default=15.0, type=float, help="decibels below the voice")
    parser.add_argument("--seed", default=36, type=int)
    parser.add_argument("--threads", default=2, type=int)
    parser.add_argument("--engines", help="some of the table's, with commas; all unless said")
    parser.add_argument("--out", type=pathlib.Path)
    return parser.parse_args()


def prepare(args):
    """Exit status 77: something is not reached."""
    for program in ("espeak-ng", "ffmpeg"):
        if shutil.which(program) is None:
            print(f"skipped: there is no {program}")
            sys.exit(77)
    fetched = subprocess.run([ROOT / "scripts/real_models/fetch", args.real])
    if fetched.returncode != 0:
        print("skipped: PyPI is not reached" if fetched.returncode == 77 else "scripts/real_models/fetch failed")
        sys.exit(fetched.returncode)
    if args.install and not (args.venv / "bin/python").exists():
        subprocess.run([sys.executable, "-m", "venv", args.venv], check=True)
        subprocess.run([args.venv / "bin/pip", "install", "--quiet", *PEERS], check=True)


def table(rows, sounds):
    sets = list(dict.fromkeys(name for name, _, _ in sounds))
    lines = ["| | " + " | ".join(f"{name}, %" for name in sets) + " | words of beeps | s |", "|---" * (len(sets) + 3) + "|"]
    for label, scores, seconds in rows:
        cells = [f"{100 * scores[name][0] / scores[name][1]:.2f} ({scores[name][0]} of {scores[name][1]})" for name in sets]
        lines.append(f"| {label} | " + " | ".join(cells) + f" | {sum(scores[name][2] for name in sets)} | {seconds:.1f} |")
    return "\n".join(lines)


def main():
    args = parse()
    prepare(args)
    sounds = sounds_of(args, args.real)
    files = [str(path) for _, path, _ in sounds]
    length = sum(len(read_wave(path)) for path in files) / RATE
    engines = [(f"tandem {dtype}", lambda dtype=dtype: of_tandem(args, args.real, dtype, files))
               for dtype in ("float32", "bfloat16", "int8", "int4")]
    for kind, dtypes in (("faster-whisper", ("float32", "int8")), ("huggingface", ("float32", "bfloat16"))):
        engines += [(f"{kind} {dtype}", lambda kind=kind, dtype=dtype: in_venv(
            args, WORKER, [kind, dtype, str(args.real), args.threads, files])) for dtype in dtypes]
    wanted = args.engines.split(",") if args.engines else [label for label, _ in engines]
    if unknown := set(wanted) - {label for label, _ in engines}:
        sys.exit(f"--engines: there is no {', '.join(unknown)}: {', '.join(label for label, _ in engines)}")
    rows, texts = [], {}
    for label, run in engines:
        if label not in wanted:
            continue
        start = time.monotonic()
        texts[label] = run()
        seconds = time.monotonic() - start
        sets = list(dict.fromkeys(name for name, _, _ in sounds))
        pairs = [[(text, got) for (name, _, text), got in zip(sounds, texts[label]) if name == one] for one in sets]
        rows.append((label, dict(zip(sets, in_venv(args, SCORER, pairs))), seconds))
        print(label, rows[-1][1], f"{seconds:.1f} s", file=sys.stderr)
    text = f"{len(files)} sounds, {length / 60:.1f} minutes, noise {args.noise:g} dB below the voice, seed {args.seed}\n\n{table(rows, sounds)}\n"
    if args.out:
        args.out.write_text(text)
    print(text)
    if not {"tandem float32", "huggingface float32"} <= texts.keys():
        return 0
    different = [files[i] for i, (a, b) in enumerate(zip(texts["tandem float32"], texts["huggingface float32"]))
                 if a.strip() != b.strip()]
    for file in different:
        print(f"{file}: float32 differs from HuggingFace's")
    print(f"{len(files) - len(different)} of {len(files)} texts in float32 are HuggingFace's")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
