"""tandem_infer.client against the server, and against scripted answers where the server would have to be in trouble."""
import asyncio
import json
import sys
import time

import httpx
import pytest

from conftest import GOLDENS, ROOT

sys.path.insert(0, str(ROOT / "python"))

import tandem_infer.client as tc  # noqa: E402


@pytest.fixture(scope="module")
def client(server):
    with tc.Client(server.url, retries=0) as c:
        yield c


def run_async(server, work, **options):
    async def main():
        async with tc.AsyncClient(server.url, **options) as c:
            return await work(c)

    return asyncio.run(main())


def wait_until_idle(client):
    deadline = time.time() + 10
    while client.status()["num_requests"] > 0:
        assert time.time() < deadline
        time.sleep(0.05)


# --- Against the server -------------------------------------------------------------------------

def test_completion(client, texts):
    answer = client.complete(texts[0], max_tokens=30, return_token_ids=True, logprobs=2)
    choice = answer.choices[0]
    assert answer.text == choice.text and choice.text
    assert choice.finish_reason in ("stop", "length")
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert len(choice.token_ids) == answer.usage.completion_tokens == len(choice.logprobs.tokens)
    assert all(len(top) == 2 for top in choice.logprobs.top_logprobs)
    assert answer.request_id


def test_several_prompts_and_beams(client, texts):
    together = client.complete(texts, max_tokens=20)
    assert together.texts == [client.complete(text, max_tokens=20).text for text in texts]
    beams = client.complete(texts[0], max_tokens=20, num_beams=4, num_return_sequences=2, length_penalty=2.0)
    assert beams.choices[0].score >= beams.choices[1].score


def test_token_ids_as_prompt(client, texts):
    ids = client.tokenize(texts[0]).tokens
    assert client.complete(ids, max_tokens=20).text == client.complete(texts[0], max_tokens=20).text


def test_stream_is_the_whole_in_pieces(client, texts):
    for text in texts:
        whole = client.complete(text, max_tokens=30, logprobs=1)
        # (The salt keeps the answer before from being this one's draft.)
        with client.stream(text, max_tokens=30, cache_salt="own drafts only") as stream:
            chunks = list(stream)
        assert "".join(chunk.text for chunk in chunks) == whole.text
        assert len(chunks) > 2
        assert [chunk.usage for chunk in chunks if chunk.usage] == [whole.usage]
        result = client.stream(text, max_tokens=30, logprobs=1).result()
        assert result.choices == whole.choices and result.usage == whole.usage


def test_stream_of_several_sequences(client, texts):
    params = dict(max_tokens=20, n=3, temperature=1.5, seed=3)
    assert client.stream(texts[0], **params).result().choices == client.complete(texts[0], **params).choices


def test_chat(client, texts):
    plain = client.complete(texts[0], max_tokens=20)
    messages = [{"role": "system", "content": "ignored"}, {"role": "user", "content": texts[0]}]
    answer = client.chat(messages, max_tokens=20, logprobs=True, top_logprobs=3)
    assert answer.text == plain.text == client.chat(texts[0], max_tokens=20).text
    assert all(len(top) == 3 for top in answer.choices[0].logprobs.top_logprobs)
    assert "".join(c.text for c in client.chat_stream(messages, max_tokens=20)) == plain.text


def test_tokens(client):
    tokens = client.tokenize("Some words.", return_token_strs=True)
    assert tokens.count == len(tokens.tokens) == len(tokens.token_strs)
    assert client.detokenize(tokens.tokens, skip_special_tokens=True) == "Some words."
    assert client.tokenize("Some words.", add_special_tokens=False).tokens == tokens.tokens[1:-1]


def test_embeddings(client, texts):
    alone = [client.embed(text).vector for text in texts]
    together = client.embed(texts)
    assert together.vectors == alone and together.usage.prompt_tokens > 0 and together.request_id
    assert all(abs(sum(x * x for x in vector) - 1) < 1e-5 for vector in alone)
    ids = client.tokenize(texts[0]).tokens
    assert client.embed(ids).vector == client.embed([ids]).vector == alone[0]
    plain = client.embed(texts[0], normalize=False).vector
    length = sum(x * x for x in plain) ** 0.5
    assert all(abs(x / length - y) < 1e-6 for x, y in zip(plain, alone[0]))
    assert client.embed(texts[0], pooling="cls").vector != alone[0]
    assert client.embed(texts[0], truncate_prompt_tokens=5).usage.prompt_tokens == 5
    with pytest.raises(tc.BadRequestError) as e:
        client.embed(texts[0], pooling="max")
    assert e.value.param == "pooling"


