"""Many clients at once: all are served, or told at once that they are not."""
import asyncio
import http.client
import json
import pathlib
import re
import time
import urllib.parse
import urllib.request

import sse


def memory_kib(server):
    for line in pathlib.Path(f"/proc/{server.process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])


def threads(server):
    return len(list(pathlib.Path(f"/proc/{server.process.pid}/task").iterdir()))


def test_a_thousand_streams(start_server, texts):
    server = start_server("--disable-access-log")

    async def run():
        alone = {t: (await sse.stream(server.url, {"prompt": t, "max_tokens": 16})).text for t in texts}
        before = threads(server)
        prompts = [texts[i % len(texts)] for i in range(1000)]
        tasks = [asyncio.ensure_future(sse.stream(server.url, {"prompt": t, "max_tokens": 16})) for t in prompts]
        await asyncio.sleep(0.5)
        assert threads(server) <= before + 1, "no thread belongs to a connection"
        for text, answer in zip(prompts, await asyncio.gather(*tasks)):
            assert answer.status == 200 and answer.finish and answer.text == alone[text]

    asyncio.run(run())


def test_memory_of_idle_streams(start_server):
    """Connections that wait cost little, and nothing when they have gone."""
    server = start_server("--disable-access-log", "--max-num-seqs", "1")
    count = 1000

    async def run():
        # One that keeps the engine busy, so that the others wait.
        first = asyncio.ensure_future(
            sse.stream(server.url, {"prompt": "a", "max_tokens": 450, "ignore_eos": True}))
        await asyncio.sleep(0.1)
        before = memory_kib(server)
        waiting = [asyncio.ensure_future(sse.stream(server.url, {"prompt": "a", "max_tokens": 2}))
                   for _ in range(count)]
        deadline = time.time() + 20
        most = before
        while not first.done() and time.time() < deadline:
            most = max(most, memory_kib(server))
            await asyncio.sleep(0.02)
        print(f"{(most - before) / count:.1f} KiB a stream")
        assert (most - before) / count <= 64
        answers = await asyncio.gather(first, *waiting)
        assert all(answer.status == 200 for answer in answers)

    asyncio.run(run())


def test_overload_is_refused_at_once(start_server, texts):
    server = start_server("--disable-access-log", "--max-requests", "32")

    async def run():
        answers = await asyncio.gather(
            *(sse.stream(server.url, {"prompt": texts[0], "max_tokens": 24}) for _ in range(400)))
        served = [a for a in answers if a.status == 200]
        refused = [a for a in answers if a.status == 429]
        assert len(served) + len(refused) == 400
        assert len(served) >= 32 and len(refused) >= 32
        assert all(a.finish for a in served)
        assert all("retry-after" in a.headers and a.error["error"]["code"] == 429 for a in refused)
        # Room again.
        assert (await sse.stream(server.url, {"prompt": texts[0], "max_tokens": 4})).status == 200

    asyncio.run(run())


def test_three_prompts_at_a_limit_of_two(start_server):
    server = start_server("--disable-access-log", "--max-requests", "2")
    for path, body, field in (("/v1/completions", {"prompt": ["a", "b", "c"]}, "prompt"),
                              ("/v1/embeddings", {"input": ["a", "b", "c"]}, "input"),
                              ("/v1/target_scores", {"prompt": "a", "target": ["a", "b", "c"]}, "target")):
        answer = post(server, path, body)
        assert answer.status == 400 and "retry-after" not in answer.headers
        error = json.loads(answer.read())["error"]
        assert error["param"] == field and "3" in error["message"] and "2" in error["message"]
    assert post(server, "/v1/completions", {"prompt": ["a", "b"], "max_tokens": 2}).status == 200


def post(server, path, body):
    where = urllib.parse.urlsplit(server.url)
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=60)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    return connection.getresponse()


def metric(server, name):
    """The sum over its labels."""
    text = urllib.request.urlopen(server.url + "/metrics").read().decode()
    return sum(float(line.split()[-1]) for line in text.splitlines() if re.match(name + r"\b", line))


