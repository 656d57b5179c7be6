"""What comes out, as dataclasses. Fields have vLLM's and HuggingFace's names."""
from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Union

import numpy as np
from numpy.typing import NDArray

from ._speech import Segment, Transcription, Word, segment_of

__all__ = ["CompletionOutput", "Delta", "Logprob", "RequestMetrics", "RequestOutput", "Segment", "StreamEvent", "TargetScore",
           "Transcription", "Word"]


@dataclass(frozen=True)
class Logprob:
    """Of a token. rank: 1 is the most likely one; None: not known (beams)."""
    logprob: Optional[float]
    rank: Optional[int] = None
    decoded_token: Optional[str] = None


@dataclass(frozen=True)
class CompletionOutput:
    """One sequence. score: of a beam, HuggingFace's sequences_scores. finish_reason: "stop" or "length". logprobs: for each
    token, by token id. parsed: what HuggingFace's processor makes of the answer of a model that reads pages; None: a text."""
    index: int
    text: str
    token_ids: List[int]
    cumulative_logprob: Optional[float] = None
    finish_reason: Optional[str] = None
    stop_reason: Union[str, int, None] = None
    score: Optional[float] = None
    logprobs: Optional[List[Dict[int, Logprob]]] = None
    segments: List[Segment] = field(default_factory=list)
    parsed: Any = None

    @property
    def tokens(self) -> List[int]:
        """vLLM's name for the ids of a beam."""
        return self.token_ids

    @property
    def cum_logprob(self) -> Optional[float]:
        """vLLM's name of a beam's."""
        return self.cumulative_logprob


@dataclass(frozen=True)
class RequestMetrics:
    """Seconds since the request arrived."""
    queue_time: float = 0.0
    time_to_first_token: float = 0.0
    total_time: float = 0.0
    num_preemptions: int = 0


@dataclass(frozen=True)
class RequestOutput:
    """The answer to one prompt. prompt, prompt_token_ids: the decoder's. index: which of the prompts that were given. page: of a
    PDF file, from 1."""
    index: int
    outputs: List[CompletionOutput]
    encoder_prompt: Optional[str] = None
    encoder_prompt_token_ids: List[int] = field(default_factory=list)
    prompt: Optional[str] = None
    prompt_token_ids: List[int] = field(default_factory=list)
    prompt_logprobs: Optional[List[Optional[Dict[int, Logprob]]]] = None
    metrics: RequestMetrics = RequestMetrics()
    warnings: List[str] = field(default_factory=list)
    finished: bool = True
    page: Optional[int] = None

    @property
    def text(self) -> str:
        """Of the first sequence."""
        return self.outputs[0].text

    @property
    def parsed(self) -> Any:
        """Of the first sequence: a dictionary of tags, Markdown, or places under their task (docs/images_input.md); None: a text."""
        return self.outputs[0].parsed

    @property
    def sequences(self) -> List[CompletionOutput]:
        """vLLM's name for the beams of beam_search()."""
        return self.outputs


@dataclass(frozen=True)
class Delta:
    """What is new of one sequence."""
    index: int
    text: str
    token_ids: List[int]
    finish_reason: Optional[str] = None
    stop_reason: Union[str, int, None] = None
    segments: List[Segment] = field(default_factory=list)


@dataclass(frozen=True)
class StreamEvent:
    """Of a stream: deltas, or at the end the whole output. seconds_done, seconds: of sound, how far it is."""
    deltas: List[Delta] = field(default_factory=list)
    output: Optional[RequestOutput] = None
    seconds_done: Optional[float] = None
    seconds: Optional[float] = None

    @property
    def text(self) -> str:
        """What is new, of all sequences."""
        return "".join(delta.text for delta in self.deltas)


@dataclass(frozen=True)
class TargetScore:
    """How likely a target is. score: the mean of token_logprobs; natural logarithms; nan where there is none."""
    score: float
    cumulative_logprob: float
    perplexity: float
    token_ids: List[int]
    token_logprobs: NDArray[np.float64]


def _logprobs(body: Optional[Mapping[str, Any]]) -> Optional[Dict[int, Logprob]]:
    if body is None:
        return None
    return {int(token): Logprob(of["logprob"], of["rank"], of["decoded_token"]) for token, of in body.items()}


def completion_of(body: Mapping[str, Any]) -> CompletionOutput:
    logprobs = body.get("logprobs")
    return CompletionOutput(body["index"], body["text"], body["token_ids"], body.get("cumulative_logprob"),
                            body.get("finish_reason"), body.get("stop_reason"), body.get("score"),
                            [_logprobs(one) or {} for one in logprobs] if logprobs is not None else None,
                            [segment_of(s) for s in body.get("segments", [])],
                            json.loads(body["parsed"]) if "parsed" in body else None)


def output_of(body: Mapping[str, Any], index: int) -> RequestOutput:
    prompt_logprobs = body.get("prompt_logprobs")
    return RequestOutput(index, [completion_of(c) for c in body["outputs"]], body["encoder_prompt"],
                         body["encoder_prompt_token_ids"], body["prompt"], body["prompt_token_ids"],
                         [_logprobs(one) for one in prompt_logprobs] if prompt_logprobs is not None else None,
                         RequestMetrics(**body["metrics"]), body.get("warnings", []))


def transcription_of(body: Mapping[str, Any]) -> Transcription:
    first = body["outputs"][0]
    segments = [segment_of(s) for s in first.get("segments", [])]
    language = body.get("language", "")
    language = "" if language == "unknown" else language
    return Transcription(first["text"].strip(), language, body.get("duration", 0.0), segments,
                         [word for segment in segments for word in segment.words], raw_text=first["text"])


def event_of(body: Mapping[str, Any]) -> StreamEvent:
    done, seconds = body.get("progress", (None, None))
    return StreamEvent([Delta(d["index"], d["text"], d["token_ids"], d.get("finish_reason"), d.get("stop_reason"),
                              [segment_of(s) for s in d.get("segments", [])]) for d in body["deltas"]],
                       None, done, seconds)


def score_of(body: Mapping[str, Any]) -> TargetScore:
    def number(value: Optional[float]) -> float:
        return float("nan") if value is None else value

    logprobs = np.array([float("-inf") if x is None else x for x in body["token_logprobs"]], dtype=np.float64)
    return TargetScore(number(body["mean_logprob"]), number(body["cumulative_logprob"]), number(body["perplexity"]),
                       body["token_ids"], logprobs)
