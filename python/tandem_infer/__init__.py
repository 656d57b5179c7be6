"""Encoder/decoder transformers in this process: LLM, AsyncLLM, pipeline(). The client of a server: tandem_infer.client.

    from tandem_infer import LLM

    llm = LLM("facebook/bart-large-cnn")
    print(llm.summarize("A long text ..."))

docs/python.md is the guide. Nothing is loaded before it is used: tandem_infer.client needs no compiled library.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._errors import EngineError, MissingFileError, ModelError, RequestError, UnsupportedError
    from ._labels import Classification
    from ._outputs import (CompletionOutput, Delta, RequestMetrics, RequestOutput, Segment, StreamEvent, TargetScore,
                           Transcription, Word)
    from ._params import BeamSearchParams, SamplingParams
    from .async_llm import AsyncLLM
    from .llm import LLM
    from .pipelines import Pipeline, pipeline

__version__ = "0.1.0"

_MODULES = {
    "EngineError": "_errors", "MissingFileError": "_errors", "ModelError": "_errors", "RequestError": "_errors",
    "UnsupportedError": "_errors",
    "Classification": "_labels",
    "CompletionOutput": "_outputs", "Delta": "_outputs", "RequestMetrics": "_outputs", "RequestOutput": "_outputs",
    "Segment": "_outputs", "StreamEvent": "_outputs", "TargetScore": "_outputs", "Transcription": "_outputs", "Word": "_outputs",
    "BeamSearchParams": "_params", "SamplingParams": "_params",
    "AsyncLLM": "async_llm", "LLM": "llm", "Pipeline": "pipelines", "pipeline": "pipelines",
}

__all__ = [
    "AsyncLLM", "BeamSearchParams", "Classification", "CompletionOutput", "Delta", "EngineError", "LLM", "MissingFileError",
    "ModelError", "Pipeline", "RequestError", "RequestMetrics", "RequestOutput", "SamplingParams", "Segment", "StreamEvent",
    "TargetScore", "Transcription", "UnsupportedError", "Word", "pipeline",
]


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module("." + _MODULES[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])
