"""LLM(lora_modules=…).generate(lora=…): PEFT's tokens, with and without an adapter, one call after the other."""
import json

import pytest

from conftest import GOLDENS
from tandem_infer import LLM, RequestError

ADAPTERS = GOLDENS.parent / "lora"


def prompt_of(case):
    return {"encoder_prompt": {"prompt_token_ids": case["encoder_ids"]},
            "decoder_prompt": {"prompt_token_ids": case["decoder_prompt_ids"]}}


@pytest.mark.parametrize("name", ["bart-tiny", "t5-tiny"])
def test_goldens(name):
    cases = json.loads((ADAPTERS / name / "golden.json").read_text())["cases"]
    names = {case["adapter"] for case in cases if case["adapter"]}
    with LLM(GOLDENS / name, dtype="float32", lora_modules={n: ADAPTERS / name / n for n in names}) as model:
        for adapter in [None, *sorted(names)]:
            those = [case for case in cases if case["adapter"] == adapter]
            assert those
            outputs = model.generate([prompt_of(c) for c in those], [c["generation"] for c in those], lora=adapter)
            for case, output in zip(those, outputs):
                given = [*output.prompt_token_ids, *output.outputs[0].token_ids]
                assert given == case["output_ids"][:len(given)], case["name"]


def test_a_name_that_there_is_not():
    with LLM(GOLDENS / "bart-tiny", dtype="float32", lora_modules={"qv": ADAPTERS / "bart-tiny" / "qv-r4"}) as model:
        with pytest.raises(RequestError, match="news"):
            model.generate("a text", lora="news")
        assert model.generate("a text", lora="qv", max_tokens=3)[0].outputs[0].token_ids
