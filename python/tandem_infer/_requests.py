"""Prompts as callers write them → requests of the library. No engine here: LLM and AsyncLLM share it."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from ._errors import RequestError
from ._library import dump
from ._pages import PdfFile, is_pdf
from ._params import Params, merged
from ._sound import Image, Sound, file_of_sound, url_of_image

# A text, token ids, or vLLM's dictionaries: {"prompt"}, {"prompt_token_ids"}, {"encoder_prompt", "decoder_prompt"}, each with
# {"multi_modal_data": {"image" or "audio": …}} if need be.
Prompt = Union[str, Sequence[int], Mapping[str, Any]]
Prompts = Union[Prompt, Sequence[Prompt]]

# Not of generation, but of the request.
_OF_REQUEST = ("priority", "timeout", "lora")


@dataclass
class Request:
    """What Inbox.submit() takes: JSON, as tandem_submit() wants it (python/native/library.h), and a sound's file."""
    text: bytes
    sound: Optional[bytes] = None


def _no_prompt(value: Any) -> RequestError:
    return RequestError(f"prompt: must be a text, token ids or a dictionary, not {type(value).__name__}", param="prompt")


def is_single(prompts: Any) -> bool:
    """Whether it is one prompt, and no list of some."""
    if isinstance(prompts, (str, bytes, bytearray, Mapping)):
        return True
    if not isinstance(prompts, Iterable):
        raise _no_prompt(prompts)
    return isinstance(prompts, Sequence) and len(prompts) > 0 and isinstance(prompts[0], int)


def listed(prompts: Any) -> List[Any]:
    return [prompts] if is_single(prompts) else list(prompts)


def iterated(prompts: Any) -> Iterable[Any]:
    """What map() takes."""
    if isinstance(prompts, (str, bytes, Mapping)) or not isinstance(prompts, Iterable):
        raise RequestError(f"prompts: must be an iterable of prompts, not {type(prompts).__name__}", param="prompts")
    return prompts


def _part(prompt: Any, sounds: List[Optional[bytes]], optional: bool = False) -> Any:
    """One side of a prompt, with files in place of arrays. optional: it may be None."""
    if isinstance(prompt, str) or (prompt is None and optional):
        return prompt
    if isinstance(prompt, Mapping):
        part = dict(prompt)
        data = part.get("multi_modal_data")
        if isinstance(data, Mapping):
            part["multi_modal_data"] = media = dict(data)
            if media.get("image") is not None:
                media["image"] = url_of_image(media["image"])
            if media.get("audio") is not None:
                media["audio"], sounds[0] = file_of_sound(media["audio"])
            part.setdefault("prompt", "")
        for side in ("encoder_prompt", "decoder_prompt"):
            if side in part:
                part[side] = _part(part[side], sounds, optional=True)
        return part
    if isinstance(prompt, (bytes, bytearray)) or not isinstance(prompt, Iterable):
        raise _no_prompt(prompt)
    return {"prompt_token_ids": list(prompt)}


def _body(line: Dict[str, Any], params: Dict[str, Any], kind: str = "generate", stream: bool = False) -> Dict[str, Any]:
    """The line comes last, and in it `line`, so that JSON of it can be continued."""
    of_request = {name: params.pop(name) for name in _OF_REQUEST if name in params}
    body: Dict[str, Any] = {"kind": kind, "stream": stream}
    if of_request.get("timeout") is not None:
        timeout = of_request["timeout"]
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0:
            raise RequestError(f"timeout: {timeout!r} is no number of seconds above 0", param="timeout")
        body["timeout"] = float(timeout)
    body["line"] = {"params": params, **line}
    for name in ("priority", "lora"):
        if of_request.get(name) is not None:
            body["line"] = {name: of_request[name], **body["line"]}
    return body


def _request(line: Dict[str, Any], params: Dict[str, Any], kind: str = "generate", stream: bool = False,
             sound: Optional[bytes] = None) -> Request:
    return Request(dump(_body(line, params, kind, stream)), sound)


class Generations:
    """Makes requests of generation that have all but the prompt in common."""

    def __init__(self, params: Params, kwargs: Mapping[str, Any], stream: bool = False) -> None:
        options = merged(params, kwargs)
        self._decoder_prompt = options.pop("decoder_prompt", None)
        self._begin = dump(_body({}, options, stream=stream))[:-2] + b', "prompt": '

    def request(self, prompt: Prompt) -> Request:
        sounds: List[Optional[bytes]] = [None]
        whole = _part(prompt, sounds)
        if self._decoder_prompt is not None:
            whole = {"encoder_prompt": whole, "decoder_prompt": _part(self._decoder_prompt, sounds)}
        return Request(self._begin + dump(whole, "prompt") + b"}}", sounds[0])


def generation(prompt: Prompt, params: Params, kwargs: Mapping[str, Any], stream: bool = False) -> Request:
    return Generations(params, kwargs, stream).request(prompt)


def picture(image: Image, text: Optional[str] = None) -> Prompt:
    return {"prompt": text or "", "multi_modal_data": {"image": image}}


