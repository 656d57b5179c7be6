"""pipeline(task, model) with the results of transformers' pipelines, which transformers 5 has no more for texts to texts.

    from tandem_infer import pipeline

    summarizer = pipeline("summarization", "facebook/bart-large-cnn")
    summarizer("A long text ...", max_length=60)  # [{"summary_text": "..."}]
"""
from __future__ import annotations

import difflib
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Union

from ._errors import RequestError, UnsupportedError
from ._labels import check_classifies, probabilities
from ._outputs import RequestOutput
from ._requests import translation_params
from .llm import LLM

_KEYS = {"summarization": "summary", "translation": "translation", "text2text-generation": "generated",
         "image-to-text": "generated", "image-text-to-text": "generated"}
_TASKS = (*_KEYS, "automatic-speech-recognition", "text-classification", "zero-shot-classification")
_ALIASES = {"speech-recognition": "automatic-speech-recognition", "asr": "automatic-speech-recognition", "ocr": "image-to-text",
            "sentiment-analysis": "text-classification"}
# What has the place of other tasks.
_INSTEAD = {"feature-extraction": "LLM.embed()", "sentence-similarity": "LLM.embed()", "question-answering": "`tandem answer`",
            "document-question-answering": "LLM.read(image, question)", "text-generation": "'text2text-generation'"}
# Of transformers' methods, and of no effect here: batches are continuous, and a text is whole.
_WITHOUT_EFFECT = ("batch_size", "num_workers", "clean_up_tokenization_spaces", "return_text", "padding")


class Pipeline:
    """Made by pipeline(). Calling it gives what transformers' pipeline of the task gives."""

    def __init__(self, task: str, llm: LLM, params: Mapping[str, Any]) -> None:
        self.task = task
        self.llm = llm
        self._params = dict(params)

    def __call__(self, inputs: Any, *labels: Any, **kwargs: Any) -> Any:
        """inputs: a text, sound or image, or a list of them; a list gives a list. kwargs: parameters of generation, or
        generate_kwargs={…}; for sound return_timestamps (True or "word"), chunk_length_s, stride_length_s; for labels top_k and
        function_to_apply, or candidate_labels (also the second argument), hypothesis_template and multi_label."""
        params = {**self._params, **kwargs}
        if labels:
            if len(labels) > 1 or self.task != "zero-shot-classification":
                raise RequestError("candidate_labels: there are too many arguments", param="candidate_labels")
            params["candidate_labels"] = labels[0]
        params.update(params.pop("generate_kwargs", None) or {})
        for name in _WITHOUT_EFFECT:
            params.pop(name, None)
        if self.task == "automatic-speech-recognition":
            return self._transcribe(inputs, params)
        if self.task == "text-classification":
            return self._classify(inputs, params)
        if self.task == "zero-shot-classification":
            return self._judge(inputs, params)
        if self.task in ("image-to-text", "image-text-to-text"):
            return self._read(inputs, params)
        return self._write(inputs, params)

    def _write(self, inputs: Union[str, Sequence[str]], params: Dict[str, Any]) -> List[Any]:
        tokens = params.pop("return_tensors", False)
        if not isinstance(inputs, Iterable):
            raise RequestError(f"inputs: must be a text or a list of texts, not {type(inputs).__name__}", param="inputs")
        texts = [inputs] if isinstance(inputs, str) else list(inputs)
        outputs = self.llm.generate(texts, use_tqdm=False, **{**self._of_task(params), **params})
        answers = [self._dictionaries(output, tokens) for output in outputs]
        if isinstance(inputs, str):
            return answers[0]
        return [a[0] for a in answers] if all(len(a) == 1 for a in answers) else answers

    def _of_task(self, params: Dict[str, Any]) -> Dict[str, Any]:
        if not self.task.startswith("translation"):
            return {"task": self.task} if self.task in (self.llm.facts.get("tasks") or []) else {}
        src, tgt = params.pop("src_lang", None), params.pop("tgt_lang", None)
        if self.task != "translation" and tgt is None:  # "translation_en_to_de"
            parts = self.task.split("_")
            if len(parts) != 4 or parts[2] != "to":
                raise RequestError(f"task: {self.task!r} is not translation_XX_to_YY", param="task")
            if not self.llm.facts.get("target_languages"):
                return {"task": self.task} if self.task in (self.llm.facts.get("tasks") or []) else {}
            src, tgt = parts[1], parts[3]
        return translation_params(self.llm.facts, tgt, src, params)

    def _dictionaries(self, output: RequestOutput, tokens: bool = False) -> List[Dict[str, Any]]:
        key = _KEYS["translation" if self.task.startswith("translation") else self.task]
        if tokens:
            return [{f"{key}_token_ids": [*output.prompt_token_ids, *one.token_ids]} for one in output.outputs]
        return [{f"{key}_text": one.text} if one.parsed is None else {f"{key}_text": one.text, "parsed": one.parsed}
                for one in output.outputs]

    def _classify(self, inputs: Any, params: Dict[str, Any]) -> Any:
        """A dictionary for each text; with top_k (None: all) a list of them, the likeliest first."""
        apply = params.pop("function_to_apply", None)
        legacy = "top_k" not in params
        top_k = params.pop("top_k", 1)
        several = isinstance(inputs, list)
        answers: List[Any] = []
        for found in self.llm.classify(list(inputs) if several else [inputs], use_tqdm=False, **_cut(params)):
            scores = found.scores
            if apply is not None:
                assert found.logits is not None
                by_label = dict(zip(self.llm.facts["labels"], probabilities(found.logits, str(apply).lower()).tolist()))
                scores = [by_label[label] for label in found.labels]
            rows = [{"label": label, "score": score} for label, score in zip(found.labels, scores)]
            answers.append(rows[0] if legacy else rows[:top_k])
        if several:
            return answers
        return answers if legacy and isinstance(inputs, str) else answers[0]

    def _judge(self, inputs: Any, params: Dict[str, Any]) -> Any:
        if params.get("candidate_labels") is None:
            raise RequestError("candidate_labels: is missing", param="candidate_labels")
        labels = params.pop("candidate_labels")
        several = isinstance(inputs, list)
        texts = list(inputs) if several else [inputs]
        answers = [{"sequence": text, "labels": found.labels, "scores": found.scores} for text, found in
                   zip(texts, self.llm.classify(texts, labels, use_tqdm=False, **_cut(params)))]
        return answers if several else answers[0]

    def _read(self, inputs: Any, params: Dict[str, Any]) -> List[Any]:
        several = isinstance(inputs, (list, tuple))
        text = params.pop("text", None)
        outputs = self.llm.read(list(inputs) if several else [inputs], text, use_tqdm=False, **params)
        answers = [self._dictionaries(output) for output in outputs]
        return answers if several else answers[0]

    def _transcribe(self, inputs: Any, params: Dict[str, Any]) -> Any:
        times = params.pop("return_timestamps", None)
        language = params.pop("return_language", False)
        several = isinstance(inputs, list)
        answers = []
        for said in self.llm.transcribe(list(inputs) if several else [inputs], timestamps=bool(times),
                                        word_timestamps=times == "word", use_tqdm=False, **params):
            answer: Dict[str, Any] = {"text": said.raw_text}
            parts = said.words if times == "word" else said.segments
            if times:
                answer["chunks"] = [{"text": getattr(part, "word", None) or getattr(part, "text", ""),
                                     "timestamp": (part.start, part.end)} for part in parts]
                if language:
                    for chunk in answer["chunks"]:
                        chunk["language"] = said.language
            answers.append(answer)
        return answers if several else answers[0]