def test_nobody_is_refused_who_waits(start_server, texts):
    """Many times what the server computes at once, all at the same time, by default."""
    server = start_server("--disable-access-log")

    async def one(i):
        return await sse.stream(server.url, {"max_tokens": 4, "prompt": f"{i} {texts[i % len(texts)]}"})

    async def run():
        answers = await asyncio.gather(*(one(i) for i in range(1500)))
        assert {a.status for a in answers} == {200} and all(a.finish for a in answers)

    asyncio.run(run())
    many = json.loads(post(server, "/v1/completions", {"prompt": ["a b"] * 600, "max_tokens": 2}).read())
    assert len(many["choices"]) == 600, "as many prompts as a body has"
    assert metric(server, "tandem:requests_refused_total") == 0


def test_a_bound_of_time_is_an_option(start_server, texts):
    """What waits would be longer than --max-queue-time is refused at once; what comes in is served."""
    server = start_server("--disable-access-log", "--max-queue-time", "0.2")

    async def one(i):
        return await sse.stream(server.url, {"max_tokens": 40, "min_tokens": 40, "prompt": f"{i} {texts[i % len(texts)]}"})

    async def run():
        assert all([(await one(i)).status == 200 for i in range(10)])
        answers = await asyncio.gather(*(one(i) for i in range(600)))
        served = [a for a in answers if a.status == 200]
        refused = [a for a in answers if a.status == 429]
        assert len(served) + len(refused) == len(answers) and served and refused
        for a in refused:
            assert int(a.headers["retry-after"]) >= 1 and a.error["error"]["type"] == "overloaded_error"
            message = a.error["error"]["message"]  # the second: before it has measured a full batch
            assert "--max-queue-time" in message or "does not know yet how long they take" in message
        assert (await one(0)).status == 200

    asyncio.run(run())
    assert metric(server, "tandem:requests_refused_total") > 0


def test_a_timeout_that_cannot_be_met_is_refused(start_server, texts):
    server = start_server("--disable-access-log")

    async def run():
        long = {"prompt": texts[0], "max_tokens": 300, "min_tokens": 300}
        before = [asyncio.ensure_future(sse.stream(server.url, dict(long, prompt=f"{i} {texts[0]}"))) for i in range(200)]
        await asyncio.sleep(1.5)
        asked = time.monotonic()
        hopeless = await sse.stream(server.url, {"prompt": texts[0], "max_tokens": 4, "timeout": 0.5})
        assert hopeless.status == 429 and hopeless.error["error"]["param"] == "timeout"
        assert time.monotonic() - asked < 0.5, "at once, not at its end"
        assert all(a.status == 200 for a in await asyncio.gather(*before))

    asyncio.run(run())


def test_whoever_goes_while_waiting_is_not_computed(start_server, texts):
    server = start_server("--disable-access-log", "--max-num-seqs", "1")
    ahead, waiting = 12, 50

    def under_way():
        return metric(server, "tandem:http_prompts_under_way")

    async def until(condition):
        deadline = time.time() + 10
        while not condition() and time.time() < deadline:
            await asyncio.sleep(0.01)
        assert condition()

    async def ask(text, tokens):
        return await sse.stream(server.url, {"prompt": text, "max_tokens": tokens, "min_tokens": tokens})

    async def run():
        # One after the other, long enough for the rest to come in and go meanwhile.
        first = [asyncio.ensure_future(ask(f"{i} {texts[0]}", 450)) for i in range(ahead)]
        await until(lambda: under_way() >= ahead or first[0].done())
        others = [asyncio.ensure_future(ask(f"{i} {texts[1]}", 40)) for i in range(waiting)]
        await until(lambda: under_way() > waiting)
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        assert all(answer.status == 200 for answer in await asyncio.gather(*first))
        await until(lambda: under_way() == 0)

    asyncio.run(run())
    tokens = metric(server, "tandem:generation_tokens_total")
    assert ahead * 450 <= tokens <= ahead * 450 + waiting * 40 / 2
