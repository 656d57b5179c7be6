"""What both clients have in common: bodies, answers, events and the rules for another try. No input or output here."""
from __future__ import annotations

import email.utils
import json
import os
import pathlib
import random
import time
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, Callable, Dict, Generic, Iterator, List, Mapping, Optional, Tuple, TypeVar, Union

import httpx

from ._errors import ApiError, ConnectionFailed, api_error
from .._speech import Segment, Transcription, TranscriptionEvent
from ._types import Choice, Chunk, Completion, Usage, joined

# A file of sound: its path, its bytes, or what they can be read from.
Sound = Union[str, "os.PathLike[str]", bytes, BinaryIO]
Event = TypeVar("Event")
MAX_EVENT_BYTES = 64 << 20
_RETRIED = (429, 503)


@dataclass(frozen=True)
class Retries:
    """Requests that the server refused for now (429, 503), or that did not reach it, are sent again.

    count: how often at most. None: what was refused as overload (429) as often as it takes, unless it is for the request's
    own timeout; anything else three times. max_wait: seconds that one wait may take; a Retry-After above it is reported
    instead, if there is a count. A server that says nothing gets `backoff` seconds, twice as many each time, with some
    randomness.
    """
    count: Optional[int] = None
    max_wait: float = 30.0
    backoff: float = 0.25

    def wait(self, attempt: int, error: Exception) -> Optional[float]:
        """Seconds until the next try, after `attempt` others; None: no other try."""
        refused = isinstance(error, ApiError) and error.status == 429 and error.param != "timeout"
        endless = self.count is None and refused
        if not endless and attempt >= (3 if self.count is None else self.count):
            return None
        if isinstance(error, ApiError):
            if error.status not in _RETRIED:
                return None
            if error.retry_after is not None:
                # Not all at once, who were refused together.
                if error.retry_after > self.max_wait and not endless:
                    return None
                return min(error.retry_after, self.max_wait) * random.uniform(1.0, 1.2)
        elif not isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout)):
            return None
        return float(min(self.max_wait, self.backoff * 2**min(attempt, 16))) * random.uniform(0.5, 1.0)


def retry_after(headers: Mapping[str, str]) -> Optional[float]:
    value = headers.get("retry-after", "")
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError, IndexError):
        return None


def response_error(response: httpx.Response) -> ApiError:
    """Of an answer whose body has been read."""
    try:
        body = response.json()
    except ValueError:
        body = None
    return api_error(response.status_code, body, request_id=response.headers.get("x-request-id", ""),
                     retry_after=retry_after(response.headers))


def connection_error(error: Exception) -> ConnectionFailed:
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, httpx.ConnectError):
        text += "; is `tandem serve MODEL` running, and its address right?"
    return ConnectionFailed(text)


def headers(api_key: Optional[str]) -> Dict[str, str]:
    return {"authorization": f"Bearer {api_key}"} if api_key else {}


def read_timeout(body: Mapping[str, Any], default: httpx.Timeout) -> httpx.Timeout:
    """A request with a deadline needs no patience beyond it: the server answers 408 then."""
    deadline = body.get("timeout")
    if not isinstance(deadline, (int, float)) or isinstance(deadline, bool):
        return default
    read = deadline + 5.0 if default.read is None else min(default.read, deadline + 5.0)
    return httpx.Timeout(connect=default.connect, read=read, write=default.write, pool=default.pool)


def timeouts(timeout: Union[float, None, httpx.Timeout], connect_timeout: float) -> httpx.Timeout:
    if isinstance(timeout, httpx.Timeout):
        return timeout
    # No limit on the wait for a connection of the pool: requests queue at the server, which says so.
    return httpx.Timeout(connect=connect_timeout, read=timeout, write=timeout, pool=None)


def _with_model(body: Dict[str, Any], model: Optional[str]) -> Dict[str, Any]:
    if model is not None:
        body["model"] = model
    return body


def completion_body(prompt: Any, model: Optional[str], params: Mapping[str, Any]) -> Dict[str, Any]:
    return _with_model({"prompt": prompt, **params}, model)


def chat_body(messages: Any, model: Optional[str], params: Mapping[str, Any]) -> Dict[str, Any]:
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    return _with_model({"messages": list(messages), **params}, model)


def embedding_body(input: Any, model: Optional[str], params: Mapping[str, Any]) -> Dict[str, Any]:
    # As text, floats would be three times as long.
    return _with_model({"input": input, "encoding_format": "base64", **params}, model)


