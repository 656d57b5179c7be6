"""Client of Tandem's HTTP server: Client, and AsyncClient with the same methods for asyncio."""
from ._async import AsyncClient, AsyncStream
from ._errors import (ApiError, AuthenticationError, BadRequestError, ConnectionFailed, DeadlineError, NotFoundError,
                      OverloadedError, ServerError, TandemError, UnavailableError)
from ._protocol import Retries
from ._sync import Client, Stream
from ._types import (Choice, Chunk, Completion, Embeddings, Health, Logprobs, ModelInfo, Prompt, Score, Scores, Tokens,
                     Usage)

__all__ = [
    "ApiError", "AsyncClient", "AsyncStream", "AuthenticationError", "BadRequestError", "Choice", "Chunk", "Client",
    "Completion", "ConnectionFailed", "DeadlineError", "Embeddings", "Health", "Logprobs", "ModelInfo", "NotFoundError",
    "OverloadedError", "Prompt", "Retries", "Score", "Scores", "ServerError", "Stream", "TandemError", "Tokens",
    "UnavailableError", "Usage",
]
__version__ = "0.1.0"
