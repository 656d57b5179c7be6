"""Labels of texts: what LLM.classify() asks and answers, as transformers' pipelines do. No engine here."""
from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np
from numpy.typing import NDArray

from ._errors import RequestError, UnsupportedError

# A text, token ids, a pair ("first", "second"), or {"text", "text_pair"}.
Labelled = Union[str, Sequence[int], Tuple[str, str], Mapping[str, str]]

TEMPLATE = "This example is {}."


@dataclass(frozen=True)
class Classification:
    """The labels of a text. label, score: the likeliest one. labels, scores: all, the likeliest first. logits: of the model's
    labels, in their order; None where the labels are the caller's."""
    label: str
    score: float
    labels: List[str]
    scores: List[float]
    logits: Optional[NDArray[np.float32]] = None


def is_one(texts: Any) -> bool:
    """Whether it is one text, and no list of some."""
    if isinstance(texts, (str, Mapping, tuple)):
        return True
    return isinstance(texts, Sequence) and len(texts) > 0 and isinstance(texts[0], int)


def listed(texts: Any) -> List[Any]:
    return [texts] if is_one(texts) else list(texts)


def check_classifies(facts: Mapping[str, Any]) -> None:
    if not facts.get("labels"):
        raise UnsupportedError(f"model: {facts.get('model')} has no labels; it does not classify", param="model",
                               type="not_supported_error")


def part_of(text: Labelled, hypothesis: Optional[str] = None) -> Any:
    """The encoder's part of a prompt. hypothesis: the second text; then the first alone is cut if they are too long."""
    if isinstance(text, str):
        part: Dict[str, Any] = {"prompt": text}
    elif isinstance(text, Mapping):
        unknown = set(text) - {"text", "text_pair"}
        if "text" not in text or unknown:
            raise RequestError("texts: a pair is {'text': …, 'text_pair': …}", param="texts")
        part = {"prompt": text["text"]}
        if text.get("text_pair") is not None:
            part["text_pair"] = text["text_pair"]
    elif isinstance(text, tuple):
        if len(text) != 2:
            raise RequestError(f"texts: {len(text)} texts are no pair", param="texts")
        part = {"prompt": text[0], "text_pair": text[1]}
    else:
        part = {"prompt_token_ids": list(text)}
    if hypothesis is None:
        return part
    if "prompt" not in part or "text_pair" in part:
        raise RequestError("texts: labels are put behind single texts", param="texts")
    return {**part, "text_pair": hypothesis, "truncation": "only_first"}


def hypotheses(labels: Union[str, Sequence[str]], template: str) -> Tuple[List[str], List[str]]:
    """The labels, and the second text for each: as transformers reads them."""
    names = [label.strip() for label in labels.split(",") if label.strip()] if isinstance(labels, str) else list(labels)
    if not names:
        raise RequestError("labels: there are none", param="labels")
    try:
        texts = [template.format(name) for name in names]
    except (IndexError, KeyError, ValueError) as error:
        raise RequestError(f"hypothesis_template: {template!r} has braces that are no {{}}: {error}", param="hypothesis_template") from None
    if texts[0] == template:
        raise RequestError(f"hypothesis_template: {template!r} has no {{}}, where the label goes", param="hypothesis_template")
    return names, texts


def _softmax(values: NDArray[np.float64]) -> NDArray[np.float64]:
    exponents = np.exp(values - values.max(-1, keepdims=True))
    return np.asarray(exponents / exponents.sum(-1, keepdims=True))


def probabilities(logits: NDArray[np.float32], activation: str) -> NDArray[np.float64]:
    values = logits.astype(np.float64)
    if activation == "softmax":
        return _softmax(values)
    return 1 / (1 + np.exp(-values)) if activation == "sigmoid" else values


def _classification(names: Sequence[str], scores: NDArray[np.float64], order: Sequence[int],
                    logits: Optional[NDArray[np.float32]] = None) -> Classification:
    return Classification(names[order[0]], float(scores[order[0]]), [names[i] for i in order], [float(scores[i]) for i in order],
                          logits)


def classification_of(logits: NDArray[np.float32], facts: Mapping[str, Any]) -> Classification:
    scores = probabilities(logits, facts["activation"])
    return _classification(facts["labels"], scores, np.argsort(-scores, kind="stable").tolist(), logits)


def zero_shot_of(logits: NDArray[np.float32], names: Sequence[str], facts: Mapping[str, Any], multi_label: bool) -> Classification:
    """logits: [labels, the model's labels]. As transformers: without a label of entailment the last one is taken for it."""
    entailment = facts.get("entailment", -1)
    if entailment == -1:
        warnings.warn("no label of the model begins with \"entail\" (label2id of config.json): the last one, "
                      f"{facts['labels'][-1]!r}, is taken for it", stacklevel=4)
    rows = logits.astype(np.float64)
    if multi_label or len(names) == 1:
        contradiction = -1 if entailment == 0 else 0
        scores = _softmax(rows[:, [contradiction, entailment]])[:, 1]
    else:
        scores = _softmax(rows[:, entailment])
    return _classification(names, scores, np.argsort(scores, kind="stable")[::-1].tolist())
