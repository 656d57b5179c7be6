"""The unmodified openai package against the server."""
import asyncio
import os
import signal
import threading
import time

import openai
import pytest

MODEL = "demo-model"


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


def test_models(client):
    models = client.models.list().data
    assert models[0].id == MODEL


def test_completion(client, texts):
    answer = client.completions.create(model=MODEL, prompt=texts[0], max_tokens=30)
    assert answer.choices[0].finish_reason in ("stop", "length")
    assert answer.choices[0].text
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_stream_is_the_whole_in_pieces(client, texts):
    for text in texts:
        whole = client.completions.create(model=MODEL, prompt=text, max_tokens=30)
        # The salt keeps the answer before from being this one's draft: drafts come in pieces of many tokens.
        stream = client.completions.create(model=MODEL, prompt=text, max_tokens=30, stream=True,
                                           stream_options={"include_usage": True},
                                           extra_body={"cache_salt": "own drafts only"})
        pieces, usage, finish = [], None, None
        for chunk in stream:
            usage = chunk.usage or usage
            for choice in chunk.choices:
                pieces.append(choice.text)
                finish = choice.finish_reason or finish
        assert "".join(pieces) == whole.choices[0].text
        assert finish == whole.choices[0].finish_reason
        assert usage == whole.usage
        assert len(pieces) > 2


def test_several_prompts(client, texts):
    together = client.completions.create(model=MODEL, prompt=texts, max_tokens=20)
    for i, text in enumerate(texts):
        alone = client.completions.create(model=MODEL, prompt=text, max_tokens=20)
        assert together.choices[i].text == alone.choices[0].text


def test_seeds(client, texts):
    def draw(seed):
        answer = client.completions.create(model=MODEL, prompt=texts[0], max_tokens=20, temperature=1.5,
                                           seed=seed, n=3)
        return [choice.text for choice in answer.choices]

    first = draw(1)
    assert len(first) == 3 and len(set(first)) > 1
    assert draw(1) == first
    assert draw(2) != first


def test_huggingface_parameters(client, texts):
    answer = client.completions.create(model=MODEL, prompt=texts[0], max_tokens=20,
                                       extra_body={"num_beams": 4, "num_return_sequences": 2, "length_penalty": 2.0,
                                                   "no_repeat_ngram_size": 3, "return_token_ids": True})
    assert len(answer.choices) == 2
    first, second = (choice.model_extra for choice in answer.choices)
    assert first["score"] >= second["score"]
    assert first["token_ids"] != second["token_ids"]


def test_logprobs(client, texts):
    answer = client.completions.create(model=MODEL, prompt=texts[0], max_tokens=5, logprobs=2)
    logprobs = answer.choices[0].logprobs
    assert len(logprobs.tokens) == len(logprobs.token_logprobs) == len(logprobs.text_offset) == 5
    # The chosen token is there too, beside the two most likely ones, as OpenAI's.
    assert all(token in top and len(top) in (2, 3) for token, top in zip(logprobs.tokens, logprobs.top_logprobs))
    assert all(value <= 0 for value in logprobs.token_logprobs)


def test_chat(client, texts):
    messages = [{"role": "system", "content": "ignored"}, {"role": "user", "content": texts[0]}]
    answer = client.chat.completions.create(model=MODEL, messages=messages, max_completion_tokens=20)
    plain = client.completions.create(model=MODEL, prompt=texts[0], max_tokens=20)
    assert answer.choices[0].message.content == plain.choices[0].text
    stream = client.chat.completions.create(model=MODEL, messages=messages, max_tokens=20, stream=True,
                                            logprobs=True, top_logprobs=3)
    chunks = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == plain.choices[0].text
    tokens = [t for c in chunks if c.choices[0].logprobs for t in c.choices[0].logprobs.content]
    assert all(len(t.top_logprobs) == 3 for t in tokens)


def norm(vector):
    return sum(x * x for x in vector) ** 0.5


