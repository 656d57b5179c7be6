"""AsyncLLM: the same for asyncio."""
from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from functools import partial
from typing import (TYPE_CHECKING, Any, AsyncIterable, AsyncIterator, Callable, Dict, Iterable, List, Literal, Optional, Sequence, Set,
                    Sized, Tuple, TypeVar, Union, overload)

import numpy as np
from numpy.typing import NDArray

from . import _labels as labelling
from . import _requests as requests
from ._documents import Documents, Glossary, plain_texts
from ._errors import EngineError, RequestError, error_of, numbered
from ._flow import checked_window, progress, window_of
from ._labels import Classification, Labelled
from ._library import Engine, Inbox, News
from ._outputs import RequestOutput, StreamEvent, TargetScore, Transcription, event_of, output_of, score_of, transcription_of
from ._pages import DPI
from ._params import BeamSearchParams, Params
from ._requests import Prompt, Prompts, Request
from ._sound import Image, Sound
from .llm import _PAGES, LLM, engine_options, vector_of_news

if TYPE_CHECKING:
    from types import TracebackType

_Result = TypeVar("_Result")


class AsyncLLM:
    """A model in this process, for asyncio: every method of LLM that waits is a coroutine here. Cancelling the task that awaits
    an answer cancels the request. Of one event loop at a time. Options as LLM's; AsyncLLM.of(llm) shares a model."""

    def __init__(self, model: Any, *, dtype: str = "auto", tensor_parallel_size: int = 1, **options: Any) -> None:
        given = engine_options(model, dtype, tensor_parallel_size, options)
        self._begin(Engine(given), window_of(given))

    @classmethod
    def of(cls, llm: LLM) -> AsyncLLM:
        """The same model, not loaded again. It is closed with either."""
        self = cls.__new__(cls)
        self._begin(llm.engine, window_of({}))
        return self

    @classmethod
    async def open(cls, model: Any, **options: Any) -> AsyncLLM:
        """The same as the class, without holding the loop up while the model is loaded."""
        return await asyncio.get_running_loop().run_in_executor(None, lambda: cls(model, **options))

    def _begin(self, engine: Engine, window: int) -> None:
        self._engine = engine
        self._window = window
        self._mail: Optional[_Mail] = None

    @property
    def facts(self) -> Dict[str, Any]:
        """LLM.facts: what the model is."""
        return dict(self._engine.facts)

    async def __aenter__(self) -> AsyncLLM:
        return self

    async def __aexit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        self.close()

    def close(self) -> None:
        """What is awaited fails."""
        if self._mail is not None:
            self._mail.close()
        self._engine.close()

    async def generate(self, prompt: Prompt, sampling_params: Params = None, **kwargs: Any) -> RequestOutput:
        """Text for one prompt; requests that are awaited together share batches."""
        news = await self._answer(requests.generation(prompt, sampling_params, kwargs))
        return output_of(news.body, 0)

    async def generate_many(self, prompts: Sequence[Prompt], sampling_params: Params = None,
                            **kwargs: Any) -> List[RequestOutput]:
        """LLM.generate(): answers to all, in their order."""
        return [output async for output in self.map(prompts, sampling_params, **kwargs)]

    async def beam_search(self, prompt: Prompt, params: Optional[BeamSearchParams] = None, **kwargs: Any) -> RequestOutput:
        """LLM.beam_search(): all beams, the best first."""
        return await self.generate(prompt, params, **requests.beam_params(params, kwargs))

    def stream(self, prompt: Prompt, sampling_params: Params = None, **kwargs: Any) -> AsyncIterator[StreamEvent]:
        """LLM.stream(): events as they come."""
        return self._events(requests.generation(prompt, sampling_params, kwargs, stream=True))

    async def translate(self, text: str, tgt_lang: Optional[str] = None, *, src_lang: Optional[str] = None, format: str = "text",
                        glossary: Optional[Glossary] = None, **kwargs: Any) -> str:
        """LLM.translate() of one text."""
        languages = requests.translation_params(self._engine.facts, tgt_lang, src_lang, kwargs)
        params = {"split": "auto", **languages, **kwargs}
        if format == "text" and glossary is None:
            return (await self.generate(text, **params)).text
        documents = await asyncio.to_thread(Documents, [text], format, glossary, src_lang, params["split"])
        made = requests.Generations(None, params)
        async for output in self._run(_iterated(documents.texts()), made, self._window, numbers=False):
            documents.take(output.text)
        return documents.written[0]

    async def summarize(self, text: str, *, format: str = "text", **kwargs: Any) -> str:
        """LLM.summarize() of one text."""
        params = {**requests.summary_params(self._engine.facts), **kwargs}
        if format != "text":
            text, = await asyncio.to_thread(plain_texts, [text], format, params["split"])
        return (await self.generate(text, **params)).text

    async def transcribe(self, sound: Sound, language: Optional[str] = None, *, task: Optional[str] = None, timestamps: bool = True,
                         word_timestamps: bool = False, **kwargs: Any) -> Transcription:
        """LLM.transcribe() of one sound."""
        times = timestamps and bool(self._engine.facts.get("times"))
        news = await self._answer(requests.transcription(sound, language, task, times, word_timestamps, kwargs))
        return transcription_of(news.body)

    def stream_transcription(self, sound: Sound, language: Optional[str] = None, *, task: Optional[str] = None,
                             timestamps: bool = True, **kwargs: Any) -> AsyncIterator[StreamEvent]:
        """LLM.stream_transcription(): events as they come."""
        times = timestamps and bool(self._engine.facts.get("times"))
        return self._events(requests.transcription(sound, language, task, times, False, kwargs, stream=True))

    async def read(self, image: Image, prompt: Optional[str] = None, **kwargs: Any) -> RequestOutput:
        """As LLM.read() of one image."""
        return await self.generate(requests.picture(image, prompt), **kwargs)

    async def read_pages(self, document: Image, prompt: Optional[str] = None, *, pages: Optional[str] = None, dpi: int = DPI,
                         **kwargs: Any) -> List[RequestOutput]:
        """As LLM.read() of a PDF file: an answer for each page. Pages are drawn beside the loop, few at a time."""
        made = await asyncio.to_thread(requests.Pages, [document], prompt, pages, dpi, kwargs)
        drawing = asyncio.Semaphore(_PAGES)

        async def one(index: int) -> RequestOutput:
            async with drawing:
                news = await self._answer(await asyncio.to_thread(made.request, index))
            return replace(output_of(news.body, index), page=made.page(index))

        return list(await asyncio.gather(*(one(index) for index in range(len(made)))))

    async def embed(self, prompts: Prompts, *, pooling: str = "mean", normalize: bool = True,
                    **kwargs: Any) -> NDArray[np.float32]:
        """LLM.embed(): [width] of one prompt, [n, width] of a list."""
        made = [requests.embedding(prompt, pooling, normalize, kwargs) for prompt in requests.listed(prompts)]
        rows = await asyncio.gather(*(self._answer(request) for request in made))
        vectors = [vector_of_news(news) for news in rows]
        return vectors[0] if requests.is_single(prompts) else np.stack(vectors)

    async def classify(self, text: Labelled, labels: Union[None, str, Sequence[str]] = None, *, multi_label: bool = False,
                       hypothesis_template: str = labelling.TEMPLATE, **kwargs: Any) -> Classification:
        """LLM.classify() of one text."""
        facts = self._engine.facts
        labelling.check_classifies(facts)
        names: List[str] = []
        hypotheses: Sequence[Optional[str]] = [None]
        if labels is not None:
            names, hypotheses = labelling.hypotheses(labels, hypothesis_template)
        made = [requests.classification(labelling.part_of(text, hypothesis), kwargs) for hypothesis in hypotheses]
        rows = [vector_of_news(news) for news in await asyncio.gather(*(self._answer(request) for request in made))]
        return labelling.zero_shot_of(np.stack(rows), names, facts, multi_label) if names else labelling.classification_of(rows[0], facts)

    async def score(self, source: Prompt, target: Union[str, Sequence[int]], *, append_eos: bool = True,
                    **kwargs: Any) -> TargetScore:
        """LLM.score() of one target."""
        return score_of((await self._answer(requests.score(source, target, append_eos, kwargs))).body)

    def tokenize(self, text: str) -> List[int]:
        """The ids of a text, with the tokenizer's special tokens."""
        return list(self._engine.tokenize({"text": text})["token_ids"])

    def detokenize(self, token_ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """The text of ids."""
        return str(self._engine.tokenize({"token_ids": token_ids, "skip_special_tokens": skip_special_tokens})["text"])

    @overload
    def map(self, prompts: Union[Iterable[Prompt], AsyncIterable[Prompt]], sampling_params: Params = None, *,
            ordered: bool = True, return_errors: Literal[False] = False, window: Optional[int] = None,
            use_tqdm: Optional[bool] = False, **kwargs: Any) -> AsyncIterator[RequestOutput]: ...
    @overload
    def map(self, prompts: Union[Iterable[Prompt], AsyncIterable[Prompt]], sampling_params: Params = None, *,
            ordered: bool = True, return_errors: bool, window: Optional[int] = None, use_tqdm: Optional[bool] = False,
            **kwargs: Any) -> AsyncIterator[Union[RequestOutput, Exception]]: ...

    def map(self, prompts: Union[Iterable[Prompt], AsyncIterable[Prompt]], sampling_params: Params = None, *,
            ordered: bool = True, return_errors: bool = False, window: Optional[int] = None,
            use_tqdm: Optional[bool] = False, **kwargs: Any) -> AsyncIterator[Any]:
        """LLM.map(): any number of prompts, from an iterator or an asynchronous one, with bounded memory."""
        source = _iterated(prompts if isinstance(prompts, AsyncIterable) else requests.iterated(prompts))
        made = requests.Generations(sampling_params, kwargs)
        bar = partial(progress, use_tqdm, len(prompts) if isinstance(prompts, Sized) else None)
        return self._run(source, made, checked_window(window, self._window), ordered=ordered, return_errors=return_errors, bar=bar)

    async def _run(self, source: AsyncIterator[Prompt], made: requests.Generations, window: int, *, ordered: bool = True,
                   return_errors: bool = False, numbers: bool = True, bar: Callable[[], Any] = lambda: None) -> AsyncIterator[Any]:
        """numbers: errors say which prompt. bar: makes one when the first answer is asked for."""
        tasks: Set[asyncio.Task[Tuple[int, Union[RequestOutput, Exception]]]] = set()
        done: Dict[int, Union[RequestOutput, Exception]] = {}
        sent, turn, more = 0, 0, True
        shown = bar()
        try:
            while more or tasks or done:
                while more and len(tasks) + len(done) < window:
                    try:
                        prompt = await source.__anext__()
                    except StopAsyncIteration:
                        more = False
                        break
                    tasks.add(asyncio.ensure_future(self._numbered(sent, prompt, made, numbers)))
                    sent += 1
                if tasks:
                    ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                    tasks -= ended
                    for task in ended:
                        index, output = task.result()
                        if isinstance(output, Exception) and not return_errors:
                            raise output
                        done[index] = output
                        if shown is not None:
                            shown.update(1)
                while done and (turn in done or not ordered):
                    index = turn if ordered else next(iter(done))
                    turn += 1
                    yield done.pop(index)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)  # so that the loop says nothing about them
            if shown is not None:
                shown.close()

    async def _numbered(self, index: int, prompt: Prompt, made: requests.Generations,
                        numbers: bool) -> Tuple[int, Union[RequestOutput, Exception]]:
        try:
            return index, output_of((await self._answer(made.request(prompt), index if numbers else None)).body, index)
        except (RequestError, EngineError, TimeoutError) as error:
            if isinstance(error, RequestError) and error.index is None and numbers:
                error = numbered(error, index)
            return index, error

    async def _answer(self, request: Request, index: Optional[int] = None) -> News:
        async for news in self._mailbox().follow(request, index):
            if news.last:
                return news
        raise EngineError("the engine is closed")

    async def _events(self, request: Request) -> AsyncIterator[StreamEvent]:
        async for news in self._mailbox().follow(request, None):
            yield StreamEvent(output=output_of(news.body, 0)) if news.last else event_of(news.body)

    def _mailbox(self) -> _Mail:
        loop = asyncio.get_running_loop()
        if self._mail is None or self._mail.loop is not loop:
            if self._mail is not None:
                self._mail.close()
            self._mail = _Mail(self._engine.inbox(), loop)
        return self._mail


