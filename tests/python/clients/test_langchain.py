"""The unmodified langchain-openai package: chats, texts and embeddings. (It counts tokens by tiktoken, whose files come from the
internet: what counts them is not used here.)"""
import asyncio

import pytest

langchain_openai = pytest.importorskip("langchain_openai")

MODEL = "demo-model"


@pytest.fixture(scope="module")
def to(server):
    return {"model": MODEL, "base_url": server.url + "/v1", "api_key": "none", "max_retries": 0}


def test_chats(to, texts):
    chat = langchain_openai.ChatOpenAI(max_tokens=20, **to)
    whole = chat.invoke([("system", "ignored"), ("human", texts[0])])
    assert whole.content and whole.usage_metadata["output_tokens"] > 0
    assert whole.response_metadata["finish_reason"] in ("stop", "length")
    assert whole.response_metadata["model_name"] == MODEL and whole.response_metadata["system_fingerprint"]
    chunks = list(chat.stream(texts[0]))
    assert "".join(c.content for c in chunks) == whole.content
    with_usage = list(langchain_openai.ChatOpenAI(max_tokens=20, stream_usage=True, **to).stream(texts[0]))
    assert sum((c.usage_metadata or {}).get("output_tokens", 0) for c in with_usage) == whole.usage_metadata["output_tokens"]
    assert [a.content for a in chat.batch([texts[0], texts[0]])] == [whole.content] * 2
    assert asyncio.run(chat.ainvoke(texts[0])).content == whole.content


def test_logprobs(to, texts):
    chat = langchain_openai.ChatOpenAI(max_tokens=5, logprobs=True, top_logprobs=2, **to)
    content = chat.bind(extra_body={"num_beams": 1}).invoke(texts[0]).response_metadata["logprobs"]["content"]
    assert len(content) == 5 and all(len(token["top_logprobs"]) == 2 for token in content)


def test_texts(to, texts):
    model = langchain_openai.OpenAI(max_tokens=20, temperature=0, **to)
    whole = model.invoke(texts[0])
    assert whole and "".join(model.stream(texts[0])) == whole
    several = model.generate([texts[0], texts[1]])
    assert several.generations[0][0].text == whole and len(several.generations) == 2
    assert several.llm_output["token_usage"]["completion_tokens"] > 0
    assert asyncio.run(model.ainvoke(texts[0])) == whole


def test_embeddings(to, texts):
    vectors = langchain_openai.OpenAIEmbeddings(check_embedding_ctx_length=False, **to)
    one = vectors.embed_query(texts[0])
    assert abs(sum(x * x for x in one) - 1) < 1e-3
    assert vectors.embed_documents(texts[:2])[0] == pytest.approx(one, abs=1e-6)


def test_errors(to):
    import openai

    chat = langchain_openai.ChatOpenAI(**to)
    with pytest.raises(openai.BadRequestError) as e:
        chat.invoke("word " * 3000)
    assert e.value.code == "context_length_exceeded"
