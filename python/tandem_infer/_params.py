"""Parameters of generation: vLLM's classes, and keyword arguments under HuggingFace's and vLLM's names."""
from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Dict, List, Mapping, Optional, Union

from ._errors import RequestError


@dataclass
class SamplingParams:
    """Parameters of a request under vLLM's and HuggingFace's names (docs/parameters.md). None: the model's own
    generation_config.json says. `more`: any other parameter by its name; None in there switches it off."""
    n: Optional[int] = None
    best_of: Optional[int] = None
    do_sample: Optional[bool] = None
    temperature: Optional[float] = None
    top_p: Optional[float] = None
    top_k: Optional[int] = None
    min_p: Optional[float] = None
    seed: Optional[int] = None
    max_tokens: Optional[int] = None
    min_tokens: Optional[int] = None
    max_new_tokens: Optional[int] = None
    min_new_tokens: Optional[int] = None
    max_length: Optional[int] = None
    min_length: Optional[int] = None
    max_time: Optional[float] = None
    num_beams: Optional[int] = None
    num_return_sequences: Optional[int] = None
    length_penalty: Optional[float] = None
    early_stopping: Union[bool, str, None] = None
    presence_penalty: Optional[float] = None
    frequency_penalty: Optional[float] = None
    repetition_penalty: Optional[float] = None
    no_repeat_ngram_size: Optional[int] = None
    encoder_no_repeat_ngram_size: Optional[int] = None
    stop: Union[str, List[str], None] = None
    stop_token_ids: Optional[List[int]] = None
    bad_words: Optional[List[str]] = None
    bad_words_ids: Optional[List[List[int]]] = None
    allowed_token_ids: Optional[List[int]] = None
    guided_choice: Optional[List[str]] = None
    guided_regex: Optional[str] = None
    guided_json: Union[Dict[str, Any], str, bool, None] = None
    guided_grammar: Optional[str] = None
    structured_outputs: Optional[Dict[str, Any]] = None
    logit_bias: Optional[Dict[int, float]] = None
    forced_bos_token_id: Optional[int] = None
    forced_eos_token_id: Optional[int] = None
    ignore_eos: Optional[bool] = None
    include_stop_str_in_output: Optional[bool] = None
    skip_special_tokens: Optional[bool] = None
    logprobs: Optional[int] = None
    prompt_logprobs: Optional[int] = None
    truncate_prompt_tokens: Optional[int] = None
    src_lang: Optional[str] = None
    tgt_lang: Optional[str] = None
    task: Optional[str] = None
    split: Optional[str] = None
    merge: Optional[str] = None
    cache_salt: Optional[str] = None
    more: Dict[str, Any] = field(default_factory=dict)

    def params(self) -> Dict[str, Any]:
        """As a request has them."""
        given = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "more"}
        return {**{name: value for name, value in given.items() if value is not None}, **self.more}


@dataclass
class BeamSearchParams:
    """vLLM's parameters of beam_search(). early_stopping: HuggingFace's."""
    beam_width: int
    max_tokens: Optional[int] = None
    ignore_eos: bool = False
    length_penalty: float = 1.0
    early_stopping: Union[bool, str, None] = None
    more: Dict[str, Any] = field(default_factory=dict)

    def params(self) -> Dict[str, Any]:
        """As a request has them."""
        given: Dict[str, Any] = {"num_beams": self.beam_width, "num_return_sequences": self.beam_width,
                                 "length_penalty": self.length_penalty}
        if self.max_tokens is not None:
            given["max_tokens"] = self.max_tokens
        if self.ignore_eos:
            given["ignore_eos"] = True
        if self.early_stopping is not None:
            given["early_stopping"] = self.early_stopping
        return {**given, **self.more}


Params = Union[SamplingParams, BeamSearchParams, Mapping[str, Any], None]


# Of CTranslate2 and faster-whisper.
_NAMES_ELSEWHERE = {
    "beam_size": "num_beams", "max_decoding_length": "max_new_tokens", "min_decoding_length": "min_new_tokens",
    "num_hypotheses": "num_return_sequences", "sampling_topk": "top_k", "sampling_topp": "top_p",
    "sampling_temperature": "temperature", "condition_on_previous_text": "condition_on_prev_tokens",
    "log_prob_threshold": "logprob_threshold",
}


def merged(params: Params, kwargs: Mapping[str, Any]) -> Dict[str, Any]:
    """A request's `params`; kwargs come before. generation_config: HuggingFace's object, or a mapping, below both."""
    kwargs = dict(kwargs)
    for name in kwargs.keys() & _NAMES_ELSEWHERE.keys():
        raise RequestError(f"{name}: here it is {_NAMES_ELSEWHERE[name]}", param=name)
    config = kwargs.pop("generation_config", None)
    out: Dict[str, Any] = {}
    if config is not None:
        given = config.to_diff_dict() if hasattr(config, "to_diff_dict") else dict(config)
        out.update({name: value for name, value in given.items()
                    if not name.startswith("_") and name != "transformers_version" and value is not None})
    if isinstance(params, (SamplingParams, BeamSearchParams)):
        out.update(params.params())
    elif isinstance(params, Mapping):
        out.update(params)
    elif params is not None:
        raise RequestError(f"sampling_params: must be a SamplingParams, a BeamSearchParams or a dictionary, not "
                           f"{type(params).__name__}", param="sampling_params")
    out.update(kwargs)
    # What HuggingFace's methods take and a whole text needs not.
    if out.pop("truncation", None):
        out.setdefault("truncate_prompt_tokens", -1)
    return out
