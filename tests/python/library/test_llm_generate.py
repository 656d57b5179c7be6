"""LLM against HuggingFace's goldens and against `tandem generate`: the same tokens, whatever the way."""
import json
import os
import subprocess

import numpy as np
import pytest

import tandem_infer
from conftest import GOLDENS, MODEL, ROOT, TEXTS
from tandem_infer import LLM, BeamSearchParams, SamplingParams

BINARY = os.environ.get("TANDEM_BINARY", str(ROOT / "build" / "bin" / "tandem"))


def prompt_of(case):
    encoder = {"prompt_token_ids": case["encoder_ids"]}
    return {"encoder_prompt": encoder, "decoder_prompt": {"prompt_token_ids": case["decoder_prompt_ids"]}}


def check_goldens(llm, folder):
    cases = [c for c in json.loads((folder / "golden.json").read_text())["cases"] if "output_ids" in c]
    outputs = llm.generate([prompt_of(c) for c in cases], [c["generation"] for c in cases])
    for case, output in zip(cases, outputs):
        given = [*output.prompt_token_ids, *output.outputs[0].token_ids]
        expected = case["output_ids"]
        assert given == expected[:len(given)], case["name"]
        assert len(set(expected[len(given):])) <= 1, case["name"]  # the best beam is filled up to the longest one
    return len(cases)


def test_demo_model(llm):
    assert check_goldens(llm, MODEL) >= 20


@pytest.mark.parametrize("name", ["bart-tiny", "t5-tiny", "marian-tiny", "mbart50-tiny", "byt5-tiny"])
def test_goldens(name):
    with LLM(GOLDENS / name, dtype="float32") as model:
        assert check_goldens(model, GOLDENS / name) > 8


def test_same_as_the_program(llm, texts):
    lines = [{"id": i, "prompt": text, "params": {"max_new_tokens": 30, "num_beams": beams}}
             for i, text in enumerate(texts) for beams in (1, 4)]
    out = subprocess.run([BINARY, "generate", str(MODEL), "--dtype", "float32", "--jsonl"], capture_output=True, check=True,
                         input="".join(json.dumps(line) + "\n" for line in lines).encode()).stdout
    expected = [json.loads(line)["outputs"][0] for line in out.splitlines()]
    got = llm.generate([line["prompt"] for line in lines], [line["params"] for line in lines])
    assert [o.outputs[0].token_ids for o in got] == [e["token_ids"] for e in expected]
    assert [o.text for o in got] == [e["text"] for e in expected]


def test_outputs(llm, texts):
    one, = llm.generate(texts[0], SamplingParams(max_tokens=12, logprobs=2))
    assert one.encoder_prompt == texts[0] and one.encoder_prompt_token_ids == llm.tokenize(texts[0])
    sequence = one.outputs[0]
    assert len(sequence.token_ids) == len(sequence.logprobs) <= 12 and sequence.finish_reason in ("stop", "length")
    for token, of in zip(sequence.token_ids, sequence.logprobs):
        assert of[token].logprob <= 0 and of[token].rank == 1 and len(of) == 2
    assert llm.detokenize(sequence.token_ids, skip_special_tokens=True).strip() == one.text.strip()
    assert one.metrics.total_time > 0 and one.finished


def test_huggingface_names_and_arrays(llm, texts):
    ids = np.array(llm.tokenize(texts[0]))
    by_text = llm.generate(texts[0], max_new_tokens=np.int64(20), num_beams=4, length_penalty=np.float32(1.0))
    by_ids = llm.generate({"prompt_token_ids": ids}, max_new_tokens=20, num_beams=4, length_penalty=1.0)
    assert by_text[0].outputs[0].token_ids == by_ids[0].outputs[0].token_ids
    assert llm.generate(list(ids.tolist()), max_new_tokens=20, num_beams=4)[0].text == by_text[0].text

    class Config:  # as HuggingFace's GenerationConfig
        def to_diff_dict(self):
            return {"max_new_tokens": 20, "num_beams": 4, "transformers_version": "5.0"}

    assert llm.generate(texts[0], generation_config=Config())[0].text == by_text[0].text


def test_beam_search(llm, texts):
    beams, = llm.beam_search(texts[0], BeamSearchParams(beam_width=3, max_tokens=15))
    assert len(beams.sequences) == 3
    assert [s.score for s in beams.sequences] == sorted((s.score for s in beams.sequences), reverse=True)
    assert beams.sequences[0].text == llm.generate(texts[0], num_beams=3, length_penalty=1.0, max_tokens=15)[0].text


def test_seeds(llm, texts):
    sampled = [llm.generate(texts[0], do_sample=True, top_k=5, seed=3, n=2, max_tokens=12)[0] for _ in range(2)]
    assert [s.token_ids for s in sampled[0].outputs] == [s.token_ids for s in sampled[1].outputs]
    assert len(sampled[0].outputs) == 2


