"""transcribe(): files, bytes and samples, decoded by tandem-decoder and by the child of a wheel."""
import array
import asyncio
import io
import json
import os
import pathlib
import socket
import struct
import subprocess
import sys
import wave

import numpy as np
import pytest

from conftest import ROOT
from speech_model import make_whisper, wav
from tandem_infer import LLM, AsyncLLM, Segment, Transcription

BINARY = os.environ.get("TANDEM_BINARY", str(ROOT / "build" / "bin" / "tandem"))


@pytest.fixture(scope="module")
def hears(tmp_path_factory):
    with LLM(make_whisper(tmp_path_factory.mktemp("whisper") / "model"), dtype="float32") as model:
        yield model


def samples_of(file):
    with wave.open(io.BytesIO(file)) as wav_file:
        return np.frombuffer(wav_file.readframes(wav_file.getnframes()), dtype=np.int16)


def test_every_kind_of_sound(hears, tmp_path):
    file = wav(3)
    path = tmp_path / "a.wav"
    path.write_bytes(file)
    samples = samples_of(file)
    floats = samples.astype(np.float32) / 32768
    said = hears.transcribe(path, "de")
    assert said.text and said.duration == pytest.approx(3) and said.language == "german"
    for other in (str(path), file, io.BytesIO(file), samples, floats, (floats, 16000), (16000, floats),
                  {"array": floats, "sampling_rate": 16000}, {"raw": floats, "sampling_rate": 16000}):
        assert hears.transcribe(other, "de").text == said.text
    assert [s.text for s in hears.transcribe([file, str(path)], "de")] == [said.text] * 2
    stereo = np.stack([floats, floats]) / np.sqrt(np.float32(2))
    assert hears.transcribe(stereo, "de").duration == pytest.approx(3)


@pytest.mark.parametrize("kind", ["srt", "vtt", "tsv"])
def test_subtitles_are_the_programs(hears, tmp_path, kind):
    path = tmp_path / "long.wav"
    path.write_bytes(wav(40))
    expected = subprocess.run([BINARY, "transcribe", hears.facts["model"], "--dtype", "float32", "--language", "de", "--format", kind,
                               str(path)], capture_output=True, check=True, text=True).stdout
    assert getattr(hears.transcribe(str(path), "de"), kind)() == expected


def test_subtitles_of_odd_segments():
    segments = [Segment(0.0, 2.0004, " A --> B\nC "), Segment(1.5, 1.2, " \t"), Segment(3.0, 99.0, "tab\tend")]
    said = Transcription("", duration=3661.5, segments=[*segments, Segment(3660.0, 3700.0, "late")])
    assert said.srt() == ("1\n00:00:00,000 --> 00:00:02,000\nA -> B C\n\n2\n00:00:03,000 --> 00:01:39,000\ntab\tend\n\n"
                          "3\n01:01:00,000 --> 01:01:01,500\nlate\n\n")
    assert said.vtt().startswith("WEBVTT\n\n00:00:00.000 --> ")
    assert said.tsv().splitlines()[2:4] == ["2000\t2000\t", "3000\t99000\ttab end"]
    assert Transcription("").srt() == "" and Transcription("").vtt() == "WEBVTT\n\n"


def test_as_the_program(hears, tmp_path):
    path = tmp_path / "long.wav"
    path.write_bytes(wav(40))
    out = subprocess.run([BINARY, "transcribe", hears.facts["model"], "--dtype", "float32", "--language", "de", "--format",
                          "verbose_json", str(path)], capture_output=True, check=True).stdout
    expected = json.loads(out)
    said = hears.transcribe(str(path), "de")
    assert said.text == expected["text"] and said.duration == expected["duration"]
    assert [s.text for s in said.segments] == [s["text"] for s in expected["segments"]]


def test_times_of_words(hears):
    said = hears.transcribe(wav(40), "de", word_timestamps=True)
    plain = hears.transcribe(wav(40), "de")
    assert said.text == plain.text and [s.text for s in said.segments] == [s.text for s in plain.segments]
    assert said.words == [word for segment in said.segments for word in segment.words] and not plain.words
    assert "".join(word.word for word in said.words).split() == said.text.split()
    assert all(word.start <= word.end and 0 < word.probability <= 1 for word in said.words)


def test_parts_of_a_sound(hears):
    sound = wav(40)
    said = hears.transcribe(sound, "de", prefix="Guten Tag", initial_prompt="Hallo")
    assert said.raw_text.startswith(" Guten Tag")
    ids = said.segments[0].tokens[1:4]
    assert hears.transcribe(sound, "de", prefix=ids).segments[0].tokens[1:4] == ids
    parts = hears.transcribe(sound, "de", clip_timestamps="2,4.5,30")
    assert parts.segments and all(s.start >= 2 for s in parts.segments)
    assert hears.transcribe(sound, "de", clip_timestamps=[2, 4.5, 30]) == parts
    assert hears.transcribe(sound, "de", clip_timestamps=[50, 60]).text == ""
    found = hears.transcribe(sound, multilingual=True, language_detection_segments=2, language_detection_threshold=1)
    assert found.language and found.text
    kept = hears.transcribe(sound, "de", word_timestamps=True, hallucination_silence_threshold=3600)
    assert kept.duration == 40


def test_errors(hears, tmp_path):
    with pytest.raises(ValueError, match="no such file|sound"):
        hears.transcribe(str(tmp_path / "none.wav"))
    with pytest.raises(ValueError, match="sound"):
        hears.transcribe(b"no sound at all")
    with pytest.raises(ValueError, match="language"):
        hears.transcribe(wav(1), "klingon")
    with pytest.raises(ValueError, match="clip_timestamps"):
        hears.transcribe(wav(1), "de", clip_timestamps=[2, 1])
    with pytest.raises(ValueError, match="hallucination_silence_threshold: needs return_token_timestamps"):
        hears.transcribe(wav(1), "de", hallucination_silence_threshold=1)
    with pytest.raises(ValueError, match="sound: samples"):
        hears.transcribe(np.zeros(100, dtype=np.int64))


