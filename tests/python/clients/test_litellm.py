"""The unmodified litellm package: chats, streams, texts, embeddings, sound, and its fallbacks."""
import asyncio
import os

import pytest

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # nothing from the internet
litellm = pytest.importorskip("litellm")

from conftest import Server  # noqa: E402
from speech_model import make_whisper, wav  # noqa: E402

litellm.telemetry = False


@pytest.fixture(scope="module")
def to(server):
    return {"api_base": server.url + "/v1", "api_key": "none", "max_retries": 0}


def chat(text):
    return [{"role": "user", "content": text}]


@pytest.mark.parametrize("provider", ["openai", "hosted_vllm"])
def test_chats(to, texts, provider):
    model = provider + "/demo-model"
    whole = litellm.completion(model=model, messages=chat(texts[0]), max_tokens=20, **to)
    text = whole.choices[0].message.content
    assert text and whole.choices[0].finish_reason in ("stop", "length") and whole.usage.completion_tokens > 0
    chunks = list(litellm.completion(model=model, messages=chat(texts[0]), max_tokens=20, stream=True,
                                     stream_options={"include_usage": True}, **to))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == text
    assert [c.usage.total_tokens for c in chunks if getattr(c, "usage", None)][-1:] == [whole.usage.total_tokens]
    answer = asyncio.run(litellm.acompletion(model=model, messages=chat(texts[0]), max_tokens=20, **to))
    assert answer.choices[0].message.content == text


def test_texts_and_embeddings(to, texts):
    chatted = litellm.completion(model="openai/demo-model", messages=chat(texts[0]), max_tokens=20, **to)
    answer = litellm.text_completion(model="text-completion-openai/demo-model", prompt=texts[0], max_tokens=20, **to)
    assert answer.choices[0].text == chatted.choices[0].message.content
    vectors = litellm.embedding(model="openai/demo-model", input=texts[:2], **to)
    assert len(vectors.data) == 2 and abs(sum(x * x for x in vectors.data[0]["embedding"]) - 1) < 1e-3


def test_errors(to):
    for provider in ("openai", "hosted_vllm"):
        with pytest.raises(litellm.ContextWindowExceededError):
            litellm.completion(model=provider + "/demo-model", messages=chat("word " * 3000), **to)
        with pytest.raises(litellm.BadRequestError):
            litellm.completion(model=provider + "/demo-model", messages=chat("a"), temperature=-1, **to)
        with pytest.raises(litellm.NotFoundError):
            litellm.completion(model=provider + "/another", messages=chat("a"), **to)


def test_a_text_that_is_too_long_goes_to_another_model(to, start_server, texts):
    """litellm's router falls back where it knows the error: by OpenAI's words."""
    other = start_server("--served-model-name", "larger")
    router = litellm.Router(
        model_list=[{"model_name": "small", "litellm_params": {"model": "openai/demo-model", **to}},
                    {"model_name": "large", "litellm_params": {"model": "openai/larger", "api_base": other.url + "/v1", "api_key": "none",
                                                               "extra_body": {"truncate_prompt_tokens": -1}}}],
        context_window_fallbacks=[{"small": ["large"]}], num_retries=0)
    assert router.completion(model="small", messages=chat(texts[0]), max_tokens=5).model.endswith("demo-model")
    answer = router.completion(model="small", messages=chat("word " * 3000), max_tokens=5)
    assert answer.model.endswith("larger") and answer.choices[0].message.content is not None


def test_sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("litellm")
    server = Server(folder, "--served-model-name", "whisper-1", model=make_whisper(folder / "whisper"))
    try:
        to = {"api_base": server.url + "/v1", "api_key": "none"}
        sound = ("a.wav", wav(2))
        for model in ("openai/whisper-1", "hosted_vllm/whisper-1"):
            assert litellm.transcription(model=model, file=sound, language="de", **to).text
        verbose = litellm.transcription(model="openai/whisper-1", file=sound, language="de", response_format="verbose_json",
                                        timestamp_granularities=["segment"], **to)
        assert verbose.duration == 2 and verbose.language == "german"
    finally:
        assert server.stop() == 0, server.log()


@pytest.mark.parametrize("provider, path", [("cohere", "/v2/rerank"), ("jina_ai", "/v1/rerank"), ("hosted_vllm", ""),
                                            ("huggingface", "")])
def test_rankings(server, texts, provider, path):
    documents = [texts[1], texts[0], texts[2]]
    answer = litellm.rerank(model=provider + "/demo-model", query=texts[0], documents=documents, top_n=2,
                            api_base=server.url + path, api_key="none")
    assert [one["index"] for one in answer.results][0] == 1, "the text itself is the likest"
    assert len(answer.results) == 2 and abs(answer.results[0]["relevance_score"] - 1) < 1e-5
