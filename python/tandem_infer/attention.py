"""Attention over FlashInfer's layouts with numpy arrays, on the CPU: docs/layouts.md has each layout as a picture.

    import numpy as np
    from tandem_infer import attention

    out, lse = attention.ragged(q, k, v, qo_indptr, kv_indptr, causal=True)

Data are float32; keys, values and caches may be bfloat16 (of the package ml_dtypes). Indices are int32, or lists of numbers.
Whatever is wrong raises RequestError; its `param` is the argument's name, and the message has the index. `lse` is the natural
logarithm of the sum of exp(score), -inf where a query sees no key. `threads` compute; they are made for the call.
"""
from __future__ import annotations

from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np
from numpy.typing import NDArray

from ._errors import RequestError
from ._library import attention as _run

Array = NDArray[Any]
Indices = Union[NDArray[np.int32], Sequence[int]]
Cache = Union[Array, Tuple[Array, Array]]

__all__ = ["Pages", "append", "append_latent", "batch_indices_positions", "cascade", "latent", "merge_states", "packbits",
           "paged", "ragged", "segment_packbits"]


class Pages(NamedTuple):
    """The pages of each request: request i has indices[indptr[i]:indptr[i + 1]], the last with last_page_len[i] tokens."""
    indptr: Indices
    indices: Indices
    last_page_len: Indices

    def _arrays(self, prefix: str = "") -> Dict[str, Any]:
        return {prefix + "kv_indptr": self.indptr, prefix + "kv_indices": self.indices,
                prefix + "kv_last_page_len": self.last_page_len}


def ragged(q: Array, k: Array, v: Array, qo_indptr: Indices, kv_indptr: Indices, *, kv_layout: str = "NHD",
           causal: bool = False, sm_scale: Optional[float] = None, logits_soft_cap: float = 0.0,
           custom_mask: Optional[Array] = None, packed_custom_mask: Optional[Array] = None,
           mask_indptr: Optional[Indices] = None, bias: Optional[Array] = None, threads: int = 1) -> Tuple[Array, Array]:
    """(out, lse) of ragged queries over ragged keys and values, each with lengths of its own."""
    width = np.shape(v)[-1:]
    return _attend("attention_ragged", q, width, {"q": q, "k": k, "v": v, "qo_indptr": qo_indptr, "kv_indptr": kv_indptr,
                                                  **_masks(custom_mask, packed_custom_mask, mask_indptr, bias)},
                   kv_layout=kv_layout, causal=causal, sm_scale=sm_scale, logits_soft_cap=logits_soft_cap, threads=threads)


def paged(q: Array, qo_indptr: Indices, kv_cache: Cache, pages: Pages, *, kv_layout: str = "NHD", causal: bool = False,
          sm_scale: Optional[float] = None, logits_soft_cap: float = 0.0, custom_mask: Optional[Array] = None,
          packed_custom_mask: Optional[Array] = None, mask_indptr: Optional[Indices] = None, bias: Optional[Array] = None,
          threads: int = 1) -> Tuple[Array, Array]:
    """(out, lse) of ragged queries over pages; kv_cache: one 5-D array, or a pair of 4-D ones."""
    return _attend("attention_paged", q, np.shape(q)[-1:],
                   {"q": q, "qo_indptr": qo_indptr, **_cache(kv_cache, "kv_cache", "k_cache", "v_cache"), **pages._arrays(),
                    **_masks(custom_mask, packed_custom_mask, mask_indptr, bias)},
                   kv_layout=kv_layout, causal=causal, sm_scale=sm_scale, logits_soft_cap=logits_soft_cap, threads=threads)