class _Mail:
    """News of all requests of one event loop, which watches the inbox's descriptor."""

    def __init__(self, inbox: Inbox, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._inbox = inbox
        self._numbers = itertools.count()
        self._queues: Dict[int, asyncio.Queue[Optional[News]]] = {}
        loop.add_reader(inbox.fd(), self._read)

    def _read(self) -> None:
        for news in self._inbox.poll(0):
            queue = self._queues.get(news.number)
            if queue is not None:
                queue.put_nowait(news)

    async def follow(self, request: Request, index: Optional[int]) -> AsyncIterator[News]:
        number = next(self._numbers)
        queue: asyncio.Queue[Optional[News]] = asyncio.Queue()
        self._queues[number] = queue
        ended = False
        try:
            self._inbox.submit(number, request.text, request.sound)
            while not ended:
                news = await queue.get()
                if news is None:
                    raise EngineError("the engine is closed")
                ended = news.last
                if "error" in news.body:
                    raise error_of(news.body["error"], index)
                yield news
        finally:
            del self._queues[number]
            if not ended:
                self._inbox.cancel(number)

    def close(self) -> None:
        if not self.loop.is_closed():
            self.loop.remove_reader(self._inbox.fd())
        self._inbox.close()
        for queue in self._queues.values():
            queue.put_nowait(None)


async def _iterated(prompts: Union[Iterable[Prompt], AsyncIterable[Prompt]]) -> AsyncIterator[Prompt]:
    if isinstance(prompts, AsyncIterable):
        async for prompt in prompts:
            yield prompt
    else:
        for prompt in prompts:
            yield prompt
