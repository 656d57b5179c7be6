"""What goes in and what comes out, as dataclasses. Fields that a newer server adds are ignored."""
from __future__ import annotations

import base64
import sys
from array import array
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Optional, Sequence, Union

try:
    from typing import TypedDict
except ImportError:  # pragma: no cover
    from typing_extensions import TypedDict

# The encoder's input: a text, token ids, or a list of either.
Prompt = Union[str, Sequence[int], Sequence[str], Sequence[Sequence[int]]]


class GenerationParams(TypedDict, total=False):
    """Keyword arguments of every request for text; docs/parameters.md says what each does. What is not given comes from
    the model's generation_config.json. None means None: it switches off what the model's configuration switches on."""
    max_tokens: Optional[int]
    max_new_tokens: Optional[int]
    max_length: Optional[int]
    min_tokens: Optional[int]
    min_new_tokens: Optional[int]
    min_length: Optional[int]
    max_time: Optional[float]
    num_beams: Optional[int]
    n: Optional[int]
    num_return_sequences: Optional[int]
    best_of: Optional[int]
    use_beam_search: bool
    do_sample: Optional[bool]
    temperature: Optional[float]
    top_k: Optional[int]
    top_p: Optional[float]
    min_p: Optional[float]
    seed: Optional[int]
    repetition_penalty: Optional[float]
    presence_penalty: Optional[float]
    frequency_penalty: Optional[float]
    no_repeat_ngram_size: Optional[int]
    encoder_no_repeat_ngram_size: Optional[int]
    length_penalty: Optional[float]
    early_stopping: Union[bool, str, None]
    bad_words: Union[str, List[str], None]
    bad_words_ids: Optional[List[List[int]]]
    allowed_token_ids: Optional[List[int]]
    guided_choice: Optional[List[str]]
    guided_regex: Optional[str]
    guided_json: Union[Dict[str, Any], str, bool, None]
    guided_grammar: Optional[str]
    response_format: Optional[Dict[str, Any]]
    structured_outputs: Optional[Dict[str, Any]]
    suppress_tokens: Optional[List[int]]
    begin_suppress_tokens: Optional[List[int]]
    forced_bos_token_id: Optional[int]
    forced_eos_token_id: Optional[int]
    logit_bias: Optional[Dict[str, float]]
    stop: Union[str, List[str], None]
    stop_token_ids: Optional[List[int]]
    ignore_eos: Optional[bool]
    include_stop_str_in_output: Optional[bool]
    logprobs: Union[int, bool, None]
    top_logprobs: Optional[int]
    prompt_logprobs: Union[int, bool, None]
    return_tokens_as_token_ids: bool
    truncate_prompt_tokens: Optional[int]
    add_special_tokens: Optional[bool]
    allow_empty_prompt: Optional[bool]
    decoder_prompt: Union[str, List[int], None]
    src_lang: Optional[str]
    tgt_lang: Optional[str]
    source_lang: Optional[str]
    target_lang: Optional[str]
    task: Optional[str]
    echo: bool
    cache_salt: Optional[str]
    global_attention: Optional[List[int]]
    request_id: Optional[str]
    priority: Optional[int]
    timeout: Optional[float]
    return_token_ids: bool


@dataclass(frozen=True)
class Usage:
    """Tokens: of the encoder's inputs, generated, both."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0


@dataclass(frozen=True)
class Logprobs:
    """For each token: its text, its log-probability, those of the most likely ones, and where it begins in the text (not
    for chats)."""
    tokens: List[str]
    token_logprobs: List[float]
    top_logprobs: List[Dict[str, float]]
    text_offset: List[int] = field(default_factory=list)


@dataclass(frozen=True)
class Choice:
    """A sequence, or in a stream what is new of it. score: of a beam, HuggingFace's sequences_scores. prompt_logprobs: of the
    decoder's prompt, None for its first token; by token id: logprob, rank, decoded_token."""
    index: int
    text: str
    finish_reason: Optional[str] = None
    stop_reason: Union[str, int, None] = None
    logprobs: Optional[Logprobs] = None
    token_ids: Optional[List[int]] = None
    score: Optional[float] = None
    prompt_logprobs: Optional[List[Optional[Dict[str, Dict[str, Any]]]]] = None


@dataclass(frozen=True)
class Completion:
    """choices: those of the first prompt, then those of the second, …"""
    id: str
    model: str
    created: int
    choices: List[Choice]
    usage: Usage
    request_id: str = ""

    @property
    def text(self) -> str:
        """Of the first choice."""
        return self.choices[0].text

    @property
    def texts(self) -> List[str]:
        return [choice.text for choice in self.choices]


@dataclass(frozen=True)
class Chunk:
    """An event of a stream: what is new. The last one has the usage and no choice."""
    id: str
    model: str
    choices: List[Choice]
    usage: Optional[Usage] = None

    @property
    def text(self) -> str:
        return "".join(choice.text for choice in self.choices)


@dataclass(frozen=True)
class Tokens:
    tokens: List[int]
    count: int
    max_model_len: int
    token_strs: Optional[List[str]] = None


