"""Many clients at once: all are served, or told at once that they are not."""
import asyncio
import pathlib
import time

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
    server = start_server("--disable-access-log", "--max-http-prompts", "32")

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
