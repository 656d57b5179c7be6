"""LLM: a model in this process, for programs that wait for answers."""
from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import (TYPE_CHECKING, Any, Callable, Dict, Iterable, Iterator, List, Literal, Mapping, Optional, Sequence, Sized, Tuple,
                    TypeVar, Union, overload)

import numpy as np
from numpy.typing import NDArray

from . import _labels as labelling
from . import _requests as requests
from ._documents import Documents, Glossary, plain_texts
from ._errors import MissingFileError, RequestError, error_of
from ._flow import POLL_MS, Flow, Make, checked_window, progress, window_of
from ._labels import Classification, Labelled
from ._library import Engine, News
from ._outputs import (RequestOutput, StreamEvent, TargetScore, Transcription, event_of, output_of, score_of,
                       transcription_of)
from ._pages import DPI, is_pdf
from ._params import BeamSearchParams, Params
from ._requests import Prompt, Prompts, Request
from ._sound import Image, Sound

if TYPE_CHECKING:
    from types import TracebackType

_Result = TypeVar("_Result")
_TOGETHER = 64  # answers that are waited for where all are wanted before any is used
_SOUNDS = 8  # that are sent at one time: they wait as files
_PAGES = 64  # likewise: they wait as images


def engine_options(model: Any, dtype: Any, tensor_parallel_size: int, more: Mapping[str, Any]) -> Dict[str, Any]:
    if not isinstance(model, (str, os.PathLike)):
        raise RequestError(f"model: must be a directory or the id of a model at the hub, not {type(model).__name__}", param="model")
    name = os.fspath(model)
    if (isinstance(model, os.PathLike) or name.startswith(("/", "./", "../"))) and not os.path.exists(name):
        raise MissingFileError(f"model: there is no directory {name!r}", param="model")
    kind = dtype.__name__ if isinstance(dtype, type) else str(dtype)  # numpy.float32, torch.float32, "float32"
    given = {"model": name, "dtype": kind.replace("torch.", ""), "tensor_parallel_size": tensor_parallel_size, **more}
    if given.get("device") is not None:
        given["device"] = device_name(given["device"])
    return given


def device_name(device: Any) -> str:
    """Of 0 or torch.device("cuda:0"), as transformers takes them; -1 is the CPU."""
    if isinstance(device, int) and not isinstance(device, bool):
        return "cpu" if device < 0 else f"cuda:{device}"
    return str(device)