def pipeline(task: Optional[str] = None, model: Any = None, *, dtype: Any = None, torch_dtype: Any = None, device: Any = None,
             device_map: Any = None, model_kwargs: Optional[Mapping[str, Any]] = None, llm: Optional[LLM] = None,
             tokenizer: Any = None, feature_extractor: Any = None, revision: Optional[str] = None, framework: Any = None,
             use_fast: Any = None, trust_remote_code: Any = None, **params: Any) -> Pipeline:
    """A pipeline of transformers over LLM. task: summarization, translation (or translation_en_to_de),
    text2text-generation, automatic-speech-recognition, image-to-text, text-classification, zero-shot-classification; None: what
    the model is for, as far as it says so. model: a directory or an id; or llm, which is there.
    device or device_map: -1, "cpu", 0, "cuda", "cuda:1", "auto", None. model_kwargs: options of LLM. params: defaults of each call (max_length, tgt_lang, …).
    The tokenizer and the feature extractor are the checkpoint's; framework, use_fast and trust_remote_code are of no effect."""
    if task is not None:
        task = _known_task(task)
    if llm is None:
        if model is None:
            raise RequestError("model: is missing; there is no default one", param="model")
        options: Dict[str, Any] = dict(model_kwargs or {})
        wanted = dtype if dtype is not None else torch_dtype
        if wanted is not None:
            options["dtype"] = str(wanted).replace("torch.", "")
        where = device if device is not None else device_map
        if where is not None:
            options["device"] = where
        if revision is not None:
            options["revision"] = revision
        llm = LLM(model, **options)
    if task is None:
        task = _task_of(llm.facts)
    if task == "automatic-speech-recognition" and not llm.facts.get("hears"):
        raise UnsupportedError(f"model: {llm.facts['model']} hears nothing", param="model", type="not_supported_error")
    if task.endswith("-classification"):
        check_classifies(llm.facts)
    return Pipeline(task, llm, params)


def _known_task(task: str) -> str:
    task = _ALIASES.get(task, task)
    if task in _TASKS or task.startswith("translation_"):
        return task
    near = difflib.get_close_matches(task, _TASKS, 1)
    meant = f"it is {_INSTEAD[task]} here" if task in _INSTEAD else f"did you mean {near[0]!r}?" if near else ""
    raise UnsupportedError(f"task: {task!r} is none of {', '.join(_TASKS)}" + ("; " + meant if meant else ""), param="task",
                           type="not_supported_error")


def _task_of(facts: Mapping[str, Any]) -> str:
    if facts.get("hears"):
        return "automatic-speech-recognition"
    if facts.get("reads_images"):
        return "image-to-text"
    return "text-classification" if facts.get("labels") else "text2text-generation"


def _cut(params: Dict[str, Any]) -> Dict[str, Any]:
    """The tokenizer's truncation and max_length under our name."""
    truncation, most = params.pop("truncation", False), params.pop("max_length", None)
    if truncation and truncation != "do_not_truncate":
        params["truncate_prompt_tokens"] = -1 if most is None else most
    return params
