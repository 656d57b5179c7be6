"""Transcripts as files for players and editors, byte for byte those of `tandem transcribe --format srt|vtt|tsv`."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Iterator, List, Tuple

if TYPE_CHECKING:
    from ._speech import Segment, Transcription

_BLANKS = " \t\r\n"


def _milliseconds(seconds: float) -> int:
    return math.floor(max(seconds, 0.0) * 1000 + 0.5)


def _clock(seconds: float, point: str) -> str:
    ms = _milliseconds(seconds)
    return f"{ms // 3600000:02d}:{ms // 60000 % 60:02d}:{ms // 1000 % 60:02d}{point}{ms % 1000:03d}"


def _ordered(said: Transcription) -> Iterator[Tuple[float, float, Segment]]:
    """None of the times is behind the end of the sound, or before the time before it."""
    end_of_sound = said.duration if said.duration > 0 else math.inf
    last = 0.0
    for segment in said.segments:
        times: List[float] = []
        inner = [time for word in segment.words for time in (word.start, word.end)]
        for time in (segment.start, *inner, segment.end):
            last = min(max(time, last), end_of_sound)
            times.append(last)
        yield times[0], times[-1], segment


def _cue_text(text: str) -> str:
    """Without what would end a cue: a line end, an arrow."""
    line = text.strip(_BLANKS).replace("\r", " ").replace("\n", " ")
    while "-->" in line:
        line = line.replace("-->", "->")
    return line


def _cues(said: Transcription, point: str) -> Iterator[str]:
    for start, end, segment in _ordered(said):
        text = _cue_text(segment.text)
        if text:
            yield f"{_clock(start, point)} --> {_clock(end, point)}\n{text}\n\n"


def srt(said: Transcription) -> str:
    return "".join(f"{number}\n{cue}" for number, cue in enumerate(_cues(said, ","), 1))


def vtt(said: Transcription) -> str:
    return "WEBVTT\n\n" + "".join(_cues(said, "."))


def tsv(said: Transcription) -> str:
    rows = ["start\tend\ttext\n"]
    for start, end, segment in _ordered(said):
        text = segment.text.strip(_BLANKS)
        for blank in "\t\n\r":
            text = text.replace(blank, " ")
        rows.append(f"{_milliseconds(start)}\t{_milliseconds(end)}\t{text}\n")
    return "".join(rows)