def test_scores(client, texts):
    summary = client.complete(texts[0], max_tokens=20, num_beams=1).text
    scores = client.score(texts[0], [summary, "Something else, quite unlikely."])
    assert len(scores) == 2 and [s.index for s in scores] == [0, 1] and scores.usage.prompt_tokens > 0
    assert scores[0].score > scores[1].score and scores[0].perplexity < scores[1].perplexity
    assert len(scores[0].token_ids) == len(scores[0].token_logprobs)
    assert client.score([texts[0]] * 2, [summary] * 2)[1] == tc.Score(**{**vars(scores[0]), "index": 1})
    without = client.score(texts[0], summary, append_eos=False)[0]
    assert without.token_ids == scores[0].token_ids[:-1]
    with pytest.raises(tc.BadRequestError) as e:
        client.score([], "a")
    assert e.value.param == "prompt"


def test_about_the_server(client):
    assert client.health() and client.health().ready
    client.wait_until_ready(timeout=5)
    assert [m.id for m in client.models()] and client.version()
    assert "tandem:generation_tokens_total" in client.metrics()


def test_languages(start_server):
    model = GOLDENS / "mbart50-tiny"
    client = tc.Client(start_server(model=model).url)
    info, = client.models()
    assert len(info.source_languages) == 52 and info.target_languages == info.source_languages
    assert info.default_source_language == "en_XX" and info.tasks == []
    cases = [c for c in json.loads((model / "golden.json").read_text())["cases"]
             if c["kind"] == "lang" and "sequences" not in c]
    assert cases
    for case in cases:
        answer = client.complete(case["text"], src_lang=case["src_lang"], target_lang=case["tgt_lang"], num_beams=1,
                                 max_new_tokens=20)
        assert answer.text == case["output_text"]["skip_special_tokens_true"]
    german, = client.score("a text", "ein Text", src_lang="en_XX", tgt_lang="de_DE")
    english, = client.score("a text", "ein Text", src_lang="en_XX", tgt_lang="en_XX")
    assert german.token_ids[1:] == english.token_ids[1:] and german.token_ids[0] != english.token_ids[0]
    with pytest.raises(tc.BadRequestError, match="did you mean de_DE") as e:
        client.complete("a", tgt_lang="Deutch")
    assert e.value.param == "tgt_lang"


def test_tasks(start_server):
    client = tc.Client(start_server(model=GOLDENS / "t5-tiny").url)
    info, = client.models()
    assert info.tasks == ["summarization"] and info.target_languages == []
    text = "Some text of a few words."
    by_task = client.complete(text, task="summarization", max_tokens=8, min_length=0)
    assert by_task.text == client.complete("summarize: " + text, max_tokens=8, num_beams=4, length_penalty=2,
                                           early_stopping=True, no_repeat_ngram_size=3).text
    with pytest.raises(tc.BadRequestError, match="summarization") as e:
        client.complete(text, task="translation")
    assert e.value.param == "task"


def test_errors(client):
    with pytest.raises(tc.BadRequestError) as e:
        client.complete("a", max_tokens=-1)
    assert e.value.param == "max_tokens" and e.value.status == 400 and e.value.request_id
    with pytest.raises(tc.BadRequestError, match="num_beams"):
        client.complete("a", num_beans=4)
    with pytest.raises(tc.BadRequestError):
        client.stream("a", temperature=-1)
    with pytest.raises(tc.NotFoundError):
        client.complete("a", model="another")
    with pytest.raises(tc.DeadlineError):
        client.complete("a", max_tokens=400, ignore_eos=True, num_beams=8, timeout=0.01)


def test_keys(start_server):
    server = start_server("--api-key", "secret")
    with pytest.raises(tc.AuthenticationError):
        tc.Client(server.url, api_key="wrong").models()
    assert tc.Client(server.url, api_key="secret").models()
    assert tc.Client(server.url + "/v1/", api_key="secret").health()


