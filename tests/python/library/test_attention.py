"""tandem_infer.attention: PyTorch's answers for all layouts, by numpy arrays; what is wrong names the argument."""
import json
import struct
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tandem_infer import RequestError, attention

LAYOUTS = Path(__file__).parents[2] / "data/layouts"
DTYPES = {"F32": np.float32, "F64": np.float64, "I32": np.int32, "U8": np.uint8, "BOOL": np.bool_}
ALLOWED = 5e-6


def tensors_of(path):
    raw = path.read_bytes()
    size, = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8:8 + size])
    body = memoryview(raw)[8 + size:]
    return {name: np.frombuffer(body[slice(*entry["data_offsets"])], DTYPES[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in header.items() if name != "__metadata__"}


def cases_of(stem):
    index = json.loads((LAYOUTS / f"{stem}.json").read_text())
    tensors = tensors_of(LAYOUTS / index["file"])
    for case in index["cases"]:
        yield pytest.param(case["op"], case["attributes"],
                           *({name: tensors[f"{case['name']}.{name}"].copy() for name in case[kind]} for kind in ("tensors", "outputs")),
                           id=case["name"])


ALL = [case for stem in ("ragged", "masks", "paged", "append", "mla", "cascade") for case in cases_of(stem)]


def pages_of(given, prefix=""):
    return attention.Pages(*(given.pop(prefix + name) for name in ("kv_indptr", "kv_indices", "kv_last_page_len")))


def cache_of(given, joint, first, second):
    return given.pop(joint) if joint in given else (given.pop(first), given.pop(second))


def run(op, attributes, given):
    """What the op makes, by the names of its outputs."""
    options = {k: v for k, v in attributes.items() if k in ("kv_layout", "causal", "sm_scale")}
    if op == "merge_states":
        return dict(zip(("out", "lse"), attention.merge_states(given["v"].astype(np.float32), given["s"].astype(np.float32))))
    if op == "get_batch_indices_positions":
        return dict(zip(("batch_indices", "positions"), attention.batch_indices_positions(**given)))
    if op == "packbits":
        return {"packed": attention.packbits(**given)}
    if op == "segment_packbits":
        return dict(zip(("packed", "packed_indptr"), attention.segment_packbits(**given)))
    if op.startswith("append"):
        latent = op == "append_paged_mla_kv_cache"
        names = ("mla_cache", "ckv_cache", "kpe_cache") if latent else ("kv_cache", "k_cache", "v_cache")
        made = {name + "_after": given[name] for name in names if name in given}
        cache, pages = cache_of(given, *names), pages_of(given)
        if latent:
            attention.append_latent(**given, mla_cache=cache, pages=pages)
        else:
            attention.append(**given, kv_cache=cache, pages=pages, kv_layout=options["kv_layout"])
        return made
    if op == "attention_ragged":
        made = attention.ragged(**given, **options)
    elif op == "attention_mla":
        cache, pages = cache_of(given, "mla_cache", "ckv_cache", "kpe_cache"), pages_of(given)
        made = attention.latent(**given, mla_cache=cache, pages=pages, **options)
    elif op == "attention_paged":
        cache, pages = cache_of(given, "kv_cache", "k_cache", "v_cache"), pages_of(given)
        made = attention.paged(**given, kv_cache=cache, pages=pages, threads=2, **options)
    else:
        cache = cache_of(given, "kv_cache", "k_cache", "v_cache")
        levels = [(given.pop(f"level{i}.qo_indptr"), pages_of(given, f"level{i}.")) for i in range(attributes["levels"])]
        made = attention.cascade(**given, kv_cache=cache, levels=levels, **options)
    return dict(zip(("out", "lse"), made))


@pytest.mark.parametrize("op, attributes, given, wanted", ALL)
def test_all_layouts_have_pytorchs_answers(op, attributes, given, wanted):
    made = run(op, attributes, dict(given))
    for name, array in made.items():
        if array.dtype == np.float32:
            np.testing.assert_allclose(array, wanted[name].astype(np.float32), rtol=ALLOWED, atol=ALLOWED, err_msg=name)
        else:
            np.testing.assert_array_equal(array, wanted[name], err_msg=name)
    assert made.keys() == {name for name in wanted if not name.startswith("level")}


def valid():
    rng = np.random.default_rng(7)
    return {"q": rng.standard_normal((3, 4, 8), np.float32), "qo_indptr": [0, 1, 3],
            "kv_cache": rng.standard_normal((6, 2, 4, 2, 8), np.float32), "pages": attention.Pages([0, 2, 3], [5, 0, 3], [4, 1])}


@pytest.mark.parametrize("change, argument, words", [
    ({"qo_indptr": [0, 2, 1]}, "qo_indptr", "falls from 2 to 1 at index 2"),
    ({"qo_indptr": np.array([0, 1, 3])}, "qo_indptr", "is int64; int32 is asked for"),
    ({"qo_indptr": [0, 1, 2**31]}, "qo_indptr", "does not fit int32"),
    ({"qo_indptr": "all"}, "qo_indptr", "no list"),
    ({"pages": attention.Pages([0, 2, 3], [5, 6, 3], [4, 1])}, "kv_indices", "page 6 at index 1"),
    ({"pages": attention.Pages([0, 2, 3], [5, 0, 3], [0, 1])}, "kv_last_page_len", "is 0 at index 0"),
    ({"pages": attention.Pages([0, 2, 3], [5, 0, 3], [4])}, "kv_last_page_len", "1 entries"),
    ({"q": np.zeros((3, 4, 8))}, "q", "is float64"),
    ({"q": np.zeros((3, 3, 8), np.float32)}, "kv_cache", "2 heads"),
    ({"kv_cache": np.zeros((6, 4, 2, 8), np.float32)}, "kv_cache", "is asked for"),
    ({"kv_cache": 7}, "kv_cache", "pair"),
    ({"custom_mask": np.ones(5, np.bool_)}, "custom_mask", "5 elements"),
    ({"custom_mask": np.ones(10, np.uint8)}, "custom_mask", "bool is asked for"),
    ({"packed_custom_mask": np.ones(1, np.bool_)}, "packed_custom_mask", "uint8 is asked for"),
    ({"bias": np.ones((3, 10), np.float32)}, "bias", "[4, 10]"),
    ({"kv_layout": "DNH"}, "kv_layout", "neither"),
    ({"threads": 0}, "threads", "not in"),
    ({"sm_scale": float("inf")}, "sm_scale", "number")])
def test_wrong_arguments_are_named(change, argument, words):
    attention.paged(**valid())
    with pytest.raises(RequestError) as error:
        attention.paged(**{**valid(), **change})
    assert error.value.param == argument and words in str(error.value)


def test_caches_are_written_where_they_are():
    keys = np.ones((1, 2, 8), np.float32)
    cache, pages = np.zeros((6, 2, 4, 2, 8), np.float32), attention.Pages([0, 1], [2], [3])
    attention.append(keys, 2 * keys, [0], [2], cache, pages)
    assert cache[2, 0, 2].sum() == 16 and cache[2, 1, 2].sum() == 32 and cache.sum() == 48
    for wrong in (cache[::2], cache.transpose(0, 1, 3, 2, 4)):
        with pytest.raises(RequestError, match="kv_cache"):
            attention.append(keys, keys, [0], [2], wrong, pages)
    cache.flags.writeable = False
    with pytest.raises(RequestError, match="read-only"):
        attention.append(keys, keys, [0], [2], cache, pages)


def test_bfloat16_pages():
    given = valid()
    want, _ = attention.paged(**{**given, "kv_cache": given["kv_cache"].astype(ml_dtypes.bfloat16).astype(np.float32)})
    made, _ = attention.paged(**{**given, "kv_cache": given["kv_cache"].astype(ml_dtypes.bfloat16)})
    np.testing.assert_allclose(made, want, rtol=ALLOWED, atol=ALLOWED)
