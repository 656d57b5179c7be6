"""Answers against the openai package's own types, in strict mode: every field is there, and of its type."""
import asyncio
import json
import time

import httpx
import openai
import pytest
from openai.types import Completion, CreateEmbeddingResponse, Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk

MODEL = "demo-model"
# Fields of OpenAI's that say something about its own service, or that are there only where something asks for them.
OTHERS = {"metadata", "moderation", "obfuscation", "shutdown_date", "audio", "function_call", "tool_calls",
          "completion_tokens_details", "prompt_tokens_details"}


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


def check(kind, answer):
    """The type takes it as it is; no field of the type is missing, at any depth."""
    import typing

    kind.model_validate(answer, strict=True)

    def complete(kind, value):
        for name, field in kind.model_fields.items():
            assert name in value or name in OTHERS, (kind.__name__, name)
            for inner in (field.annotation, *typing.get_args(field.annotation)):
                inner = next(iter(typing.get_args(inner)), inner)
                if not hasattr(inner, "model_fields"):
                    continue
                values = value.get(name)
                for one in values if isinstance(values, list) else [values] * isinstance(values, dict):
                    complete(inner, one)

    complete(kind, answer)


def post(server, path, **body):
    answer = httpx.post(server.url + path, json={"model": MODEL, **body}, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()


def events(server, path, **body):
    answer = httpx.post(server.url + path, json={"model": MODEL, "stream": True, **body}, timeout=60)
    assert answer.status_code == 200, answer.text
    lines = [line[len("data: "):] for line in answer.text.split("\n\n") if line.startswith("data: ")]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


def chat(text):
    return [{"role": "user", "content": text}]


def test_completions(server, texts):
    check(Completion, post(server, "/v1/completions", prompt=texts[:2], max_tokens=5))
    answer = post(server, "/v1/completions", prompt=texts[0], max_tokens=5, logprobs=0, num_beams=1)
    check(Completion, answer)
    logprobs = answer["choices"][0]["logprobs"]
    assert [list(top.items()) for top in logprobs["top_logprobs"]] == \
        [[pair] for pair in zip(logprobs["tokens"], logprobs["token_logprobs"])]


def test_the_chosen_token_has_its_logprob(server, texts):
    answer = post(server, "/v1/completions", prompt=texts[0], max_tokens=20, logprobs=2, temperature=2.0, seed=3)
    logprobs = answer["choices"][0]["logprobs"]
    for token, value, top in zip(logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"]):
        assert top[token] == value and len(top) in (2, 3)
    assert any(len(top) == 3 for top in logprobs["top_logprobs"]), "one that is none of the likeliest"
    for k in (0, 2):
        body = {"messages": chat(texts[0]), "max_tokens": 20, "logprobs": True, "top_logprobs": k, "temperature": 2.0, "seed": 3}
        content = post(server, "/v1/chat/completions", **body)["choices"][0]["logprobs"]["content"]
        assert all(isinstance(t["logprob"], float) and len(t["top_logprobs"]) == k for t in content)


def test_chats(server, texts):
    check(ChatCompletion, post(server, "/v1/chat/completions", messages=chat(texts[0]), max_tokens=5))
    check(ChatCompletion, post(server, "/v1/chat/completions", messages=chat(texts[0]), max_tokens=5, logprobs=True,
                               top_logprobs=2, num_beams=1))
    with_usage = {"stream_options": {"include_usage": True}}
    for options in ({}, with_usage):
        chunks = events(server, "/v1/chat/completions", messages=chat(texts[0]), max_tokens=5, **options)
        for chunk in chunks:
            ChatCompletionChunk.model_validate(chunk, strict=True)
            assert ("usage" in chunk) == bool(options)
        if options:
            assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["completion_tokens"] == 5
            assert all(chunk["usage"] is None and chunk["choices"] for chunk in chunks[:-1])


def test_usage_of_streams(server, client, texts):
    chunks = events(server, "/v1/completions", prompt=texts[0], max_tokens=5, stream_options={"include_usage": True})
    assert chunks[-1]["choices"] == [] and all(chunk["usage"] is None for chunk in chunks[:-1])
    assert all("usage" not in chunk for chunk in events(server, "/v1/completions", prompt=texts[0], max_tokens=5))
    with pytest.raises(openai.BadRequestError) as e:
        client.completions.create(model=MODEL, prompt="a", stream_options={"include_usage": True})
    assert e.value.param == "stream_options"


def test_embeddings_and_models(server, texts):
    check(CreateEmbeddingResponse, post(server, "/v1/embeddings", input=texts[:2]))
    for model in httpx.get(server.url + "/v1/models").json()["data"]:
        check(Model, model)


def test_token_ids(server, texts):
    ids = post(server, "/tokenize", prompt=texts[0])["tokens"]
    answer = post(server, "/v1/completions", prompt=[texts[0], texts[1]], max_tokens=5, return_token_ids=True)
    first, second = answer["choices"]
    assert first["prompt_token_ids"] == ids and len(first["token_ids"]) == 5
    assert second["prompt_token_ids"] == post(server, "/tokenize", prompt=texts[1])["tokens"]
    assert post(server, "/v1/chat/completions", messages=chat(texts[0]), max_tokens=5, return_token_ids=True)["prompt_token_ids"] == ids
    chunks = events(server, "/v1/completions", prompt=texts[0], max_tokens=5, return_token_ids=True)
    assert [chunk["choices"][0].get("prompt_token_ids") for chunk in chunks] == [ids] + [None] * (len(chunks) - 1)
    assert sum((chunk["choices"][0]["token_ids"] for chunk in chunks), []) == first["token_ids"]


def test_raw_tokens(server):
    answer = post(server, "/tokenize", prompt="A library for things.", return_token_strs=True)
    vocabulary = json.loads((__import__("conftest").MODEL / "vocab.json").read_text())
    assert [vocabulary[token] for token in answer["token_strs"]] == answer["tokens"]
    assert any(token.startswith("Ġ") for token in answer["token_strs"])
    assert answer["max_model_len"] > 0 and answer["count"] == len(answer["tokens"])
    same = post(server, "/tokenize", messages=chat("A library for things."))
    assert same["tokens"] == answer["tokens"] and same["token_strs"] is None
    special = post(server, "/detokenize", tokens=answer["tokens"])["prompt"]
    assert "A library for things." in special and special.startswith("<s>")


def test_texts_that_are_too_long(server, client):
    """In OpenAI's words, under which its clients know the error."""
    long = "word " * 3000
    limit = httpx.get(server.url + "/v1/models").json()["data"][0]["max_model_len"]
    asks = {"prompt": lambda: client.completions.create(model=MODEL, prompt=long),
            "messages": lambda: client.chat.completions.create(model=MODEL, messages=chat(long)),
            "input[1]": lambda: client.embeddings.create(model=MODEL, input=["a", long]),
            "decoder_prompt": lambda: client.completions.create(model=MODEL, prompt="a", extra_body={"decoder_prompt": long})}
    for field, ask in asks.items():
        with pytest.raises(openai.BadRequestError) as e:
            ask()
        assert e.value.code == "context_length_exceeded" and e.value.type == "invalid_request_error"
        assert e.value.param == field
        assert "This model's maximum context length is %d tokens. However, you requested " % limit in e.value.message
    with pytest.raises(openai.BadRequestError) as e:
        list(client.completions.create(model=MODEL, prompt=long, stream=True))
    assert e.value.code == "context_length_exceeded"


def test_more_tokens_than_there_is_room_for(client, texts):
    for more in ({"max_tokens": 100000}, {"max_completion_tokens": 10**9}):
        answer = client.chat.completions.create(model=MODEL, messages=chat(texts[0]), **more)
        assert answer.choices[0].message.content
    assert client.completions.create(model=MODEL, prompt=texts[0], max_tokens=100000).choices[0].text


def test_errors_name_what_was_sent(server, client):
    def param(**body):
        with pytest.raises(openai.BadRequestError) as e:
            client.chat.completions.create(model=MODEL, messages=chat("a text"), extra_body=body)
        assert e.value.body["message"].startswith(e.value.param + ":"), e.value.message
        return e.value.param

    assert param(use_beam_search=True, best_of=2, n=3) == "n"
    assert param(use_beam_search=True, best_of=9999) == "best_of"
    assert param(best_of=2, n=3, temperature=1) == "best_of"
    assert param(target_lang="de") == "target_lang"
    assert param(source_lang="de") == "source_lang"
    assert param(tgt_lang="de") == "tgt_lang"
    assert param(max_completion_tokens=-1) == "max_completion_tokens"
    assert param(max_completion_tokens=5, min_tokens=9) == "min_tokens"
    assert param(logprobs=True, top_logprobs=3, num_beams=2) == "top_logprobs"
    assert param(decoder_prompt=[10**6]) == "decoder_prompt"


def test_names_of_the_model(start_server, texts):
    server = start_server("--served-model-name", "gpt-3.5-turbo", "--served-model-name", "mine")
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
    assert [m.id for m in client.models.list().data] == ["gpt-3.5-turbo", "mine"]
    for name in ("gpt-3.5-turbo", "mine"):
        assert client.models.retrieve(name).id == name
        assert client.completions.create(model=name, prompt=texts[0], max_tokens=2).model == name
        assert client.chat.completions.create(model=name, messages=chat(texts[0]), max_tokens=2).model == name
        assert client.embeddings.create(model=name, input="a").model == name
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="demo-model", prompt="a")


def test_async(server, texts):
    async def work():
        async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="none", max_retries=5) as client:
            whole = await client.chat.completions.create(model=MODEL, messages=chat(texts[0]), max_tokens=10)
            stream = await client.chat.completions.create(model=MODEL, messages=chat(texts[0]), max_tokens=10, stream=True)
            assert "".join([c.choices[0].delta.content or "" async for c in stream]) == whole.choices[0].message.content
            answers = await asyncio.gather(*(client.completions.create(model=MODEL, prompt=t, max_tokens=5) for t in texts * 3))
            assert [a.choices[0].text for a in answers[:len(texts)]] == [a.choices[0].text for a in answers[len(texts):2 * len(texts)]]
            assert len((await client.embeddings.create(model=MODEL, input=texts)).data) == len(texts)

    asyncio.run(work())


