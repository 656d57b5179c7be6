"""Labels: HuggingFace's logits, and the results of its pipelines (tests/data/goldens/bart-labels, scripts/goldens/make_head_goldens.py)."""
import asyncio
import json

import numpy as np
import pytest

from conftest import GOLDENS
from tandem_infer import LLM, AsyncLLM, RequestError, pipeline

FOLDER = GOLDENS / "bart-labels"
GOLDEN = json.loads((FOLDER / "golden.json").read_text())


@pytest.fixture(scope="module")
def classifier():
    with LLM(FOLDER, dtype="float32", threads=1) as model:
        yield model


def text_of(case):
    return {k: case[k] for k in ("text", "text_pair") if k in case}


def test_labels_of_the_model(classifier):
    cases = [c for c in GOLDEN["cases"] if "truncated_to" not in c]
    for found, case in zip(classifier.classify([text_of(c) for c in cases]), cases):
        assert found.label == case["label"] and found.labels[0] == case["label"]
        np.testing.assert_allclose(found.logits, case["logits"], atol=2e-4)
        assert found.scores == sorted(found.scores, reverse=True) and found.score == found.scores[0]
        np.testing.assert_allclose(sorted(found.scores), sorted(case["probs"]), atol=2e-4)
    long, = [c for c in GOLDEN["cases"] if "truncated_to" in c]
    found = classifier.classify((long["text"], long["text_pair"]), truncate_prompt_tokens=long["truncated_to"])
    np.testing.assert_allclose(found.logits, long["logits"], atol=2e-4)
    ids, listed = classifier.classify(cases[0]["encoder_ids"]), classifier.classify([cases[0]["encoder_ids"]])
    assert np.array_equal(ids.logits, listed[0].logits)
    assert classifier.classify([]) == []


@pytest.mark.parametrize("case", GOLDEN["zero_shot"], ids=lambda c: c["sequence"][:12])
def test_zero_shot_is_transformers(classifier, case):
    options = {k: case[k] for k in ("multi_label", "hypothesis_template") if k in case}
    found = classifier.classify(case["sequence"], case["labels"], **options)
    assert found.labels == case["expected"]["labels"] and found.logits is None
    np.testing.assert_allclose(found.scores, case["expected"]["scores"], atol=2e-5)
    judge = pipeline("zero-shot-classification", llm=classifier, **options)
    one = judge(case["sequence"], ", ".join(case["labels"]))
    assert one == {"sequence": case["sequence"], "labels": found.labels, "scores": found.scores}
    assert judge([case["sequence"]] * 2, candidate_labels=case["labels"]) == [one, one]


def test_text_classification(classifier):
    pipe = pipeline("text-classification", llm=classifier)
    case = GOLDEN["cases"][0]
    one = {"label": case["label"], "score": pytest.approx(max(case["probs"]), abs=2e-4)}
    assert pipe(case["text"]) == [one] and pipe({"text": case["text"]}) == one
    assert pipe([case["text"]] * 2) == [one, one]
    ranked = pipe(case["text"], top_k=None)
    assert len(ranked) == 3 and ranked[0] == one and pipe(case["text"], top_k=2) == ranked[:2]
    raw = pipe(case["text"], top_k=None, function_to_apply="none")
    assert [r["score"] for r in raw] == pytest.approx(sorted(case["logits"], reverse=True), abs=2e-4)
    assert pipe("word " * 60, truncation=True)[0]["label"] in classifier.facts["labels"]


def test_two_ranks(classifier):
    cases = [c for c in GOLDEN["cases"] if "truncated_to" not in c]
    with LLM(FOLDER, dtype="float32", tensor_parallel_size=2, threads=1) as ranks:
        for found, case in zip(ranks.classify([c["encoder_ids"] for c in cases]), cases):
            np.testing.assert_allclose(found.logits, case["logits"], atol=2e-4)


def test_wrong_requests(classifier, llm):
    def param(call, kind=ValueError):
        with pytest.raises(kind) as error:
            call()
        return error.value.param

    assert param(lambda: classifier.classify("x", [])) == "labels"
    assert param(lambda: classifier.classify("x", ["a"], hypothesis_template="none")) == "hypothesis_template"
    assert param(lambda: classifier.classify("x", ["a"], hypothesis_template="{name}")) == "hypothesis_template"
    assert param(lambda: classifier.classify(("a", "b"), ["c"])) == "texts"
    assert param(lambda: classifier.classify({"txt": "a"})) == "texts"
    assert param(lambda: classifier.classify("x", max_new_tokens=3)) == "max_new_tokens"
    with pytest.raises(RequestError, match="96"):
        classifier.classify("word " * 20)
    assert param(lambda: classifier.generate("x"), NotImplementedError) == "model"
    assert param(lambda: llm.classify("x"), NotImplementedError) == "model"


def test_asynchronous(classifier):
    case = GOLDEN["zero_shot"][0]

    async def work():
        model = AsyncLLM.of(classifier)
        return await asyncio.gather(model.classify(GOLDEN["cases"][0]["text"]), model.classify(case["sequence"], case["labels"]))

    found, judged = asyncio.run(work())
    assert found.label == GOLDEN["cases"][0]["label"] and judged.labels == case["expected"]["labels"]


def test_a_model_without_entailment():
    with LLM(GOLDENS / "t5-labels", dtype="float32") as model:
        ids = json.loads((GOLDENS / "t5-labels" / "golden.json").read_text())["cases"][2]
        np.testing.assert_allclose(model.classify(ids["encoder_ids"]).logits, ids["logits"], atol=2e-4)
        assert model.facts["labels"] == [f"LABEL_{i}" for i in range(4)] and "entailment" not in model.facts