class LLM:
    """A model in this process.

    model: a directory with a HuggingFace checkpoint, or its id at the hub, which is downloaded. dtype: "auto", "float32",
    "bfloat16", "int8", "int4", … tensor_parallel_size: ranks, which are threads of this process. Any other option of an engine
    by the name of its flag (`tandem generate --help=all`): threads=2, device="cpu" or 0, max_num_seqs=64, kv_cache_memory="2GiB",
    revision="main", lora_modules={"name": directory, …} (docs/lora.md).

    Raises RequestError (a ValueError) whose `param` names the option, ModelError where the checkpoint is at fault. Methods may be
    called from any thread; requests of all of them share batches. Close it, or leave its `with`, to free the memory.
    """

    def __init__(self, model: Any, *, dtype: str = "auto", tensor_parallel_size: int = 1, **options: Any) -> None:
        given = engine_options(model, dtype, tensor_parallel_size, options)
        self._window = window_of(given)
        self._engine = Engine(given)

    @property
    def engine(self) -> Engine:
        """What computes; AsyncLLM.of() shares it."""
        return self._engine

    @property
    def facts(self) -> Dict[str, Any]:
        """What the model is: its dtype, languages, tasks, positions; whether it hears or reads images."""
        return dict(self._engine.facts)

    def close(self) -> None:
        """Frees the model. What is under way in other threads fails."""
        self._engine.close()

    def __enter__(self) -> LLM:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def generate(self, prompts: Prompts, sampling_params: Union[Params, Sequence[Params]] = None, *,
                 use_tqdm: Optional[bool] = None, **kwargs: Any) -> List[RequestOutput]:
        """Text for a prompt or a list of them, in their order. sampling_params: for all, or one for each. kwargs: parameters
        under HuggingFace's or vLLM's names (docs/parameters.md), which come before them; also generation_config,
        decoder_prompt, priority, timeout (seconds), lora (the name of an adapter, one of lora_modules). use_tqdm: None where there
        are several and standard error is a terminal.

        Raises RequestError for the first prompt that is wrong (`index` says which); the others are given up then.
        """
        items = requests.listed(prompts)
        if isinstance(sampling_params, Sequence) and not isinstance(sampling_params, (str, Mapping)):
            if len(sampling_params) != len(items):
                raise RequestError(f"sampling_params: {len(sampling_params)} of them for {len(items)} prompts",
                                   param="sampling_params")
            made = (partial(requests.generation, prompt, params, kwargs) for prompt, params in zip(items, sampling_params))
        else:
            request = requests.Generations(sampling_params, kwargs).request
            made = (partial(request, prompt) for prompt in items)
        return self._all(made, len(items), output_of_news, use_tqdm)

    def beam_search(self, prompts: Prompts, params: Optional[BeamSearchParams] = None, *, use_tqdm: Optional[bool] = None,
                    **kwargs: Any) -> List[RequestOutput]:
        """All beams of each prompt, the best first. Without params: num_beams=… and HuggingFace's other names."""
        return self.generate(prompts, params, use_tqdm=use_tqdm, **requests.beam_params(params, kwargs))

    @overload
    def translate(self, texts: str, tgt_lang: Optional[str] = None, *, src_lang: Optional[str] = None, format: str = "text",
                  glossary: Optional[Glossary] = None, use_tqdm: Optional[bool] = None, **kwargs: Any) -> str: ...
    @overload
    def translate(self, texts: Sequence[str], tgt_lang: Optional[str] = None, *, src_lang: Optional[str] = None, format: str = "text",
                  glossary: Optional[Glossary] = None, use_tqdm: Optional[bool] = None, **kwargs: Any) -> List[str]: ...

    def translate(self, texts: Union[str, Sequence[str]], tgt_lang: Optional[str] = None, *, src_lang: Optional[str] = None,
                  format: str = "text", glossary: Optional[Glossary] = None, use_tqdm: Optional[bool] = None,
                  **kwargs: Any) -> Union[str, List[str]]:
        """The texts in another language: a text for a text, a list for a list. Languages by the model's names ("deu_Latn",
        "de_DE") or any that docs/models.md knows; a model of one pair needs none. A text that is longer than the model reads is
        translated sentence by sentence, its layout kept: split="auto" (docs/documents.md).

        format: "markdown", "html", "xml", "srt" or "vtt" keeps the markup of the texts, as `tandem translate` does. glossary:
        words with translations of their own, as {source: target}, pairs of them, or the path of a .tsv or .csv file. With a
        format or a glossary each sentence is a request, and those of all texts share batches."""
        params = {"split": "auto", **requests.translation_params(self._engine.facts, tgt_lang, src_lang, kwargs), **kwargs}
        if format == "text" and glossary is None:
            return self._texts(texts, params, use_tqdm)
        documents = Documents(texts, format, glossary, src_lang, params["split"])
        request = requests.Generations(None, params).request
        made = (partial(request, text) for text in documents.texts())
        for answer in self._run(made, documents.total, text_of_news, use_tqdm, together=_TOGETHER, documents=documents):
            assert isinstance(answer, str)  # (errors are raised)
            documents.take(answer)
        return documents.written[0] if isinstance(texts, str) else documents.written

    @overload
    def summarize(self, texts: str, *, format: str = "text", use_tqdm: Optional[bool] = None, **kwargs: Any) -> str: ...
    @overload
    def summarize(self, texts: Sequence[str], *, format: str = "text", use_tqdm: Optional[bool] = None,
                  **kwargs: Any) -> List[str]: ...

    def summarize(self, texts: Union[str, Sequence[str]], *, format: str = "text", use_tqdm: Optional[bool] = None,
                  **kwargs: Any) -> Union[str, List[str]]:
        """The texts in short; the parameters of the model's task "summarization", if it has some. Of a text that is longer than
        the model reads the summary is one of summaries: split="auto", merge="summary" (docs/documents.md). format: as
        translate(); the summary is of the document's text, and has no markup."""
        params = {**requests.summary_params(self._engine.facts), **kwargs}
        if format == "text":
            return self._texts(texts, params, use_tqdm)
        plain = plain_texts(texts, format, params["split"])
        return self._texts(plain[0] if isinstance(texts, str) else plain, params, use_tqdm)

    def _texts(self, texts: Union[str, Sequence[str]], params: Dict[str, Any],
               use_tqdm: Optional[bool]) -> Union[str, List[str]]:
        outputs = self.generate(texts, use_tqdm=use_tqdm, **params)
        return outputs[0].text if isinstance(texts, str) else [output.text for output in outputs]

    @overload
    def transcribe(self, sounds: List[Sound], language: Optional[str] = None, *, task: Optional[str] = None,
                   timestamps: bool = True, word_timestamps: bool = False, use_tqdm: Optional[bool] = None,
                   **kwargs: Any) -> List[Transcription]: ...
    @overload
    def transcribe(self, sounds: Sound, language: Optional[str] = None, *, task: Optional[str] = None,
                   timestamps: bool = True, word_timestamps: bool = False, use_tqdm: Optional[bool] = None,
                   **kwargs: Any) -> Transcription: ...

    def transcribe(self, sounds: Union[Sound, List[Sound]], language: Optional[str] = None, *, task: Optional[str] = None,
                   timestamps: bool = True, word_timestamps: bool = False, use_tqdm: Optional[bool] = None,
                   **kwargs: Any) -> Union[Transcription, List[Transcription]]:
        """What is said, of any length. A sound is a file's path, its bytes, an open one, or samples: [n] or [channels, n], at
        16 kHz unless their rate stands beside them: (samples, rate). A list gives a list. language: "de" or "german"; found out
        otherwise. task: "translate" into English. timestamps: with segments, where the model knows times. kwargs: docs/speech.md."""
        several = isinstance(sounds, list)
        items: List[Any] = list(sounds) if several else [sounds]  # type: ignore[arg-type]
        times = timestamps and bool(self._engine.facts.get("times"))
        made = (partial(requests.transcription, sound, language, task, times, word_timestamps, kwargs) for sound in items)
        out = self._all(made, len(items), lambda news: transcription_of(news.body), use_tqdm, window=_SOUNDS)
        return out if several else out[0]

    @overload
    def read(self, images: List[Image], prompt: Optional[str] = None, *, pages: Optional[str] = None, dpi: int = DPI,
             use_tqdm: Optional[bool] = None, **kwargs: Any) -> List[RequestOutput]: ...
    @overload
    def read(self, images: Image, prompt: Optional[str] = None, *, pages: str, dpi: int = DPI,
             use_tqdm: Optional[bool] = None, **kwargs: Any) -> List[RequestOutput]: ...
    @overload
    def read(self, images: Image, prompt: Optional[str] = None, *, use_tqdm: Optional[bool] = None,
             **kwargs: Any) -> RequestOutput: ...

    def read(self, images: Union[Image, List[Image]], prompt: Optional[str] = None, *, pages: Optional[str] = None, dpi: int = DPI,
             use_tqdm: Optional[bool] = None, **kwargs: Any) -> Union[RequestOutput, List[RequestOutput]]:
        """What stands in an image: a file's path, its bytes, a Pillow image or an array [height, width, 3]. A list gives a list.
        A PDF file, a path or bytes, gives an answer for each page, also in a list; `page` says which. pages: "1-3,7,9-", all without
        it (with it, the answer is always a list); dpi: of the images that pages become. prompt: a text beside it, for models that
        read both. The text of an answer is `text`; `parsed` is what HuggingFace's processor makes of it (docs/images_input.md).
        kwargs: parameters of generation."""
        several = isinstance(images, list)
        items: List[Any] = list(images) if several else [images]  # type: ignore[arg-type]
        made = requests.Pages(items, prompt, pages, dpi, kwargs)
        out = self._all((partial(made.request, i) for i in range(len(made))), len(made), output_of_news, use_tqdm, window=_PAGES)
        out = [replace(output, page=made.page(output.index)) for output in out]
        return out if several or pages is not None or is_pdf(images) else out[0]

    def embed(self, prompts: Prompts, *, pooling: str = "mean", normalize: bool = True, use_tqdm: Optional[bool] = None,
              **kwargs: Any) -> NDArray[np.float32]:
        """The encoder's last hidden states, pooled ("mean", "cls" or "last"): [width] of one prompt, [n, width] of a list."""
        items = requests.listed(prompts)
        made = (partial(requests.embedding, prompt, pooling, normalize, kwargs) for prompt in items)
        rows = self._all(made, len(items), vector_of_news, use_tqdm)
        if requests.is_single(prompts):
            return rows[0]
        return np.stack(rows) if rows else np.zeros((0, 0), dtype=np.float32)

    @overload
    def classify(self, texts: List[Labelled], labels: Union[None, str, Sequence[str]] = None, *, multi_label: bool = False,
                 hypothesis_template: str = labelling.TEMPLATE, use_tqdm: Optional[bool] = None,
                 **kwargs: Any) -> List[Classification]: ...
    @overload
    def classify(self, texts: Labelled, labels: Union[None, str, Sequence[str]] = None, *, multi_label: bool = False,
                 hypothesis_template: str = labelling.TEMPLATE, use_tqdm: Optional[bool] = None,
                 **kwargs: Any) -> Classification: ...

    def classify(self, texts: Union[Labelled, List[Labelled]], labels: Union[None, str, Sequence[str]] = None, *,
                 multi_label: bool = False, hypothesis_template: str = labelling.TEMPLATE, use_tqdm: Optional[bool] = None,
                 **kwargs: Any) -> Union[Classification, List[Classification]]:
        """The labels of a text or of a list of them, by a model that classifies. A text may be a pair: ("premise", "hypothesis"),
        or {"text", "text_pair"}. labels: your own, as a list or "a, b, c", judged by a model of natural language inference
        (zero-shot), with hypothesis_template about each; multi_label: each for itself. kwargs: truncate_prompt_tokens, …"""
        facts = self._engine.facts
        labelling.check_classifies(facts)
        items = labelling.listed(texts)
        if labels is None:
            made = (partial(self._classification, text, None, kwargs) for text in items)
            out = [labelling.classification_of(row, facts) for row in self._all(made, len(items), vector_of_news, use_tqdm)]
        else:
            names, hypotheses = labelling.hypotheses(labels, hypothesis_template)
            made = (partial(self._classification, text, hypothesis, kwargs) for text in items for hypothesis in hypotheses)
            rows = self._all(made, len(items) * len(names), vector_of_news, use_tqdm)
            out = [labelling.zero_shot_of(np.stack(rows[i:i + len(names)]), names, facts, multi_label)
                   for i in range(0, len(rows), len(names))]
        return out[0] if labelling.is_one(texts) else out

    @staticmethod
    def _classification(text: Labelled, hypothesis: Optional[str], kwargs: Mapping[str, Any]) -> Request:
        return requests.classification(labelling.part_of(text, hypothesis), kwargs)

    @overload
    def score(self, sources: Prompt, targets: str, *, append_eos: bool = True, use_tqdm: Optional[bool] = None,
              **kwargs: Any) -> TargetScore: ...
    @overload
    def score(self, sources: Prompts, targets: Sequence[str], *, append_eos: bool = True, use_tqdm: Optional[bool] = None,
              **kwargs: Any) -> List[TargetScore]: ...

    def score(self, sources: Prompts, targets: Union[str, Sequence[str]], *, append_eos: bool = True,
              use_tqdm: Optional[bool] = None, **kwargs: Any) -> Union[TargetScore, List[TargetScore]]:
        """How likely targets are: one source for all of them, or one for each. One target gives one score, a list a list."""
        wanted = requests.listed(targets)
        given = requests.listed(sources)
        if len(given) == 1:
            given = given * len(wanted)
        if len(given) != len(wanted):
            raise RequestError(f"targets: {len(wanted)} of them for {len(given)} sources", param="targets")
        made = (partial(requests.score, source, target, append_eos, kwargs) for source, target in zip(given, wanted))
        out = self._all(made, len(wanted), lambda news: score_of(news.body), use_tqdm)
        return out[0] if requests.is_single(targets) else out

    def stream(self, prompt: Prompt, sampling_params: Params = None, **kwargs: Any) -> Iterator[StreamEvent]:
        """One prompt, as it is generated: events with what is new, then one with the whole `output`. Leaving the loop cancels
        the request. Beams come at the end, whole."""
        yield from self._events(requests.generation(prompt, sampling_params, kwargs, stream=True))

    def stream_transcription(self, sound: Sound, language: Optional[str] = None, *, task: Optional[str] = None,
                             timestamps: bool = True, **kwargs: Any) -> Iterator[StreamEvent]:
        """The same of a sound: text and segments window by window, and how many seconds are done."""
        times = timestamps and bool(self._engine.facts.get("times"))
        yield from self._events(requests.transcription(sound, language, task, times, False, kwargs, stream=True))

    @overload
    def map(self, prompts: Iterable[Prompt], sampling_params: Params = None, *, ordered: bool = True,
            return_errors: Literal[False] = False, window: Optional[int] = None, use_tqdm: Optional[bool] = False,
            **kwargs: Any) -> Iterator[RequestOutput]: ...
    @overload
    def map(self, prompts: Iterable[Prompt], sampling_params: Params = None, *, ordered: bool = True, return_errors: bool,
            window: Optional[int] = None, use_tqdm: Optional[bool] = False,
            **kwargs: Any) -> Iterator[Union[RequestOutput, Exception]]: ...

    def map(self, prompts: Iterable[Prompt], sampling_params: Params = None, *, ordered: bool = True,
            return_errors: bool = False, window: Optional[int] = None, use_tqdm: Optional[bool] = False,
            **kwargs: Any) -> Iterator[Any]:
        """Answers to any number of prompts, as long as there are some: prompts are taken from the iterator while fewer than
        `window` answers are wanting or wait for the one before them, so that memory is bounded. ordered: in the prompts' order,
        else as they finish (`output.index` says which). return_errors: what a prompt fails with is in its place, instead of
        being raised."""
        request = requests.Generations(sampling_params, kwargs).request
        made = (partial(request, prompt) for prompt in requests.iterated(prompts))
        total = len(prompts) if isinstance(prompts, Sized) else None
        yield from self._run(made, total, output_of_news, use_tqdm, ordered=ordered, return_errors=return_errors, window=window)

    def tokenize(self, text: str) -> List[int]:
        """The ids of a text, with the tokenizer's special tokens."""
        return list(self._engine.tokenize({"text": text})["token_ids"])

    def detokenize(self, token_ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """The text of ids."""
        return str(self._engine.tokenize({"token_ids": token_ids, "skip_special_tokens": skip_special_tokens})["text"])

    def _events(self, request: Request) -> Iterator[StreamEvent]:
        inbox = self._engine.inbox()
        try:
            inbox.submit(0, request.text, request.sound)
            while True:
                for news in inbox.poll(POLL_MS):
                    if "error" in news.body:
                        raise error_of(news.body["error"])
                    if news.last:
                        yield StreamEvent(output=output_of(news.body, 0))
                        return
                    yield event_of(news.body)
        finally:
            inbox.close()

    def _all(self, made: Iterator[Make], total: int, result: Callable[[News], _Result], use_tqdm: Optional[bool],
             window: Optional[int] = None) -> List[_Result]:
        return list(self._run(made, total, result, use_tqdm, window=window, together=_TOGETHER))  # type: ignore[arg-type]

    def _run(self, made: Iterator[Make], total: Optional[int], result: Callable[[News], _Result], use_tqdm: Optional[bool],
             *, ordered: bool = True, return_errors: bool = False, window: Optional[int] = None, together: int = 1,
             documents: Optional[Documents] = None) -> Iterator[Union[_Result, Exception]]:
        """documents: that the requests are parts of."""
        most = checked_window(window, self._window)
        bar = progress(use_tqdm, total)
        several = total != 1 if documents is None else len(documents) > 1
        prompt_of = (lambda request: request) if documents is None else documents.document_of
        flow = Flow(self._engine.inbox(), made, most, ordered, several, prompt_of)
        try:
            while flow.fill():
                for index, news, error in flow.wait(together):
                    if bar is not None:
                        bar.update(1)
                    if error is not None and not return_errors:
                        raise error
                    flow.put(index, error if error is not None or news is None else result(news))
                yield from flow.ready()
        finally:
            flow.close()
            if bar is not None:
                bar.close()


def output_of_news(news: News) -> RequestOutput:
    return output_of(news.body, news.number)


def text_of_news(news: News) -> str:
    return output_of_news(news).text


def vector_of_news(news: News) -> NDArray[np.float32]:
    if news.values is None:
        raise RequestError("pooling: the model gave no vector", param="pooling")
    return news.values
