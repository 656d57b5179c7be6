#!/usr/bin/env python3
"""Writes tests/data/speech/windows.json: what faster-whisper asks a model for, window by window, and where it skips silence.

  pip install faster-whisper
  scripts/goldens/make_speech_windows.py

Its own loops run on a model that says random texts. A case of `runs` has the request, the sound's frames (10 ms), the answers
of the search for the language, and windows: first frame, frames, language that was found there, prompt (ids of
tests/data/goldens/whisper-tiny-rand), tokens said behind it, next window's first frame; then segments: start, end, ids of
texts. A case of `silences` is a window with times of words: its place, where the last word before it ended, the threshold,
words (text, tokens, start and end in seconds of the window, probability), segments (start, end, tokens of text), and what
became of them: the segments with their words, how many were kept, and where the next window begins.
"""
import json
import pathlib
import random
from types import SimpleNamespace

import faster_whisper
import numpy as np
import tokenizers
from faster_whisper.tokenizer import Tokenizer
from faster_whisper.transcribe import TranscriptionOptions, WhisperModel

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
OUT = ROOT / "tests/data/speech/windows.json"
SEED = 36
WORDS = [" Hello", " there", ",", " no", ".", " what", "?", " a", " so", " well", "!", " (", ")", " then", " -", " again"]
POSITIONS = 64  # of the decoder


