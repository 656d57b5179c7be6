"""The client for threads. scripts/make_sync_client made it from _async.py: change that file."""
from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Iterator, Callable, Dict, Generic, Iterable, List, Mapping, Optional, Sequence, Union

import httpx

from . import _protocol as protocol
from ._errors import ApiError, TandemError
from ._protocol import Event, Form, Retries, Sound
from .._speech import Transcription, TranscriptionEvent, transcription_event_of, transcription_of
from ._types import (Chunk, Completion, Embeddings, Health, ModelInfo, Prompt, Scores, Tokens, chunk_of, completion_of,
                     embeddings_of, model_of, scores_of)
from ._waiting import Answer, Room, Send, gather, sleep

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._speech import TranscriptionParams
    from ._types import EmbeddingParams, GenerationParams


class _EventStream(Generic[Event]):
    def __init__(self, send: Send, parse: Callable[[Any], Event]) -> None:
        self._answer = Answer(send)
        self._parse = parse
        self._closed = False
        self._chunks = self._read()

    @property
    def request_id(self) -> str:
        """The server's name for the request, once it has answered."""
        return self._answer.request_id

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        if self._closed:  # what had arrived before is not wanted either
            raise StopIteration
        return self._chunks.__next__()

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        self._closed = True
        self._answer.close()

    def _read(self) -> Iterator[Event]:
        response = self._answer.response()
        reader = protocol.EventReader(self._parse, self.request_id)
        try:
            for data in response.iter_bytes():
                for chunk in reader.feed(data):
                    yield chunk
            reader.end()
        except (httpx.TransportError, httpx.StreamError) as e:
            if not self._closed:
                raise protocol.connection_error(e) from e
        finally:
            response.close()


class Stream(_EventStream[Chunk]):
    """Chunks as the server sends them. Stream sends the request at once, AsyncStream at its first use. Closing it (leaving its
    `with`, or close()) before its end cancels the request."""

    def __enter__(self) -> Stream:
        self._answer.response()
        return self

    def result(self) -> Completion:
        """What is left of the stream, read to its end and put together."""
        collector = protocol.Collector()
        for chunk in self:
            collector.add(chunk)
        return collector.completion(self.request_id)


class TranscriptionStream(_EventStream[TranscriptionEvent]):
    """Events of a transcription as the server sends them; otherwise as the stream of a completion."""

    def __enter__(self) -> TranscriptionStream:
        self._answer.response()
        return self

    def result(self) -> Transcription:
        """What is left of the stream, read to its end and put together."""
        collector = protocol.SpeechCollector()
        for event in self:
            collector.add(event)
        return collector.transcription(self.request_id)


