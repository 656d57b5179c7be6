"""What can go wrong, as exceptions."""
from __future__ import annotations

from typing import Any, Dict, Optional, Type


class TandemError(Exception):
    """Of this package."""


class ConnectionFailed(TandemError):
    """The server cannot be reached, was silent for too long, or the connection broke off."""


class ApiError(TandemError):
    """The server refused a request or failed at it.

    status: of HTTP; type, param: OpenAI's (param names the field that is wrong); request_id: to find it in the server's
    log; retry_after: seconds that the server asks to wait.
    """

    def __init__(self, message: str, *, status: int, type: str = "", param: Optional[str] = None, request_id: str = "",
                 retry_after: Optional[float] = None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.type = type
        self.param = param
        self.request_id = request_id
        self.retry_after = retry_after

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.status}, {self.message!r}, param={self.param!r})"


class BadRequestError(ApiError):
    """400, 405, 413, 431: something is wrong with the request."""


class AuthenticationError(ApiError):
    """401, 403: no key, or a wrong one."""


class NotFoundError(ApiError):
    """404: no such model, or no such route (an older server)."""


class DeadlineError(ApiError):
    """408: the request's timeout passed first."""


class OverloadedError(ApiError):
    """429: the server has as many prompts under way as it takes."""


class UnavailableError(ApiError):
    """503: the server is loading its model or shutting down."""


class ServerError(ApiError):
    """500 and others: the server's own fault."""


_BY_STATUS: Dict[int, Type[ApiError]] = {401: AuthenticationError, 403: AuthenticationError, 404: NotFoundError,
                                         408: DeadlineError, 429: OverloadedError, 503: UnavailableError}


def api_error(status: int, body: Any, *, request_id: str = "", retry_after: Optional[float] = None) -> ApiError:
    """body: the answer's JSON if it is some. Errors in a stream have their status in `code`, and `status` 200."""
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        error = {"message": error if isinstance(error, str) else f"the server answered with status {status}"}
    code = error.get("code")
    if status == 200:
        status = code if isinstance(code, int) else 500
    cls = _BY_STATUS.get(status) or (BadRequestError if 400 <= status < 500 else ServerError)
    return cls(str(error.get("message", "")), status=status, type=str(error.get("type") or ""), param=error.get("param"),
               request_id=request_id, retry_after=retry_after)