def test_metrics_of_requests(server, client, texts):
    client.completions.create(model=MODEL, prompt=texts[0], max_tokens=7, n=2, seed=1, temperature=1)
    for _ in range(100):  # the engine's own figures are some tenths of a second old
        lines = httpx.get(server.url + "/metrics").text.splitlines()
        values = {line.split("{")[0]: float(line.split()[-1]) for line in lines if not line.startswith("#")}
        if values.get("vllm:iteration_tokens_total_count", 0) > 0:
            break
        time.sleep(0.1)
    for name in ("request_inference_time_seconds", "request_prefill_time_seconds", "request_decode_time_seconds",
                 "request_time_per_output_token_seconds", "request_params_n", "request_params_max_tokens",
                 "request_max_num_generation_tokens", "request_num_preemptions", "iteration_tokens_total"):
        assert values["vllm:" + name + "_count"] > 0, name
    assert values["vllm:iteration_tokens_total_sum"] >= 7
    labels = next(line for line in lines if line.startswith("vllm:cache_config_info{"))
    assert 'block_size="16"' in labels and 'num_gpu_blocks="' in labels and labels.endswith(" 1")
    for reason in ("capacity", "deferred"):
        assert any(line.startswith("vllm:num_requests_waiting_by_reason{") and f'reason="{reason}"' in line for line in lines)
