"""Calls that a newcomer gets wrong: the message names the argument, and says what it may be."""
import pathlib
import shutil

import numpy as np
import pytest

from conftest import MODEL, ROOT
from speech_model import make_whisper, wav
from tandem_infer import LLM, MissingFileError, ModelError, RequestError, SamplingParams, pipeline

OPTIONS = [
    ({"thread": 2}, "thread", "did you mean threads"),
    ({"tensor_parallel_size": "two"}, "tensor_parallel_size", "must be an integer, not \"two\""),
    ({"threads": 1.5}, "threads", "must be an integer, not 1.5"),
    ({"intra_threads": 2}, "intra_threads", "here it is threads"),
    ({"trust_remote_code": True}, "trust_remote_code", "never run"),
    ({"device": "gpu"}, "device", "cuda"),
    ({"device": True}, "device", "cuda"),
    ({"kv_cache_memory": "lots"}, "kv_cache_memory", "is not a size"),
    ({"max_num_seqs": object()}, "max_num_seqs", "object is no kind of value"),
]


@pytest.mark.parametrize("options, param, message", OPTIONS, ids=[one[1] for one in OPTIONS])
def test_options(options, param, message):
    with pytest.raises(RequestError, match=message) as e:
        LLM(MODEL, **options)
    assert e.value.param == param and str(e.value).startswith(param)


def test_types_of_other_libraries():
    for dtype in (np.float32, np.dtype("float32"), "torch.float32"):
        with LLM(MODEL, dtype=dtype) as model:
            assert model.facts["dtype"] == "float32"


@pytest.mark.parametrize("model", ["/no/such/folder", "./no/such", pathlib.Path("no-such")])
def test_no_such_model(model):
    with pytest.raises(FileNotFoundError, match="model: there is no directory '.*no.such") as e:
        LLM(model)
    assert isinstance(e.value, ValueError) and e.value.param == "model"


@pytest.mark.parametrize("model", [None, 5, object(), ["facebook/bart-base"]])
def test_no_model(model):
    with pytest.raises(RequestError, match="model: must be a directory or the id of a model"):
        LLM(model)


@pytest.mark.parametrize("gone, message", [
    ("*token*", "there is no tokenizer"), ("*.safetensors", "no weights"), ("config.json", "config.json")])
def test_a_checkpoint_without(tmp_path, gone, message):
    folder = tmp_path / "model"
    shutil.copytree(MODEL, folder)
    for file in [*folder.glob(gone), *(folder.glob("vocab.json") if "token" in gone else ())]:
        file.unlink()
    with pytest.raises(ModelError, match=message) as e:
        LLM(folder)
    assert e.value.param.startswith(str(folder))


def fails(call, param, message):
    with pytest.raises(RequestError, match=message) as e:
        call()
    assert e.value.param == param
    return e.value


def test_prompts(llm):
    kinds = "prompt: must be a text, token ids or a dictionary, not "
    for prompt, kind in [(7, "int"), (None, "NoneType"), (b"text", "bytes")]:
        assert str(fails(lambda: llm.generate(prompt), "prompt", kinds + kind)).startswith("prompt: ")
        assert fails(lambda: llm.generate(["A text.", prompt]), "prompt", "prompt 1: " + kinds + kind).index == 1
    fails(lambda: list(llm.map("one text")), "prompts", "must be an iterable of prompts, not str")
    fails(lambda: list(llm.map(7)), "prompts", "must be an iterable of prompts, not int")
    fails(lambda: pipeline("summarization", llm=llm)(None), "inputs", "a text or a list of texts, not NoneType")


def test_parameters(llm):
    fails(lambda: llm.generate("A text.", max_token=3), "max_token", "^unknown parameter .max_token. .did you mean max_tokens")
    fails(lambda: llm.generate("A text.", 5), "sampling_params", "must be a SamplingParams.*not int")
    fails(lambda: llm.generate("A text.", "greedy"), "sampling_params", "must be a SamplingParams.*not str")
    fails(lambda: llm.generate("A text.", max_new_tokens=object()), "max_new_tokens", "object is no kind of value")
    fails(lambda: llm.generate("A text.", logits_processor=[print]), "logits_processor", "no kind of value")
    fails(lambda: llm.generate("A text.", beam_size=4), "beam_size", "here it is num_beams")
    fails(lambda: llm.generate("A text.", SamplingParams(max_tokens="3")), "max_tokens", "must be an integer")
    fails(lambda: llm.generate("A text.", generation_config={"num_beams": 0}), "num_beams", "num_beams")


def test_sounds_and_images(tmp_path):
    with LLM(make_whisper(tmp_path / "whisper"), dtype="float32") as hears:
        with pytest.raises(FileNotFoundError, match="sound: '/no/such.wav' does not exist"):
            hears.transcribe("/no/such.wav")
        (tmp_path / "notes.txt").write_text("No sound.\n" * 99)
        fails(lambda: hears.transcribe(tmp_path / "notes.txt"), "sound", "is no sound that can be read")
        fails(lambda: hears.transcribe(tmp_path), "sound", "is not a file")
        fails(lambda: hears.transcribe(None), "sound", "must be a path, bytes, an open file or samples, not NoneType")
        fails(lambda: hears.transcribe([0.1, 0.2]), "sound", "must be a path.*not float")
        fails(lambda: hears.transcribe((np.zeros(16000, dtype=np.float32), "16k")), "sound", "'16k' samples a second")
        fails(lambda: hears.transcribe(wav(1), "de", beam_size=5), "beam_size", "here it is num_beams")
        fails(lambda: hears.transcribe(wav(1), "de", vad_filter=3), "vad_filter", "vad_filter")
        fails(lambda: hears.transcribe(wav(1), "de", vad_parameters={"threshhold": 1}), "vad_parameters", "threshhold")
        fails(lambda: hears.transcribe(wav(1), "de", vad_parameters={"threshold": 2}), "vad_threshold", "between 0 and 1")
    with LLM(ROOT / "tests" / "data" / "vision-tiny", dtype="float32") as reads:
        with pytest.raises(MissingFileError, match="image: '/no/such.png' does not exist"):
            reads.generate({"multi_modal_data": {"image": "/no/such.png"}})
        fails(lambda: reads.generate({"multi_modal_data": {"image": 7}}), "image", "must be a path.*not int")