def test_streams(llm, texts):
    events = list(llm.stream(texts[0], max_tokens=25, cache_salt="no drafts from other tests"))
    whole = llm.generate(texts[0], max_tokens=25)[0]
    assert "".join(event.text for event in events) == whole.text
    assert [t for event in events for d in event.deltas for t in d.token_ids] == whole.outputs[0].token_ids
    assert events[-1].output.text == whole.text and all(event.output is None for event in events[:-1])
    assert len(events) > 3
    for event in llm.stream(texts[0], max_tokens=200):
        break  # which cancels it
    assert llm.generate(texts[0], max_tokens=25)[0].text == whole.text


def test_embeddings(llm, texts):
    one, many = llm.embed(texts[0]), llm.embed(texts[:3])
    assert one.dtype == np.float32 and one.ndim == 1 and many.shape == (3, len(one))
    assert np.allclose(many[0], one) and np.allclose(np.linalg.norm(many, axis=1), 1)
    assert not np.allclose(llm.embed(texts[0], pooling="cls", normalize=False), one)
    program = subprocess.run([BINARY, "encode", str(MODEL), "--dtype", "float32", texts[0]], capture_output=True, check=True)
    expected = np.array(json.loads(program.stdout)["embedding"])
    assert np.allclose(llm.embed(texts[0], normalize=False), expected, atol=1e-5)


def test_scores(llm, texts):
    likely = llm.generate(texts[0], max_tokens=15)[0].text
    good, bad = llm.score(texts[0], [likely, "zebra zebra zebra"])
    assert good.score > bad.score and good.perplexity == pytest.approx(np.exp(-good.score))
    assert good.token_logprobs.sum() == pytest.approx(good.cumulative_logprob)
    assert llm.score(texts[0], likely).score == pytest.approx(good.score)
    assert len(good.token_ids) == len(good.token_logprobs)


def test_texts(llm, texts):
    short = llm.summarize(texts[:2], max_new_tokens=20)
    assert isinstance(short, list) and llm.summarize(texts[0], max_new_tokens=20) == short[0]
    with LLM(GOLDENS / "mbart50-tiny", dtype="float32") as model:
        to = model.facts["target_languages"]
        assert len({model.translate("Hello there.", tgt_lang=lang, max_new_tokens=5) for lang in to[:2]}) >= 1
        assert model.generate("Hello there.", tgt_lang=to[1], max_new_tokens=5)[0].text == model.translate(
            "Hello there.", to[1], max_new_tokens=5)
        with pytest.raises(ValueError, match="tgt_lang"):
            model.translate("Hello there.", tgt_lang="klingon")
        with pytest.raises(ValueError, match=r"tgt_lang: is missing: the model translates into 52 languages, which LLM\.facts"):
            model.translate("Hello there.")
        forced = model.translate("Hello there.", forced_bos_token_id=2, max_new_tokens=5)
        assert forced == model.generate("Hello there.", forced_bos_token_id=2, max_new_tokens=5)[0].text
    with pytest.raises(ValueError, match="no languages"):
        llm.translate("Hello there.", tgt_lang="de")
    with LLM(GOLDENS / "marian-tiny", dtype="float32") as model:  # from English
        there = model.translate("Hello there.", tgt_lang="fr", max_new_tokens=5)
        assert model.translate("Hello there.", src_lang="English", tgt_lang="fr", max_new_tokens=5) == there
        with pytest.raises(ValueError, match="translates from en"):
            model.translate("Hello there.", src_lang="de", tgt_lang="fr")


def test_documents(llm, texts):
    """Texts that the model cannot read at once."""
    document = "\n\n".join(texts * 8)
    assert len(llm.tokenize(document)) > llm.facts["encoder_positions"]
    with pytest.raises(ValueError, match="prompt"):
        llm.generate(document)
    short = llm.summarize(document, max_new_tokens=20)
    by_hand, = llm.generate(document, split="auto", merge="summary", max_new_tokens=20)
    assert short == by_hand.text and by_hand.warnings
    assert llm.translate(document, max_new_tokens=20).count("\n\n") == document.count("\n\n")
    assert llm.summarize(texts[0], max_new_tokens=20) == llm.generate(texts[0], max_new_tokens=20)[0].text


def test_ranks_are_threads(llm, texts):
    """Several ranks in one process, without processes or ports."""
    with LLM(MODEL, dtype="float32", tensor_parallel_size=2) as two:
        assert [o.outputs[0].token_ids for o in two.generate(texts, max_tokens=20)] == [
            o.outputs[0].token_ids for o in llm.generate(texts, max_tokens=20)]


def test_other_types(texts):
    with LLM(str(MODEL), dtype="int8", threads=1) as model:
        assert model.facts["dtype"] == "int8" and model.generate(texts[0], max_tokens=10)[0].text


def test_version():
    assert tandem_infer.__version__ in subprocess.run([BINARY, "version"], capture_output=True, text=True, check=True).stdout
    assert TEXTS
