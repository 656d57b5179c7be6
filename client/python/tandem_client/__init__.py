"""Client of Tandem's HTTP server: Client, and AsyncClient with the same methods for asyncio."""
from ._async import AsyncClient, AsyncStream
from ._errors import (ApiError, AuthenticationError, BadRequestError, ConnectionFailed, DeadlineError, NotFoundError,
                      OverloadedError, ServerError, TandemError, UnavailableError)
from ._protocol import Retries
from ._sync import Client, Stream
from ._types import Choice, Chunk, Completion, Health, Logprobs, ModelInfo, Prompt, Tokens, Usage

__all__ = [
    "ApiError", "AsyncClient", "AsyncStream", "AuthenticationError", "BadRequestError", "Choice", "Chunk", "Client",
    "Completion", "ConnectionFailed", "DeadlineError", "Health", "Logprobs", "ModelInfo", "NotFoundError",
    "OverloadedError", "Prompt", "Retries", "ServerError", "Stream", "TandemError", "Tokens", "UnavailableError", "Usage",
]
__version__ = "0.1.0"