def test_closing_a_stream_cancels(client, texts):
    with client.stream(texts[0], max_tokens=450, ignore_eos=True, num_beams=1) as stream:
        next(stream)
    wait_until_idle(client)
    assert list(stream) == []


def test_async(server, client, texts):
    async def work(c):
        alone = {text: (await c.complete(text, max_tokens=24)).text for text in texts}

        async def one(text):
            return "".join([chunk.text async for chunk in c.stream(text, max_tokens=24)])

        prompts = [texts[i % len(texts)] for i in range(40)]
        assert await asyncio.gather(*map(one, prompts)) == [alone[text] for text in prompts]
        result = await c.chat_stream(texts[0], max_tokens=24).result()
        assert result.text == alone[texts[0]] == (await c.chat(texts[0], max_tokens=24)).text
        embeddings = await asyncio.gather(*[c.embed(text) for text in texts])
        assert [e.vector for e in embeddings] == client.embed(texts).vectors
        assert (await c.score(texts[0], "A target.")).scores == client.score(texts[0], "A target.").scores
        assert (await c.health()) and await c.version() and await c.models() and await c.metrics()
        await c.wait_until_ready(timeout=5)
        tokens = await c.tokenize("Some words.")
        assert await c.detokenize(tokens.tokens, skip_special_tokens=True) == "Some words."
        with pytest.raises(tc.BadRequestError):
            async with c.stream("a", temperature=-1):
                pass

    run_async(server, work)


def test_async_cancellation(server, client, texts):
    async def work(c):
        async with c.stream(texts[0], max_tokens=450, ignore_eos=True, num_beams=1) as stream:
            async for _ in stream:
                break
        # A task that is cancelled while it waits for an answer.
        task = asyncio.ensure_future(c.complete(texts[0], max_tokens=450, ignore_eos=True, num_beams=4))
        while (await c.status())["num_requests"] == 0 and not task.done():
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_async(server, work)
    wait_until_idle(client)


def test_overload_is_waited_for(start_server, texts):
    server = start_server("--max-requests", "1")

    async def work(c):
        return await asyncio.gather(*[c.complete(texts[0], max_tokens=8) for _ in range(3)])

    impatient = tc.Client(server.url, retries=0)
    with impatient.stream(texts[0], max_tokens=400, ignore_eos=True) as stream:
        next(iter(stream))
        with pytest.raises(tc.OverloadedError) as e:
            impatient.complete("a")
    assert e.value.retry_after >= 1
    assert len(run_async(server, work)) == 3


# --- Against scripted answers -------------------------------------------------------------------

BODY = {"id": "x", "model": "m", "created": 1, "choices": [{"index": 0, "text": "t", "finish_reason": "stop"}]}


class Script:
    """Answers of a server, one after the other: (status, headers), an exception, or bytes of a stream."""

    def __init__(self, *answers):
        self.answers, self.times, self.bodies, self.timeouts = list(answers), [], [], []

    def __call__(self, request):
        self.times.append(time.monotonic())
        self.bodies.append(json.loads(request.content) if request.content else None)
        self.timeouts.append(request.extensions["timeout"])
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, bytes):
            return httpx.Response(200, content=answer, headers={"content-type": "text/event-stream"})
        status, headers = answer
        return httpx.Response(status, headers=headers, json=BODY if status == 200 else {
            "error": {"message": "no", "type": "t", "param": None, "code": status}})


def scripted(*answers, **options):
    script = Script(*answers)
    return script, tc.Client("http://server", transport=httpx.MockTransport(script), **options)


OK = (200, {})


def test_retries_honour_retry_after():
    script, client = scripted((429, {"retry-after": "0.3"}), (503, {"retry-after": "0"}), OK)
    assert client.complete("a").text == "t"
    assert script.times[1] - script.times[0] >= 0.3
    assert script.bodies == [{"prompt": "a"}] * 3


