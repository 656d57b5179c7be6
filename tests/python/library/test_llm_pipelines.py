"""pipeline(): the results of transformers' pipelines."""
import numpy as np
import pytest
from PIL import Image

from conftest import GOLDENS, MODEL, ROOT
from speech_model import make_whisper, wav
from tandem_infer import LLM, pipeline


def test_summaries(llm, texts):
    summarizer = pipeline("summarization", llm=llm, max_new_tokens=20)
    one = summarizer(texts[0])
    assert one == [{"summary_text": llm.generate(texts[0], max_new_tokens=20)[0].text}]
    assert summarizer(texts[:2])[0] == one[0] and len(summarizer(texts[:2], batch_size=8, truncation=True)) == 2
    assert summarizer(texts[0], max_new_tokens=5) != one
    beams = summarizer(texts[:2], num_beams=3, num_return_sequences=2)
    assert [len(b) for b in beams] == [2, 2] and set(beams[0][0]) == {"summary_text"}
    tokens = summarizer(texts[0], return_tensors=True)[0]["summary_token_ids"]
    output = llm.generate(texts[0], max_new_tokens=20)[0]
    assert tokens == output.prompt_token_ids + output.outputs[0].token_ids


def test_texts_to_texts(llm, texts):
    assert pipeline("text2text-generation", llm=llm)(texts[0], max_new_tokens=9) == [
        {"generated_text": llm.generate(texts[0], max_new_tokens=9)[0].text}]


def test_translations():
    marian = pipeline("translation_en_to_de", GOLDENS / "marian-tiny", dtype="float32", device=-1, framework="pt", use_fast=True)
    assert set(marian("Hello there.", max_length=20)[0]) == {"translation_text"}
    many = pipeline("translation", GOLDENS / "mbart50-tiny", torch_dtype="torch.float32")
    first, second = many.llm.facts["target_languages"][:2]
    assert many("Hello.", src_lang=first, tgt_lang=second, max_length=10)[0]["translation_text"] == many.llm.translate(
        "Hello.", second, src_lang=first, max_length=10)


def test_speech(tmp_path):
    heard = pipeline("automatic-speech-recognition", make_whisper(tmp_path / "model"), dtype="float32",
                     generate_kwargs={"language": "de", "task": "transcribe"})
    one = heard(wav(3))
    assert set(one) == {"text"} and heard([wav(3), wav(3)]) == [one, one]
    timed = heard({"raw": np.zeros(16000 * 3, dtype=np.float32), "sampling_rate": 16000}, return_timestamps=True)
    assert set(timed) == {"text", "chunks"}
    assert all(set(c) == {"text", "timestamp"} and len(c["timestamp"]) == 2 for c in timed["chunks"])


def test_images():
    reader = pipeline("image-to-text", ROOT / "tests" / "data" / "vision-tiny", dtype="float32")
    file = ROOT / "tests" / "data" / "images" / "grey8.png"
    one = reader(str(file), max_new_tokens=5)
    assert set(one[0]) == {"generated_text"}
    assert reader([str(file), Image.open(file)], max_new_tokens=5) == [one, one]


def test_pages():
    folder = ROOT / "tests" / "data" / "image-models" / "donut-tiny"
    files = [folder / "image_0.png", folder / "image_1.png"]
    with LLM(folder, dtype="float32") as llm:
        one, two = llm.read(files, max_new_tokens=5), llm.read(files[0], max_new_tokens=5)
        assert all(set(output.parsed) == {"text_sequence"} for output in one)
        assert two.parsed == one[0].parsed
        assert pipeline("image-to-text", llm=llm)(files[0], max_new_tokens=5) == [{"generated_text": two.text, "parsed": two.parsed}]
    with LLM(ROOT / "tests" / "data" / "vision-tiny", dtype="float32") as llm:
        assert llm.read(ROOT / "tests" / "data" / "images" / "grey8.png", max_new_tokens=5).parsed is None


def test_refusals(llm):
    with pytest.raises(NotImplementedError, match="task"):
        pipeline("token-classification", MODEL)
    with pytest.raises(NotImplementedError, match="no labels"):
        pipeline("text-classification", llm=llm)
    with pytest.raises(ValueError, match="model"):
        pipeline("summarization")
    with pytest.raises(NotImplementedError, match="hears"):
        pipeline("automatic-speech-recognition", llm=llm)


def test_the_task_may_be_left_out(llm, texts, tmp_path):
    assert pipeline(llm=llm).task == "text2text-generation"
    assert pipeline(llm=llm)(texts[0], max_new_tokens=9) == pipeline("text2text-generation", llm=llm)(texts[0], max_new_tokens=9)
    heard = pipeline(model=make_whisper(tmp_path / "model"), device_map="cpu")
    assert heard.task == "automatic-speech-recognition"
    heard.llm.close()
    seen = pipeline(model=GOLDENS.parent / "vision-tiny", device_map="auto")
    assert seen.task == "image-to-text"
    seen.llm.close()


@pytest.mark.parametrize("task, words", [("summarisation", "did you mean 'summarization'"), ("feature-extraction", "LLM.embed"),
                                         ("text-generation", "'text2text-generation'")])
def test_other_tasks_are_answered_with_ours(task, words):
    with pytest.raises(NotImplementedError, match=words):
        pipeline(task, MODEL)
