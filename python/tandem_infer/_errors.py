"""What can go wrong, as Python's own kinds of exceptions."""
from __future__ import annotations

from typing import Any, Mapping, Optional


class EngineError(RuntimeError):
    """The engine cannot compute: it is closed, a device was lost, memory or threads are wanting."""


class RequestError(ValueError):
    """Something is wrong with a request or with an option of an engine.

    param: the name of the field or option at fault, or None. type: as in docs/client.md. index: which of several prompts.
    """

    def __init__(self, message: str, *, param: Optional[str] = None, type: str = "invalid_request_error",
                 index: Optional[int] = None) -> None:
        super().__init__(message)
        self.param = param
        self.type = type
        self.index = index


class ModelError(RequestError):
    """A file of the checkpoint is wrong or missing, or there is no such model; param: the file."""


class MissingFileError(RequestError, FileNotFoundError):
    """There is no such file or directory."""


class UnsupportedError(RequestError, NotImplementedError):
    """Valid, but Tandem does not do it, or this model cannot."""


def numbered(error: RequestError, index: int, several: bool = True) -> RequestError:
    """The same of a prompt, which the message names if there are several."""
    return type(error)(f"prompt {index}: {error}" if several else str(error), param=error.param, type=error.type, index=index)


def error_of(body: Mapping[str, Any], index: Optional[int] = None, several: bool = True) -> Exception:
    """The exception that an error object of the library stands for. index, several: as numbered()."""
    message = str(body.get("message", "unknown error"))
    kind = str(body.get("type", "internal_error"))
    param = body.get("param")
    if index is not None and several:
        message = f"prompt {index}: {message}"
    # (What could not be in time is refused before it is late.)
    if kind == "timeout_error" or (kind == "overloaded_error" and param == "timeout"):
        return TimeoutError(message)
    if kind in ("invalid_request_error", "resource_error", "not_found_error"):
        return RequestError(message, param=param, type=kind, index=index)
    if kind == "invalid_model_error":
        return ModelError(message, param=param, type=kind, index=index)
    if kind == "not_supported_error":
        return UnsupportedError(message, param=param, type=kind, index=index)
    return EngineError(message)