def latent(q_nope: Array, q_pe: Array, qo_indptr: Indices, mla_cache: Cache, pages: Pages, *, sm_scale: float,
           causal: bool = False, logits_soft_cap: float = 0.0, threads: int = 1) -> Tuple[Array, Array]:
    """(out, lse) of latent attention (MLA); mla_cache: one array, or the pair of ckv and kpe."""
    return _attend("attention_mla", q_nope, np.shape(q_nope)[-1:],
                   {"q_nope": q_nope, "q_pe": q_pe, "qo_indptr": qo_indptr,
                    **_cache(mla_cache, "mla_cache", "ckv_cache", "kpe_cache"), **pages._arrays()},
                   causal=causal, sm_scale=sm_scale, logits_soft_cap=logits_soft_cap, threads=threads)


def cascade(q: Array, kv_cache: Cache, levels: Sequence[Tuple[Indices, Pages]], *, kv_layout: str = "NHD",
            causal: bool = False, sm_scale: Optional[float] = None, logits_soft_cap: float = 0.0,
            threads: int = 1) -> Tuple[Array, Array]:
    """(out, lse) over keys in levels: (qo_indptr, pages) of each, the widest first; causal in the last one."""
    arrays: Dict[str, Any] = {"q": q, **_cache(kv_cache, "kv_cache", "k_cache", "v_cache")}
    for i, (qo_indptr, pages) in enumerate(levels):
        arrays[f"level{i}.qo_indptr"] = qo_indptr
        arrays.update(pages._arrays(f"level{i}."))
    return _attend("attention_cascade", q, np.shape(q)[-1:], arrays, kv_layout=kv_layout, causal=causal, sm_scale=sm_scale,
                   logits_soft_cap=logits_soft_cap, threads=threads)


def merge_states(v: Array, s: Array) -> Tuple[Array, Array]:
    """(out, lse) of attention over all keys, from v [states, n, heads, head_dim] and s [states, n, heads] over parts of them."""
    shape = np.shape(v)
    out, lse = np.empty(shape[1:], np.float32), np.empty(shape[1:-1], np.float32)
    _run({"op": "merge_states"}, {**_inputs({"v": v, "s": s}), "out": out, "lse": lse})
    return out, lse


def append(append_key: Array, append_value: Array, batch_indices: Indices, positions: Indices, kv_cache: Cache, pages: Pages, *,
           kv_layout: str = "NHD") -> None:
    """Writes row r to position positions[r] of request batch_indices[r], in place."""
    cache = _written(_cache(kv_cache, "kv_cache", "k_cache", "v_cache"))
    _run({"op": "append_paged_kv_cache", "kv_layout": kv_layout},
         {**_inputs({"append_key": append_key, "append_value": append_value, "batch_indices": batch_indices,
                     "positions": positions, **pages._arrays()}), **cache})


def append_latent(append_ckv: Array, append_kpe: Array, batch_indices: Indices, positions: Indices, mla_cache: Cache,
                  pages: Pages) -> None:
    """The same of latent attention's pages."""
    cache = _written(_cache(mla_cache, "mla_cache", "ckv_cache", "kpe_cache"))
    _run({"op": "append_paged_mla_kv_cache"},
         {**_inputs({"append_ckv": append_ckv, "append_kpe": append_kpe, "batch_indices": batch_indices, "positions": positions,
                     **pages._arrays()}), **cache})


def batch_indices_positions(append_indptr: Indices, seq_lens: Indices) -> Tuple[Array, Array]:
    """(batch_indices, positions) of appended rows; seq_lens: the lengths with them."""
    given = _inputs({"append_indptr": append_indptr, "seq_lens": seq_lens})
    indptr = given["append_indptr"]
    count = max(0, int(indptr[-1])) if indptr.ndim == 1 and indptr.size else 0
    batch_indices, positions = np.empty(count, np.int32), np.empty(count, np.int32)
    _run({"op": "get_batch_indices_positions"}, {**given, "batch_indices": batch_indices, "positions": positions})
    return batch_indices, positions