class Client:
    """
    base_url: the server's, with or without /v1. timeout: seconds of silence after which a request fails (a number, None or
    httpx.Timeout); for a bound on the whole request give it `timeout=`. max_under_way: requests at one time, streams apart;
    others wait here. verify, cert: as for httpx. Several threads may use a Client, one event loop an AsyncClient.
    """

    def __init__(self, base_url: str = "http://127.0.0.1:8000", *, api_key: Optional[str] = None,
                 model: Optional[str] = None, timeout: Union[float, None, httpx.Timeout] = 600.0,
                 connect_timeout: float = 10.0, retries: Union[int, Retries] = Retries(), verify: Any = True, cert: Any = None,
                 headers: Optional[Mapping[str, str]] = None, transport: Optional[httpx.BaseTransport] = None,
                 max_under_way: int = 256) -> None:
        self.model = model
        self._max_under_way = max_under_way
        self._room = Room(max_under_way)
        self._retries = retries if isinstance(retries, Retries) else Retries(count=retries)
        self._timeout = protocol.timeouts(timeout, connect_timeout)
        base = base_url.rstrip("/")
        self._http = httpx.Client(
            base_url=base[:-3] if base.endswith("/v1") else base, verify=verify, cert=cert,
            headers={**protocol.headers(api_key), **(headers or {})}, timeout=self._timeout,
            limits=httpx.Limits(max_connections=max_under_way + 16), transport=transport)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connections, and with them requests under way."""
        self._http.close()

    def complete(self, prompt: Prompt, *, model: Optional[str] = None, **params: Unpack[GenerationParams]) -> Completion:
        """Text for a prompt (the encoder's input) or several."""
        return self._generate("/v1/completions", protocol.completion_body(prompt, model or self.model, params))

    def complete_many(
            self, prompts: Iterable[Prompt], *, model: Optional[str] = None,
            **params: Unpack[GenerationParams]) -> List[Completion]:
        """complete() for each, in their order, however many there are: as many at a time as `max_under_way` says."""
        return gather(lambda prompt: self.complete(prompt, model=model, **params), prompts, self._max_under_way)

    def stream(self, prompt: Prompt, *, model: Optional[str] = None, **params: Unpack[GenerationParams]) -> Stream:
        """The same as it is generated."""
        return self._stream("/v1/completions", protocol.completion_body(prompt, model or self.model, params))

    def chat(self, messages: Union[str, Sequence[Mapping[str, Any]]], *, model: Optional[str] = None,
             **params: Unpack[GenerationParams]) -> Completion:
        """Text for the last message of the user, or for a text, in the server's template."""
        return self._generate("/v1/chat/completions", protocol.chat_body(messages, model or self.model, params))

    def chat_stream(self, messages: Union[str, Sequence[Mapping[str, Any]]], *, model: Optional[str] = None,
                    **params: Unpack[GenerationParams]) -> Stream:
        return self._stream("/v1/chat/completions", protocol.chat_body(messages, model or self.model, params))

    def embed(self, input: Prompt, *, model: Optional[str] = None, **params: Unpack[EmbeddingParams]) -> Embeddings:
        """The encoder's output for a text (or token ids) or several, a vector each."""
        response = self._send("POST", "/v1/embeddings", protocol.embedding_body(input, model or self.model, params))
        return embeddings_of(response.json(), response.headers.get("x-request-id", ""))

    def score(self, source: Union[str, Sequence[str]], target: Union[str, Sequence[str]], *, append_eos: bool = True,
              src_lang: Optional[str] = None, tgt_lang: Optional[str] = None, model: Optional[str] = None) -> Scores:
        """How likely targets are, given one source for all or one for each."""
        response = self._send("POST", "/v1/target_scores", protocol.score_body(
            source, target, append_eos, model or self.model, src_lang=src_lang, tgt_lang=tgt_lang))
        return scores_of(response.json(), response.headers.get("x-request-id", ""))

    def transcribe(
            self, sound: Sound, *, language: Optional[str] = None, task: str = "transcribe", timestamps: bool = True,
            word_timestamps: bool = False, model: Optional[str] = None,
            **params: Unpack[TranscriptionParams]) -> Transcription:
        """What is said in a file (its path, its bytes, or an open one), for a model that hears. task "translate": in English.
        timestamps: with segments, which not all models have; language: "de" or "german", or found out."""
        form = protocol.speech_form(sound, model or self.model, task, language, timestamps, word_timestamps, params)
        response = self._send("POST", form.path, form=form)
        return transcription_of(response.json(), response.headers.get("x-request-id", ""))

    def transcribe_stream(self, sound: Sound, *, language: Optional[str] = None, task: str = "transcribe",
                          timestamps: bool = True, word_timestamps: bool = False, model: Optional[str] = None,
                          **params: Unpack[TranscriptionParams]) -> TranscriptionStream:
        """The same as it is understood."""
        form = protocol.streamed_form(
            protocol.speech_form(sound, model or self.model, task, language, timestamps, word_timestamps, params))
        return TranscriptionStream(
            lambda: self._send("POST", form.path, form=form, stream=True), transcription_event_of)

    def tokenize(self, text: str, *, add_special_tokens: bool = True, return_token_strs: bool = False) -> Tokens:
        body = self._json("POST", "/tokenize", {
            "prompt": text, "add_special_tokens": add_special_tokens, "return_token_strs": return_token_strs})
        return Tokens(body["tokens"], body["count"], body["max_model_len"], body.get("token_strs"))

    def detokenize(self, tokens: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        body = self._json("POST", "/detokenize", {"tokens": list(tokens), "skip_special_tokens": skip_special_tokens})
        return str(body["prompt"])

    def models(self) -> List[ModelInfo]:
        data = (self._json("GET", "/v1/models"))["data"]
        return [model_of(m) for m in data]

    def version(self) -> str:
        return str((self._json("GET", "/version"))["version"])

    def status(self) -> Dict[str, Any]:
        """The engine now: replicas, queues, blocks."""
        return dict(self._json("GET", "/status"))

    def metrics(self) -> str:
        """In Prometheus's text format."""
        return (self._send("GET", "/metrics")).text

    def health(self) -> Health:
        """Whether requests are being computed. A server that is not there raises ConnectionFailed."""
        try:
            self._send("GET", "/health", retries=Retries(count=0))
        except ApiError as e:
            return Health(False, e.message)
        return Health(True)

    def wait_until_ready(self, timeout: float = 600.0, interval: float = 0.2) -> None:
        """Until /health says so; also waits for a server that is not there yet. Raises TandemError after `timeout` s."""
        end = time.monotonic() + timeout
        while True:
            try:
                health = self.health()
                if health:
                    return
                reason = health.reason
            except TandemError as e:
                reason = str(e)
            if time.monotonic() >= end:
                raise TandemError(f"not ready after {timeout:g} s: {reason}")
            sleep(interval)

    def _generate(self, path: str, body: Dict[str, Any]) -> Completion:
        response = self._send("POST", path, body)
        return completion_of(response.json(), response.headers.get("x-request-id", ""))

    def _stream(self, path: str, body: Dict[str, Any]) -> Stream:
        return Stream(lambda: self._send("POST", path, protocol.streamed(body), stream=True), chunk_of)

    def _json(self, method: str, path: str, body: Optional[Dict[str, Any]] = None) -> Any:
        return (self._send(method, path, body)).json()

    def _send(self, method: str, path: str, body: Optional[Dict[str, Any]] = None, *, form: Optional[Form] = None,
              stream: bool = False, retries: Optional[Retries] = None) -> httpx.Response:
        # The pool of connections bounds them too, but takes its time where many wait for one. An open stream is its alone.
        if stream or method == "GET":
            return self._try(method, path, body, form, stream, retries)
        with self._room:
            return self._try(method, path, body, form, stream, retries)

    def _try(self, method: str, path: str, body: Optional[Dict[str, Any]], form: Optional[Form], stream: bool,
             retries: Optional[Retries]) -> httpx.Response:
        retries = retries or self._retries
        attempt = 0
        while True:
            content = form.arguments() if form else {"json": body}
            request = self._http.build_request(
                method, path, timeout=protocol.read_timeout(form.fields if form else body or {}, self._timeout), **content)
            try:
                response = self._http.send(request, stream=stream)
                if response.status_code == 200:
                    return response
                response.read()
                response.close()
                error: Exception = protocol.response_error(response)
            except httpx.TransportError as e:
                error = e
            wait = retries.wait(attempt, error)
            if wait is None:
                if isinstance(error, httpx.TransportError):
                    raise protocol.connection_error(error) from error
                raise error
            sleep(wait)
            attempt += 1