class Fake(WhisperModel):
    """The loops of faster-whisper; features say which frame they are."""

    def __init__(self, rng, frames):
        self.rng, self.frames = rng, frames
        self.logger = SimpleNamespace(debug=lambda *a: None, isEnabledFor=lambda level: False, info=lambda *a: None)
        self.feature_extractor = SimpleNamespace(nb_max_frames=3000, time_per_frame=0.01, hop_length=160, sampling_rate=16000)
        self.frames_per_second, self.tokens_per_second, self.input_stride = 100, 50, 2
        self.time_precision, self.max_length = 0.02, POSITIONS
        self.model = SimpleNamespace(device="cpu", device_index=[0], detect_language=self.hear_language)
        self.hf_tokenizer = tokenizers.Tokenizer.from_file(str(ROOT / "tests/data/goldens/whisper-tiny-rand/tokenizer.json"))
        self.features = np.arange(1, frames + 2, dtype="float32")[None, :].repeat(2, 0)
        self.windows, self.heard, self.searches, self.searching = [], [], [], False

    def encode(self, features):
        return features

    def hear_language(self, features):
        language, probability = self.rng.choice(["<|en|>", "<|de|>"]), round(self.rng.random(), 3)
        if self.searching:
            self.searches.append([self.hf_tokenizer.token_to_id(language), probability])
        else:
            self.language = self.hf_tokenizer.token_to_id(language)
        return [[(language, probability)]]

    def text(self):
        out = []
        for _ in range(self.rng.randint(1, 9)):
            out += self.hf_tokenizer.encode(self.rng.choice(WORDS), add_special_tokens=False).ids
        return out

    def generate_with_fallback(self, features, prompt, tokenizer, options):
        begin, heard = int(features[0, 0]) - 1, int((features[0] > 0).sum())
        start = max(i for i, token in enumerate(prompt) if 500 <= token < 607) + 1
        tokens, time = prompt[start:], 0
        said = [] if tokens or options.without_timestamps else [607]
        said += self.text()
        for _ in range(self.rng.randint(0, 3)):
            if options.without_timestamps or time >= heard // 2 - 30:
                break
            time += self.rng.randint(20, max(21, min(600, heard // 2 - time)))
            said += [607 + time] * 2 + self.text()
        if not options.without_timestamps and self.rng.random() < 0.6:
            time += self.rng.randint(10, 200)
            said += [607 + time] * self.rng.choice([1, 1, 2])
        self.windows.append({"begin": begin, "frames": heard, "language": getattr(self, "language", None), "prompt": prompt,
                             "said": said})
        return SimpleNamespace(sequences_ids=[tokens + said], no_speech_prob=0.0), 0.0, 0.0, 1.0

    def find_alignment(self, tokenizer, text_tokens, encoder_output, num_frames, median_filter_width=7):
        def align(encoder_output, sot, texts, frames, median_filter_width):
            rng, out = self.rng, []
            for text in texts:
                at, starts = rng.choice([0, 0, rng.randint(0, 400)]), []
                for _ in range(len(text) + 1):
                    starts.append(min(at, frames // 2))
                    at += rng.choice([rng.randint(4, 25), rng.randint(4, 25), rng.randint(0, 3), rng.randint(60, 200)])
                probabilities = [rng.choice([0.9, 0.9, 0.05, round(rng.random(), 3)]) for _ in text]
                out.append(SimpleNamespace(text_token_probs=probabilities, alignments=list(enumerate(starts))))
            return out

        self.model.align = align
        out = super().find_alignment(tokenizer, text_tokens, encoder_output, num_frames, median_filter_width)
        self.heard[-1]["words"] = [[w["word"], len(w["tokens"]), float(w["start"]), float(w["end"]), float(w["probability"])]
                                   for w in out[0]]
        return out

    def add_word_timestamps(self, segments, tokenizer, encoder_output, num_frames, prepend, append, last_speech_timestamp):
        self.heard.append({"last_speech": last_speech_timestamp, "frames": num_frames, "begin": segments[0][0]["seek"],
                           "segments": [[s["start"], s["end"], sum(t < 500 for t in s["tokens"])] for s in segments[0]]})
        super().add_word_timestamps(segments, tokenizer, encoder_output, num_frames, prepend, append, last_speech_timestamp)
        self.heard[-1]["placed"] = [
            [s["start"], s["end"], [[w["word"], w["start"], w["end"]] for w in s["words"]]] for s in segments[0]]
        self.heard[-1]["list"] = segments[0]


def options_of(request, words=False, threshold=None):
    known = dict.fromkeys(TranscriptionOptions.__dataclass_fields__)
    known.update(condition_on_previous_text=False, prompt_reset_on_temperature=0.5, temperatures=[0.0], word_timestamps=words,
                 prepend_punctuations="\"'“¿([{-", append_punctuations="\"'.。,，!！?？:：”)]}、", multilingual=False,
                 without_timestamps=False, clip_timestamps="0", hallucination_silence_threshold=threshold)
    known.update({k: v for k, v in request.items() if k in known})
    return TranscriptionOptions(**known)


def a_run(rng):
    frames = rng.choice([rng.randint(200, 2900), rng.randint(3100, 14000), 6000 + rng.randint(-1500, 1500)])
    request = {"clip_timestamps": "0"}
    if rng.random() < 0.6:
        times = sorted(round(rng.uniform(0, frames / 80), 2) for _ in range(rng.randint(1, 6)))
        request["clip_timestamps"] = rng.choice([times, ",".join(map(str, times))])
    begins = (float(request["clip_timestamps"].split(",")[0]) if isinstance(request["clip_timestamps"], str)
              else request["clip_timestamps"][0]) == 0
    if begins and rng.random() < 0.5:  # (faster-whisper's prefix is for windows that begin at 0)
        request["prefix"] = rng.choice(["Well then", "Hello there, what?", "so " * 60])
    if rng.random() < 0.4:
        request["hotwords"] = rng.choice(["Hello", "again and again " * 20])
    request["multilingual"] = rng.random() < 0.4
    fake = Fake(rng, frames)
    if rng.random() < 0.6:
        request["language_detection_segments"] = rng.randint(1, 4)
        request["language_detection_threshold"] = rng.choice([0.5, 0.9, 1.0])
        request["task"] = "transcribe"
    else:
        request["language"] = "de"
    language = request.get("language")
    if language is None:
        # As in transcribe(): from the first clip on; the frame that is too much would be a window of its own.
        first = request["clip_timestamps"]
        first = float(first.split(",")[0]) if isinstance(first, str) else first[0]
        seek = int(first * 100) if first * 100 < frames else 0
        fake.searching = True
        language = fake.detect_language(features=fake.features[..., seek:frames],
                                        language_detection_segments=request["language_detection_segments"],
                                        language_detection_threshold=request["language_detection_threshold"])[0]
        fake.searching = False
    tokenizer = Tokenizer(fake.hf_tokenizer, True, task="transcribe", language=language)
    segments = list(fake.generate_segments(fake.features, tokenizer, options_of(request), False))
    return {"request": request, "frames": frames, "language": language, "search": fake.searches, "windows": fake.windows,
            "segments": [[s.start, s.end, [t for t in s.tokens if t < 500]] for s in segments]}


def silences(rng):
    frames = rng.randint(2000, 9000)
    fake, threshold = Fake(rng, frames), rng.choice([0.0, 0.5, 1.0, 2.0])
    tokenizer = Tokenizer(fake.hf_tokenizer, True, task="transcribe", language="en")
    said = {s.seek for s in fake.generate_segments(fake.features, tokenizer, options_of({}, True, threshold), False)}
    out = []
    for i, window in enumerate(fake.heard):
        kept = window.pop("list")
        if any(s["start"] == s["end"] for s in kept):  # which faster-whisper drops for another reason
            continue
        window["kept"] = len(kept) if window["begin"] in said else 0
        window["next"] = fake.windows[i + 1]["begin"] if i + 1 < len(fake.windows) else None
        out.append({**window, "sound": frames, "threshold": threshold})
    return out


def main():
    rng = random.Random(SEED)
    runs = [a_run(rng) for _ in range(30)]
    windows = [w for _ in range(60) for w in silences(rng) if w["words"]]
    skipped = [w for w in windows if w["kept"] < len(w["segments"])]
    stayed = [w for w in windows if w["kept"] == len(w["segments"])]
    cases = skipped[:36] + stayed[:20]
    rows = [",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in part) for part in (runs, cases)]
    OUT.write_text(f'{{"faster_whisper": "{faster_whisper.__version__}", "runs": [\n{rows[0]}\n],\n"silences": [\n{rows[1]}\n]}}\n')
    print(f"{len(runs)} runs, {len(skipped)} windows skip silence, {len(stayed)} do not; {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