class EmbeddingParams(TypedDict, total=False):
    """Keyword arguments of embed(). pooling: "mean" (of all tokens' states), "cls" or "last"; normalize: to length 1, as the
    server does unless told otherwise; timeout: of the whole request, in seconds."""
    pooling: str
    normalize: bool
    truncate_prompt_tokens: Optional[int]
    add_special_tokens: Optional[bool]
    global_attention: Optional[List[int]]
    src_lang: Optional[str]
    priority: Optional[int]
    timeout: Optional[float]


@dataclass(frozen=True)
class Embeddings:
    """vectors: one for each input, in their order; float32 values."""
    vectors: List[List[float]]
    model: str
    usage: Usage
    request_id: str = ""

    @property
    def vector(self) -> List[float]:
        """Of the first input."""
        return self.vectors[0]


@dataclass(frozen=True)
class Score:
    """Of a target: the log-probability of each of its tokens, their mean (score) and sum; None: minus infinity."""
    index: int
    score: Optional[float]
    cumulative_logprob: Optional[float]
    perplexity: Optional[float]
    token_ids: List[int]
    token_logprobs: List[Optional[float]]


@dataclass(frozen=True)
class Scores:
    """One for each target, in their order."""
    scores: List[Score]
    model: str
    usage: Usage
    request_id: str = ""

    def __iter__(self) -> Iterator[Score]:
        return iter(self.scores)

    def __len__(self) -> int:
        return len(self.scores)

    def __getitem__(self, index: int) -> Score:
        return self.scores[index]


@dataclass(frozen=True)
class ModelInfo:
    """source_languages, target_languages, tasks: what src_lang, tgt_lang and task may name; empty where the model has none.
    speech_tasks: of a model that hears, which transcribe() may be asked for; speech_languages: that it tells apart;
    speech_times: whether it says when each text is said."""
    id: str
    created: int = 0
    max_model_len: int = 0
    source_languages: List[str] = field(default_factory=list)
    target_languages: List[str] = field(default_factory=list)
    default_source_language: str = ""
    tasks: List[str] = field(default_factory=list)
    speech_tasks: List[str] = field(default_factory=list)
    speech_languages: List[str] = field(default_factory=list)
    speech_times: bool = False


@dataclass(frozen=True)
class Health:
    """ready: requests are being computed; otherwise the reason why not."""
    ready: bool
    reason: str = ""

    def __bool__(self) -> bool:
        return self.ready


def model_of(body: Any) -> ModelInfo:
    return ModelInfo(**{name: body[name] for name in ModelInfo.__dataclass_fields__ if name in body})


def usage_of(body: Any) -> Usage:
    return Usage(**{name: int(body.get(name) or 0) for name in ("prompt_tokens", "completion_tokens", "total_tokens")})


def logprobs_of(body: Any) -> Optional[Logprobs]:
    if not body:
        return None
    if "content" in body:
        content = body["content"] or []
        return Logprobs([t["token"] for t in content], [t["logprob"] for t in content],
                        [{top["token"]: top["logprob"] for top in reversed(t.get("top_logprobs", []))} for t in content])
    return Logprobs(body["tokens"], body["token_logprobs"], body["top_logprobs"], body.get("text_offset", []))


def choice_of(body: Any, prompt_logprobs: Any = None) -> Choice:
    text = body.get("text")
    if text is None:
        text = (body.get("message") or body.get("delta") or {}).get("content") or ""
    return Choice(body["index"], text, body.get("finish_reason"), body.get("stop_reason"),
                  logprobs_of(body.get("logprobs")), body.get("token_ids"), body.get("score"),
                  body.get("prompt_logprobs", prompt_logprobs))


def completion_of(body: Any, request_id: str) -> Completion:
    of_chat = body.get("prompt_logprobs")  # completions have them in each choice
    return Completion(body["id"], body["model"], body["created"], [choice_of(c, of_chat) for c in body["choices"]],
                      usage_of(body.get("usage") or {}), request_id)


def vector_of(text: str) -> List[float]:
    """From base64 of little-endian float32."""
    values = array("f", base64.b64decode(text))
    if sys.byteorder == "big":
        values.byteswap()
    return values.tolist()


def embeddings_of(body: Any, request_id: str) -> Embeddings:
    return Embeddings([vector_of(d["embedding"]) for d in body["data"]], body["model"], usage_of(body.get("usage") or {}),
                      request_id)


def scores_of(body: Any, request_id: str) -> Scores:
    scores = [Score(d["index"], d["score"], d["cumulative_logprob"], d["perplexity"], d["token_ids"], d["token_logprobs"])
              for d in body["data"]]
    return Scores(scores, body["model"], usage_of(body.get("usage") or {}), request_id)


def chunk_of(body: Any) -> Chunk:
    usage = body.get("usage")
    return Chunk(body["id"], body["model"], [choice_of(c) for c in body["choices"]], usage_of(usage) if usage else None)


def joined(parts: List[Choice]) -> Choice:
    """The whole of which a stream's choices of one index are the pieces."""
    with_logprobs = [p.logprobs for p in parts if p.logprobs]
    logprobs = Logprobs([], [], []) if with_logprobs else None
    for piece in with_logprobs:
        for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
            getattr(logprobs, name).extend(getattr(piece, name))
    ids = [p.token_ids for p in parts if p.token_ids is not None]
    last = parts[-1]
    return Choice(last.index, "".join(p.text for p in parts), last.finish_reason, last.stop_reason, logprobs,
                  [i for piece in ids for i in piece] if ids else None, last.score)