def test_retries_end():
    retries = tc.Retries(count=2, backoff=0.001)
    script, client = scripted((429, {}), (429, {}), (429, {}), OK, retries=retries)
    with pytest.raises(tc.OverloadedError):
        client.complete("a")
    assert len(script.times) == 3
    # One that asks for more patience than there is.
    script, client = scripted((503, {"retry-after": "1000"}), OK)
    with pytest.raises(tc.UnavailableError) as e:
        client.complete("a")
    assert e.value.retry_after == 1000 and len(script.times) == 1


def test_only_what_did_not_reach_the_server_is_sent_again():
    retries = tc.Retries(backoff=0.001)
    script, client = scripted(httpx.ConnectError("refused"), OK, retries=retries)
    assert client.complete("a").text == "t"
    for answer, error in ((httpx.ReadError("reset"), tc.ConnectionFailed), ((500, {}), tc.ServerError),
                          ((400, {}), tc.BadRequestError), (httpx.ReadTimeout("silence"), tc.ConnectionFailed)):
        script, client = scripted(answer, OK, retries=retries)
        with pytest.raises(error):
            client.complete("a")
        assert len(script.times) == 1


def test_async_retries():
    async def main():
        script = Script((429, {"retry-after": "0"}), httpx.ConnectError("refused"), OK)
        async with tc.AsyncClient("http://server", transport=httpx.MockTransport(script)) as client:
            assert (await client.complete("a")).text == "t"

    asyncio.run(main())


def test_timeouts():
    script, client = scripted(OK, OK, timeout=50, connect_timeout=3)
    client.complete("a")
    client.complete("a", timeout=2.0)
    assert script.timeouts[0]["read"] == 50 and script.timeouts[0]["connect"] == 3
    assert 2 < script.timeouts[1]["read"] < 10 and script.bodies[1]["timeout"] == 2.0


def event(text, **more):
    return b"data: " + json.dumps({**BODY, "choices": [{"index": 0, "text": text}], **more}).encode() + b"\n\n"


def test_streams_that_go_wrong():
    error = b'data: {"error": {"message": "gone", "type": "unavailable_error", "param": null, "code": 503}}\n\n'
    _, client = scripted(event("a") + error + b"data: [DONE]\n\n")
    stream = client.stream("p")
    assert next(stream).text == "a"
    with pytest.raises(tc.UnavailableError, match="gone"):
        next(stream)
    _, client = scripted(event("a"))
    with pytest.raises(tc.ConnectionFailed, match="broke off"):
        client.stream("p").result()
    _, client = scripted(b"data: {nonsense\n\n")
    with pytest.raises(tc.ConnectionFailed, match="no JSON"):
        list(client.stream("p"))


def test_a_closed_stream_has_ended():
    """Chunks that came in one piece with the last one taken are not given out after close()."""
    answer = event("a") + event("b") + b"data: [DONE]\n\n"
    _, client = scripted(answer)
    with client.stream("p") as stream:
        assert next(stream).text == "a"
    assert list(stream) == []

    async def main():
        async with tc.AsyncClient("http://server", transport=httpx.MockTransport(Script(answer))) as client:
            async with client.stream("p") as stream:
                assert (await stream.__anext__()).text == "a"
            assert [chunk async for chunk in stream] == []

    asyncio.run(main())


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_events_in_pieces_of_any_size(size):
    from tandem_infer.client._protocol import EventReader
    from tandem_infer.client._types import chunk_of

    text = "line\u2028 é\r\n"
    data = b": a comment\n\n" + event(text).replace(b"\n\n", b"\r\n\r\n") + event("b") + b"data: [DONE]\n\n"
    reader = EventReader(chunk_of)
    chunks = [c for at in range(0, len(data), size) for c in reader.feed(data[at:at + size])]
    assert [c.text for c in chunks] == [text, "b"] and reader.done


def test_unreachable():
    client = tc.Client("http://127.0.0.1:1", retries=0)
    with pytest.raises(tc.ConnectionFailed):
        client.health()
    with pytest.raises(tc.TandemError, match="not ready"):
        client.wait_until_ready(timeout=0.1)


def test_both_clients_have_the_same_methods():
    def methods(cls):
        return {name for name in vars(cls) if not name.startswith("_")}

    assert methods(tc.Client) == methods(tc.AsyncClient)
    assert methods(tc.Stream) == methods(tc.AsyncStream)
    assert methods(tc.TranscriptionStream) == methods(tc.AsyncTranscriptionStream)
