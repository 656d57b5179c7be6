"""Client of Tandem's HTTP server: Client, and AsyncClient with the same methods for asyncio."""
from ._async import AsyncClient, AsyncStream, AsyncTranscriptionStream
from ._errors import (ApiError, AuthenticationError, BadRequestError, ConnectionFailed, DeadlineError, NotFoundError,
                      OverloadedError, ServerError, TandemError, UnavailableError)
from ._protocol import Retries
from .._speech import Segment, Transcription, TranscriptionEvent, Word
from ._sync import Client, Stream, TranscriptionStream
from ._types import (Choice, Chunk, Completion, Embeddings, Health, Logprobs, ModelInfo, Prompt, Score, Scores, Tokens,
                     Usage)

__all__ = [
    "ApiError", "AsyncClient", "AsyncStream", "AsyncTranscriptionStream", "AuthenticationError", "BadRequestError", "Choice",
    "Chunk", "Client", "Completion", "ConnectionFailed", "DeadlineError", "Embeddings", "Health", "Logprobs", "ModelInfo",
    "NotFoundError", "OverloadedError", "Prompt", "Retries", "Score", "Scores", "Segment", "ServerError", "Stream",
    "TandemError", "Tokens", "Transcription", "TranscriptionEvent", "TranscriptionStream", "UnavailableError", "Usage", "Word",
]
__version__ = "0.1.0"