def test_embeddings(client, texts):
    """The package asks for base64 unless told otherwise."""
    answer = client.embeddings.create(model=MODEL, input=texts)
    assert answer.object == "list" and answer.model == MODEL
    assert [e.index for e in answer.data] == list(range(len(texts)))
    assert answer.usage.total_tokens == answer.usage.prompt_tokens > 0
    size = len(answer.data[0].embedding)
    for text, e in zip(texts, answer.data):
        assert abs(norm(e.embedding) - 1) < 1e-5
        floats = client.embeddings.create(model=MODEL, input=text, encoding_format="float", dimensions=size, user="me")
        assert floats.data[0].embedding == pytest.approx(e.embedding, abs=1e-7)
    last = client.embeddings.create(model=MODEL, input=texts[0], extra_body={"pooling": "last", "normalize": False})
    assert last.data[0].embedding != pytest.approx(answer.data[0].embedding, abs=1e-3)


def test_embeddings_of_tokens(client, server, texts):
    import httpx

    ids = [httpx.post(server.url + "/tokenize", json={"prompt": text}).json()["tokens"] for text in texts]
    expected = [e.embedding for e in client.embeddings.create(model=MODEL, input=texts).data]
    assert [e.embedding for e in client.embeddings.create(model=MODEL, input=ids).data] == expected
    assert client.embeddings.create(model=MODEL, input=ids[0]).data[0].embedding == expected[0]


def test_embeddings_errors(client):
    def param(input, **more):
        with pytest.raises(openai.BadRequestError) as e:
            client.embeddings.create(model=MODEL, input=input, **more)
        assert e.value.body["param"] in e.value.message
        return e.value.param

    assert param("a", dimensions=5) == "dimensions"
    assert param([]) == "input"
    assert param(["a", [10**6]]) == "input[1]"
    assert param([5] * 5000) == "input"
    assert param("a", extra_body={"pooling": "max"}) == "pooling"
    assert param("a", extra_body={"nonsense": 1}) == "nonsense"
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model="another", input="a")


def test_embeddings_beside_text_and_a_dying_worker(start_server, texts):
    """Embeddings and texts share steps; what a dead worker has not answered is computed again."""
    import httpx

    server = start_server("--tensor-parallel-size", "2", "--max-num-batched-tokens", "256")
    client = openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)

    async def work():
        async def embed(text):
            return (await client.embeddings.create(model=MODEL, input=text)).data[0].embedding

        async def complete(text):
            answer = await client.completions.create(model=MODEL, prompt=text, max_tokens=100, extra_body={"ignore_eos": True})
            return answer.choices[0].text

        expected = {text: (await embed(text), await complete(text)) for text in texts}
        jobs = [(i % 4 > 0, texts[i % len(texts)]) for i in range(200)]
        tasks = [asyncio.ensure_future(embed(t) if wants_vector else complete(t)) for wants_vector, t in jobs]
        while not any(task.done() for task in tasks):
            await asyncio.sleep(0.005)
        os.kill(server.workers()[0], signal.SIGKILL)
        for (wants_vector, text), answer in zip(jobs, await asyncio.gather(*tasks)):
            assert answer == expected[text][0 if wants_vector else 1]

    asyncio.run(work())
    deadline = time.time() + 10
    while (status := httpx.get(server.url + "/status").json())["num_requests"] > 0:  # it is a little behind
        assert time.time() < deadline
        time.sleep(0.05)
    assert status["num_restarts"] == 1
    metrics = httpx.get(server.url + "/metrics").text.splitlines()
    seconds = [float(line.split()[-1]) for line in metrics if line.startswith("tandem:encoder_seconds_total{")]
    assert len(seconds) == 1 and seconds[0] > 0


def test_embeddings_are_cancelled(server):
    """A client that goes away leaves nothing behind."""
    import httpx

    with pytest.raises(httpx.ReadTimeout):
        httpx.post(server.url + "/v1/embeddings", json={"input": [[5] * 500] * 256}, timeout=0.05)
    time.sleep(1)  # until they have all come in
    deadline = time.time() + 20
    while httpx.get(server.url + "/status").json()["num_requests"] > 0:
        assert time.time() < deadline
        time.sleep(0.05)