def score_body(source: Any, target: Any, append_eos: bool, model: Optional[str],
               **languages: Optional[str]) -> Dict[str, Any]:
    named = {name: language for name, language in languages.items() if language is not None}
    return _with_model({"prompt": source, "target": target, "append_eos": append_eos, **named}, model)


@dataclass(frozen=True)
class Form:
    """A body that has a file. It is in memory, so that it can be sent again."""
    path: str
    fields: Dict[str, Any]
    name: str
    content: bytes

    def arguments(self) -> Dict[str, Any]:
        """For httpx: what is no text as JSON; of a name[] each element is a field."""
        data = {name: value if isinstance(value, str) or name.endswith("[]") else json.dumps(value)
                for name, value in self.fields.items()}
        return {"data": data, "files": {"file": (self.name, self.content, "application/octet-stream")}}


def _read(sound: Sound) -> Tuple[str, bytes]:
    if isinstance(sound, (bytes, bytearray, memoryview)):
        return "sound", bytes(sound)
    if isinstance(sound, (str, os.PathLike)):
        path = pathlib.Path(sound)
        return path.name, path.read_bytes()
    return "sound", sound.read()


def speech_form(sound: Sound, model: Optional[str], task: str, language: Optional[str], timestamps: bool,
                word_timestamps: bool, params: Mapping[str, Any]) -> Form:
    if task not in ("transcribe", "translate"):
        raise ValueError(f"task: expected transcribe or translate, not {task!r}")
    fields = _with_model(dict(params), model)
    if language is not None:
        fields["language"] = language
    if timestamps or word_timestamps:
        fields["response_format"] = "verbose_json"
    if word_timestamps:
        fields["timestamp_granularities[]"] = ["segment", "word"]
    name, content = _read(sound)
    return Form("/v1/audio/" + ("translations" if task == "translate" else "transcriptions"), fields, name, content)


def streamed_form(form: Form) -> Form:
    return replace(form, fields={**form.fields, "stream": True})


def streamed(body: Dict[str, Any]) -> Dict[str, Any]:
    return {**body, "stream": True, "stream_options": {"include_usage": True}}


class EventReader(Generic[Event]):
    """Server-sent events from pieces of bytes, as `parse` reads them. `done` is set by the last one."""

    def __init__(self, parse: Callable[[Any], Event], request_id: str = "") -> None:
        self.done = False
        self._parse = parse
        self._request_id = request_id
        self._buffer = b""

    def feed(self, data: bytes) -> Iterator[Event]:
        """Those that are complete now. Raises the error that the stream reports, if it does."""
        self._buffer += data
        *events, self._buffer = self._buffer.replace(b"\r\n", b"\n").split(b"\n\n")
        if len(self._buffer) > MAX_EVENT_BYTES:
            raise ConnectionFailed("an event of the stream is too long")
        for event in events:
            lines = [line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:")]
            text = b"\n".join(lines)
            if not text or self.done:
                continue
            if text == b"[DONE]":
                self.done = True
                continue
            try:
                body = json.loads(text)
            except ValueError as e:
                raise ConnectionFailed(f"an event of the stream is no JSON: {text[:100]!r}") from e
            if "error" in body:
                raise api_error(200, body, request_id=self._request_id)
            yield self._parse(body)

    def end(self) -> None:
        if not self.done:
            raise ConnectionFailed("the stream broke off")


class Collector:
    """Puts a stream's chunks together."""

    def __init__(self) -> None:
        self._parts: Dict[int, List[Choice]] = {}
        self._usage = Usage()
        self._last: Optional[Chunk] = None

    def add(self, chunk: Chunk) -> None:
        self._last = chunk
        self._usage = chunk.usage or self._usage
        for choice in chunk.choices:
            self._parts.setdefault(choice.index, []).append(choice)

    def completion(self, request_id: str) -> Completion:
        if self._last is None:
            raise ConnectionFailed("the stream was empty")
        choices = [joined(self._parts[index]) for index in sorted(self._parts)]
        return Completion(self._last.id, self._last.model, 0, choices, self._usage, request_id)


class SpeechCollector:
    """The same of a transcription's events."""

    def __init__(self) -> None:
        self._segments: List[Segment] = []
        self._done: Optional[Transcription] = None

    def add(self, event: TranscriptionEvent) -> None:
        self._done = event.done or self._done
        if event.segment is not None:
            self._segments.append(event.segment)

    def transcription(self, request_id: str) -> Transcription:
        if self._done is None:
            raise ConnectionFailed("the stream was empty")
        words = [word for segment in self._segments for word in segment.words]
        return replace(self._done, segments=self._segments, words=words, request_id=request_id)

