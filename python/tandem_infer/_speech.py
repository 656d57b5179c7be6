"""What goes in and what comes out of transcriptions, as dataclasses. Fields that a newer server adds are ignored."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Union

try:
    from typing import TypedDict
except ImportError:  # pragma: no cover
    from typing_extensions import TypedDict

from . import _subtitles


class TranscriptionParams(TypedDict, total=False):
    """Keyword arguments of transcribe(); docs/speech.md says what each does. max_new_tokens, num_beams and the other
    parameters of generation (GenerationParams) are those of each window of sound."""
    prompt: Optional[str]
    prompt_ids: Optional[List[int]]
    prompt_condition_type: Optional[str]
    condition_on_prev_tokens: Optional[bool]
    temperature: Union[float, List[float], None]
    compression_ratio_threshold: Optional[float]
    logprob_threshold: Optional[float]
    no_speech_threshold: Optional[float]
    chunk_length_s: Optional[float]
    stride_length_s: Union[float, List[float], None]
    initial_prompt: Union[str, List[int], None]
    hotwords: Optional[str]
    prefix: Union[str, List[int], None]
    clip_timestamps: Union[str, float, List[float], None]
    hallucination_silence_threshold: Optional[float]
    multilingual: Optional[bool]
    language_detection_segments: Optional[int]
    language_detection_threshold: Optional[float]
    vad_filter: Optional[bool]
    vad_parameters: Optional[Dict[str, float]]
    max_new_tokens: Optional[int]
    num_beams: Optional[int]
    do_sample: Optional[bool]
    top_k: Optional[int]
    top_p: Optional[float]
    seed: Optional[int]
    length_penalty: Optional[float]
    repetition_penalty: Optional[float]
    no_repeat_ngram_size: Optional[int]
    suppress_tokens: Optional[List[int]]
    cache_salt: Optional[str]
    priority: Optional[int]
    timeout: Optional[float]


@dataclass(frozen=True)
class Word:
    """When it is said, in seconds of the sound."""
    word: str
    start: float
    end: float
    probability: Optional[float] = None


@dataclass(frozen=True)
class Segment:
    """What is said from start to end, in seconds of the sound. tokens: with those of times. The numbers behind are of the
    pass that was kept, where they were computed."""
    start: float
    end: float
    text: str
    tokens: List[int] = field(default_factory=list)
    temperature: Optional[float] = None
    avg_logprob: Optional[float] = None
    compression_ratio: Optional[float] = None
    no_speech_prob: Optional[float] = None
    words: List[Word] = field(default_factory=list)


@dataclass(frozen=True)
class Transcription:
    """language: as "german"; empty where the answer does not tell, as of a model of one language. duration: seconds of the
    sound. segments: where times were asked for. raw_text: with the blanks at its ends, in process alone."""
    text: str
    language: str = ""
    duration: float = 0.0
    segments: List[Segment] = field(default_factory=list)
    words: List[Word] = field(default_factory=list)
    request_id: str = ""
    raw_text: str = ""

    def srt(self) -> str:
        """The segments as subtitles: write it to a .srt file."""
        return _subtitles.srt(self)

    def vtt(self) -> str:
        """The same for the web."""
        return _subtitles.vtt(self)

    def tsv(self) -> str:
        """A table of start and end in milliseconds, and text."""
        return _subtitles.tsv(self)


@dataclass(frozen=True)
class TranscriptionEvent:
    """Of a stream: new text, or a segment whose text has come, or at the end all of it (done, without segments)."""
    text: str = ""
    segment: Optional[Segment] = None
    done: Optional[Transcription] = None


def _known(cls: Any, body: Any) -> Dict[str, Any]:
    return {name: body[name] for name in cls.__dataclass_fields__ if body.get(name) is not None}


def words_of(body: Any) -> List[Word]:
    return [Word(**_known(Word, word)) for word in body.get("words") or []]


def segment_of(body: Any) -> Segment:
    return Segment(**{**_known(Segment, body), "words": words_of(body)})


def transcription_of(body: Any, request_id: str) -> Transcription:
    seconds = (body.get("usage") or {}).get("seconds") or 0.0
    return Transcription(body["text"], body.get("language") or "", body.get("duration", seconds),
                         [segment_of(s) for s in body.get("segments") or []], words_of(body), request_id)


def transcription_event_of(body: Any) -> TranscriptionEvent:
    kind = body.get("type")
    if kind == "transcript.text.segment":
        return TranscriptionEvent(segment=segment_of(body))
    if kind == "transcript.text.done":
        return TranscriptionEvent(done=transcription_of(body, ""))
    return TranscriptionEvent(text=body.get("delta") or "")