def test_errors(client, server):
    with pytest.raises(openai.BadRequestError) as e:
        client.completions.create(model=MODEL, prompt="a", max_tokens=-1)
    assert e.value.param == "max_tokens" and e.value.type == "invalid_request_error"
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="another", prompt="a")
    with pytest.raises(openai.BadRequestError) as e:
        client.completions.create(model=MODEL, prompt="a", extra_body={"num_beans": 4})
    assert "num_beams" in e.value.message
    with pytest.raises(openai.BadRequestError):
        list(client.completions.create(model=MODEL, prompt="a", temperature=-1, stream=True))
    # One that its deadline overtakes. Beams have no drafts: 400 steps take any machine longer.
    with pytest.raises(openai.APIStatusError) as e:
        client.completions.create(model=MODEL, prompt="a", max_tokens=400,
                                  extra_body={"ignore_eos": True, "num_beams": 8, "timeout": 0.01})
    assert e.value.status_code == 408


def test_keys(start_server):
    server = start_server("--api-key", "secret")
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=server.url + "/v1", api_key="wrong", max_retries=0).models.list()
    assert openai.OpenAI(base_url=server.url + "/v1", api_key="secret").models.list().data


def test_cancellation(client, texts):
    """Leaving a stream ends the work behind it."""
    import httpx

    def under_way():
        status = httpx.get(str(client.base_url).replace("/v1/", "/status")).json()
        return status["num_requests"]

    stream = client.completions.create(model=MODEL, prompt=texts[0], max_tokens=450, stream=True,
                                       extra_body={"ignore_eos": True, "num_beams": 1})
    next(iter(stream))
    stream.close()
    deadline = time.time() + 10
    while under_way() > 0:
        assert time.time() < deadline
        time.sleep(0.05)


def test_many_streams_at_once(server, texts):
    """Concurrent streams give what each prompt gives alone. Those that would wait too long come again when they are told to."""
    client = openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="none", max_retries=20)

    async def one(text):
        stream = await client.completions.create(model=MODEL, prompt=text, max_tokens=24, stream=True)
        return "".join([chunk.choices[0].text async for chunk in stream])

    async def all_of_them():
        alone = {text: await one(text) for text in texts}
        prompts = [texts[i % len(texts)] for i in range(100)]
        for text, answer in zip(prompts, await asyncio.gather(*map(one, prompts))):
            assert answer == alone[text]

    asyncio.run(all_of_them())


def test_no_stream_breaks_when_a_worker_dies(start_server, texts):
    import httpx

    server = start_server("--tensor-parallel-size", "2")
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
    expected = {t: client.completions.create(model=MODEL, prompt=t, max_tokens=400, extra_body={"ignore_eos": True})
                .choices[0].text for t in texts}
    seen, got, failures = set(), {}, []
    begun, stop = threading.Event(), threading.Event()

    def watch_health():
        while not stop.is_set():
            seen.add(httpx.get(server.url + "/health").status_code)
            time.sleep(0.01)

    def read(i):
        text = texts[i % len(texts)]
        try:
            stream = client.completions.create(model=MODEL, prompt=text, max_tokens=400, stream=True,
                                               extra_body={"ignore_eos": True})
            pieces = []
            for chunk in stream:
                begun.set()
                pieces.append(chunk.choices[0].text)
            got[i] = "".join(pieces) == expected[text]
        except Exception as e:  # noqa: BLE001
            failures.append(e)

    watcher = threading.Thread(target=watch_health)
    watcher.start()
    readers = [threading.Thread(target=read, args=(i,)) for i in range(16)]
    for reader in readers:
        reader.start()
    assert begun.wait(60)
    os.kill(server.workers()[0], signal.SIGKILL)
    for reader in readers:
        reader.join()
    deadline = time.time() + 20
    while httpx.get(server.url + "/health").status_code != 200:
        assert time.time() < deadline
        time.sleep(0.05)
    stop.set()
    watcher.join()
    assert not failures
    assert len(got) == 16 and all(got.values())
    assert seen == {200, 503}, "health told the truth"