class Pages:
    """Requests of images and of PDF files' pages: a picture for each, which is drawn when its request is made."""

    def __init__(self, images: Sequence[Any], text: Optional[str], pages: Optional[str], dpi: int, kwargs: Mapping[str, Any]) -> None:
        if pages is not None and not isinstance(pages, str):
            raise RequestError(f"pages: {pages!r} is no list of pages, such as \"1-3,7,9-\"", param="pages")
        if isinstance(dpi, bool) or not isinstance(dpi, int):
            raise RequestError(f"dpi: {dpi!r} is no whole number", param="dpi")
        self._generations = Generations(None, kwargs)
        self._text = text
        self._items: List[Tuple[Any, Optional[int]]] = []  # a PDF file and its page, or an image
        for image in images:
            if is_pdf(image):
                file = PdfFile(image, dpi)
                self._items += [(file, page) for page in file.pages(pages)]
            else:
                self._items.append((image, None))

    def __len__(self) -> int:
        return len(self._items)

    def page(self, index: int) -> Optional[int]:
        return self._items[index][1]

    def request(self, index: int) -> Request:
        image, page = self._items[index]
        return self._generations.request(picture(image if page is None else image.image(page), self._text))


def transcription(sound: Sound, language: Optional[str], task: Optional[str], timestamps: bool, word_timestamps: bool,
                  kwargs: Mapping[str, Any], stream: bool = False) -> Request:
    file, data = file_of_sound(sound)
    params = merged(None, kwargs)
    if language is not None:
        params["language"] = language
    if task is not None:
        params["task"] = task
    if timestamps:
        params.setdefault("return_timestamps", True)
    if word_timestamps:
        params["return_token_timestamps"] = True
    line = {"prompt": {"prompt": "", "multi_modal_data": {"audio": file}}}
    return _request(line, params, stream=stream, sound=data)


def embedding(prompt: Prompt, pooling: str, normalize: bool, kwargs: Mapping[str, Any]) -> Request:
    sounds: List[Optional[bytes]] = [None]
    line = {"prompt": {"encoder_prompt": _part(prompt, sounds), "pooling": pooling, "normalize": normalize}}
    return _request(line, merged(None, kwargs), sound=sounds[0])


def classification(part: Any, kwargs: Mapping[str, Any]) -> Request:
    """part: of the encoder, _labels.part_of()."""
    return _request({"prompt": {"encoder_prompt": part, "task": "classify"}}, merged(None, kwargs))


def score(source: Prompt, target: Union[str, Sequence[int]], append_eos: bool, kwargs: Mapping[str, Any]) -> Request:
    sounds: List[Optional[bytes]] = [None]
    line = {"prompt": _part(source, sounds), "target": _part(target, sounds), "append_eos": append_eos}
    if isinstance(line["prompt"], dict) and "encoder_prompt" in line["prompt"]:
        line.update(line.pop("prompt"))
    return _request(line, merged(None, kwargs), kind="score", sound=sounds[0])


def beam_params(params: Params, kwargs: Mapping[str, Any]) -> Dict[str, Any]:
    """kwargs of beam_search(): all beams are wanted."""
    out = dict(kwargs)
    if params is None:
        beams = out.pop("beam_width", 4)
        beams = out.setdefault("num_beams", beams)
        out.setdefault("num_return_sequences", beams)
    return out


def summary_params(facts: Mapping[str, Any]) -> Dict[str, Any]:
    """As `tandem summarize` asks: a text that is too long is summarised in parts, and they again (docs/documents.md)."""
    task = {"task": "summarization"} if "summarization" in (facts.get("tasks") or []) else {}
    return {"split": "auto", "merge": "summary", **task}


# Parameters that name a target language too.
_TARGETS = {"forced_bos_token_id", "decoder_start_token_id", "generation_config", "decoder_prompt", "task"}


def translation_params(facts: Mapping[str, Any], tgt_lang: Optional[str], src_lang: Optional[str],
                       given: Iterable[str] = ()) -> Dict[str, Any]:
    """Languages where the model has some, else the task of these languages (T5's). given: the names of other parameters."""
    named_ones = {name: value for name, value in (("src_lang", src_lang), ("tgt_lang", tgt_lang)) if value is not None}
    tasks = facts.get("tasks") or []
    if tgt_lang is None and facts.get("needs_target_language") and _TARGETS.isdisjoint(given):
        raise RequestError(f"tgt_lang: is missing: the model translates into {len(facts['target_languages'])} languages, "
                           "which LLM.facts[\"target_languages\"] lists", param="tgt_lang")
    if facts.get("target_languages") or not tasks:
        return named_ones  # also of a model of one pair, which may be named
    named = [t for t in tasks if t.startswith("translation")
             and (tgt_lang is None or t.endswith(f"_to_{tgt_lang}"))
             and (src_lang is None or t.startswith(f"translation_{src_lang}_to_"))]
    if len(named) == 1 or (named and tgt_lang is not None):
        return {"task": named[0]}
    if tgt_lang is None:
        return {}
    raise RequestError(f"tgt_lang: the model has no task for {tgt_lang!r}; it has {', '.join(tasks)}", param="tgt_lang")