def packbits(x: Array) -> Array:
    """Eight elements to a byte, the first in the lowest bit; elements that are not 0 are ones."""
    given = _inputs({"x": x})
    packed = np.empty((given["x"].size + 7) // 8, np.uint8)
    _run({"op": "packbits"}, {**given, "packed": packed})
    return packed


def segment_packbits(x: Array, indptr: Indices) -> Tuple[Array, Array]:
    """(packed, packed_indptr) of segments that begin at a byte each: packed_custom_mask and its mask_indptr."""
    given = _inputs({"x": x, "indptr": indptr})
    at = given["indptr"]
    lengths = np.diff(at.astype(np.int64)) if at.ndim == 1 else np.empty(0, np.int64)
    packed = np.empty(max(0, int(((lengths + 7) // 8).sum())), np.uint8)
    packed_indptr = np.empty(max(1, at.size), np.int32)
    _run({"op": "segment_packbits"}, {**given, "packed": packed, "packed_indptr": packed_indptr})
    return packed, packed_indptr


def _attend(op: str, q: Array, width: Tuple[int, ...], arrays: Mapping[str, Any], **options: Any) -> Tuple[Array, Array]:
    """Outputs are as wide as values; what is wrong with the inputs is said before outputs are looked at."""
    for name in ("sm_scale", "logits_soft_cap"):
        if options.get(name) is not None and not np.isfinite(options[name]):
            raise RequestError(f"{name}: is no finite number", param=name)
    shape = np.shape(q)
    out, lse = np.empty(shape[:-1] + width, np.float32), np.empty(shape[:-1], np.float32)
    _run({"op": op, **options}, {**_inputs(arrays), "out": _with_rank(out), "lse": _with_rank(lse)})
    return out, lse


def _with_rank(array: Array) -> Array:
    return array.reshape(1) if array.ndim == 0 else array


def _inputs(arrays: Mapping[str, Any]) -> Dict[str, Array]:
    """Without gaps; what is absent is left out. Lists are of int32."""
    return {name: _input(name, value) for name, value in arrays.items() if value is not None}


def _input(name: str, value: Any) -> Array:
    if not isinstance(value, np.ndarray):
        try:
            wide = np.asarray(value, dtype=np.int64) if len(value) else np.empty(0, np.int64)
        except (TypeError, ValueError, OverflowError):
            raise RequestError(f"{name}: is no array and no list of whole numbers", param=name) from None
        if wide.size and (wide.min() < -2**31 or wide.max() >= 2**31):
            raise RequestError(f"{name}: does not fit int32", param=name)
        return np.ascontiguousarray(wide, dtype=np.int32)
    if name in ("packed_custom_mask", "custom_mask") and value.dtype != (np.uint8 if name[0] == "p" else np.bool_):
        raise RequestError(f"{name}: is {value.dtype.name}; {'uint8' if name[0] == 'p' else 'bool'} is asked for", param=name)
    return np.ascontiguousarray(value)


def _masks(custom_mask: Optional[Array], packed_custom_mask: Optional[Array], mask_indptr: Optional[Indices],
           bias: Optional[Array]) -> Dict[str, Any]:
    return {"custom_mask": custom_mask, "packed_custom_mask": packed_custom_mask, "mask_indptr": mask_indptr, "bias": bias}


def _cache(cache: Cache, joint: str, first: str, second: str) -> Dict[str, Any]:
    if isinstance(cache, np.ndarray):
        return {joint: cache}
    if not isinstance(cache, (tuple, list)) or len(cache) != 2 or not all(isinstance(part, np.ndarray) for part in cache):
        raise RequestError(f"{joint}: is neither an array nor a pair of arrays", param=joint)
    return {first: cache[0], second: cache[1]}


def _written(cache: Dict[str, Any]) -> Dict[str, Array]:
    """Caches are written where they are."""
    for name, array in cache.items():
        if not array.flags.c_contiguous or not array.flags.writeable:
            raise RequestError(f"{name}: is read-only, or has gaps between its elements", param=name)
    return cache