def test_streams(hears):
    events = list(hears.stream_transcription(wav(70), "de"))
    whole = hears.transcribe(wav(70), "de")
    assert events[-1].output.text.strip() == whole.text and events[-1].output is not None
    assert "".join(e.text for e in events).strip() == whole.text
    assert max(e.seconds_done or 0 for e in events) == pytest.approx(70, abs=1)

    async def main():
        return (await AsyncLLM.of(hears).transcribe(wav(3), "de")).text

    assert asyncio.run(main()) == hears.transcribe(wav(3), "de").text


DECODER = ROOT / "python" / "tandem_infer" / "bin" / "tandem-decoder"


class Decoder:
    """A child, as `tandem` speaks with it."""

    def __init__(self):
        self.socket, other = socket.socketpair()
        self.process = subprocess.Popen([str(DECODER), "--serve", str(os.getpid())], stdin=other,
                                        env={"TANDEM_PYTHON": sys.executable})
        other.close()
        self.socket.settimeout(60)

    def receive(self, count):
        out = b""
        while len(out) < count:
            got = self.socket.recv(count - len(out))
            assert got, "the decoder has ended"
            out += got
        return out

    def frame(self):
        kind, count = struct.unpack("=II", self.receive(8))
        return kind, self.receive(count)

    def run(self, kind, path, rate=16000):
        with open(path, "rb") as file:
            socket.send_fds(self.socket, [struct.pack("=IIQiid", 1, kind, os.path.getsize(path), rate, 64, 14400.0)],
                            [file.fileno()])
        frames = [self.frame()]
        while frames[-1][0] not in (5, 6):
            frames.append(self.frame())
        return frames

    def close(self):
        self.socket.close()
        return self.process.wait(20)


@pytest.fixture(scope="module")
def decoder():
    child = Decoder()
    kind, hello = child.frame()
    protocol, sandbox = struct.unpack("=II", hello[:8])
    if sandbox != 1:
        pytest.skip(hello[8:].decode())
    assert kind == 0 and protocol == 1
    yield child
    assert child.close() == 0


def test_the_sandbox_of_the_child():
    status = subprocess.run([str(DECODER), "--self-test"], env={"TANDEM_PYTHON": sys.executable}).returncode
    assert status in (0, 77)


def test_sounds_of_the_child(decoder, tmp_path):
    path = tmp_path / "a.wav"
    path.write_bytes(wav(2))
    frames = decoder.run(1, path)
    got = np.frombuffer(b"".join(p for k, p in frames if k == 1), dtype=np.float32)
    assert np.array_equal(got, samples_of(path.read_bytes()).astype(np.float32) / 32768)
    assert struct.unpack("=d", frames[-1][1])[0] == 2.0
    path.write_bytes(wav(2)[:20000])
    frames = decoder.run(1, path)
    assert frames[-1][0] == 5 and sum(len(p) for k, p in frames if k == 1) == 4 * ((20000 - 44) // 2)
    path.write_bytes(b"no sound")
    kind, text = decoder.run(1, path)[-1]
    assert kind == 6 and b"no sound that can be read" in text


def test_images_of_the_child(decoder):
    """Every image of the tests: the pixels that the C++ decoder gives."""
    folder = ROOT / "tests" / "data" / "images"
    program = pathlib.Path(os.environ["TANDEM_LIBRARY"]).parent / "tandem-decoder"
    other = Decoder.__new__(Decoder)
    other.socket, end = socket.socketpair()
    other.process = subprocess.Popen([str(program), "--serve", str(os.getpid())], stdin=end)
    end.close()
    other.socket.settimeout(60)
    if struct.unpack("=II", other.frame()[1][:8])[1] == 0:
        pytest.skip("no sandbox")
    files = [f for f in sorted(folder.iterdir()) if f.suffix not in (".json", ".md")]
    for file in files:
        mine, expected = decoder.run(2, file), other.run(2, file)
        assert [k for k, _ in mine if k != 3] == [k for k, _ in expected if k != 3], file.name
        assert b"".join(p for k, p in mine if k in (2, 3)) == b"".join(p for k, p in expected if k in (2, 3)), file.name
    assert len(files) > 50 and other.close() == 0


def test_a_child_hears_for_a_model(hears, tmp_path):
    """The whole way with the child of a wheel in the decoder's place."""
    path = tmp_path / "a.wav"
    path.write_bytes(wav(3))
    out = subprocess.run([BINARY, "transcribe", hears.facts["model"], "--dtype", "float32", "--language", "de", str(path)],
                         capture_output=True, text=True,
                         env={**os.environ, "TANDEM_DECODER": str(DECODER), "TANDEM_PYTHON": sys.executable})
    assert out.returncode == 0 or "cannot lock itself in" in out.stderr, out.stderr
    if out.returncode == 0:
        assert out.stdout.strip() == "\n".join(s.text.strip() for s in hears.transcribe(str(path), "de", timestamps=False).segments
                                               ) or out.stdout.strip() == hears.transcribe(str(path), "de", timestamps=False).text


def test_arrays_are_files():
    from tandem_infer._sound import wav_of

    file = wav_of(array.array("f", [0.0, 0.5, -1.0]), 16000)
    assert file[:4] == b"RIFF" and np.array_equal(np.frombuffer(file[-12:], dtype="<f4"), [0.0, 0.5, -1.0])
