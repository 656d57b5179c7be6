"""Requests of mixed lengths, Poisson arrivals, and a client of streams that counts tokens."""
import asyncio, json, random, statistics


def skewed(chance, low, high):
    """Half of them below about a third of the way from low to high, in octaves."""
    return round(low * (high / low) ** (chance.random() ** 1.6))


def make_requests(config, count, seed, sources=(32, 512), targets=(8, 128)):
    """Random ids between the special tokens; each request is to get exactly max_tokens."""
    chance = random.Random(seed)
    low, high = 4, config["vocab_size"] - 2
    sources = (sources[0], min(sources[1], config["max_position_embeddings"] - 2))
    requests = []
    for _ in range(count):
        size, new = skewed(chance, *sources), skewed(chance, *targets)
        ids = [config["bos_token_id"], *(chance.randint(low, high) for _ in range(size - 2)), config["eos_token_id"]]
        requests.append({"prompt": ids, "max_tokens": new})
    return requests


def make_arrivals(rate, seconds, seed):
    """Seconds from the start at which requests are sent."""
    chance, times, now = random.Random(seed), [], 0.0
    while (now := now + chance.expovariate(rate)) < seconds:
        times.append(now)
    return times


async def chunks(reader, chunked):
    while chunked:
        size = int(await reader.readline(), 16)
        if size:
            yield await reader.readexactly(size)
        await reader.readexactly(2)
        if size == 0:
            return
    while data := await reader.read(65536):
        yield data


async def ask(port, request):
    """Seconds to the first and to the last token, and the tokens. Raises RuntimeError if it is not whole."""
    loop = asyncio.get_running_loop()
    begun, first, tokens, rest, done = loop.time(), None, [], b"", False
    body = json.dumps(dict(request, min_tokens=request["max_tokens"], temperature=0, stream=True,
                           return_token_ids=True)).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                     b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in head.split(b"\r\n")[0]:
            raise RuntimeError((head + await reader.read(1000)).decode(errors="replace"))
        async for data in chunks(reader, b"chunked" in head.lower()):
            *events, rest = (rest + data).split(b"\n\n")
            for event in events:
                if event == b"data: [DONE]":
                    done = True
                    continue
                event = json.loads(event[len(b"data: "):])
                if "error" in event:
                    raise RuntimeError(str(event))
                for choice in event["choices"]:
                    tokens += choice.get("token_ids", ())
                if tokens and first is None:
                    first = loop.time() - begun
                last = loop.time() - begun
    finally:
        writer.close()
    if not done or len(tokens) != request["max_tokens"]:
        raise RuntimeError(f"{len(tokens)} tokens instead of {request['max_tokens']}")
    return {"ttft": first, "e2el": last, "tokens": tokens}


async def run_point(port, requests, arrivals, limit):
    """Sends each request at its time, whatever is under way. After `limit` seconds what is not done is given up."""
    loop = asyncio.get_running_loop()
    begun, done, finished = loop.time(), [], []

    async def one(request, at):
        await asyncio.sleep(begun + at - loop.time())
        late = loop.time() - begun - at
        answer = await ask(port, request)
        finished.append(loop.time() - begun)
        # From when it was due: that the client is busy is no reason to look better.
        done.append({"ttft": answer["ttft"] + late, "e2el": answer["e2el"] + late, "tokens": answer["tokens"],
                     "sent": at, "late": late})

    tasks = [asyncio.create_task(one(r, at)) for r, at in zip(requests, arrivals)]
    _, pending = await asyncio.wait(tasks, timeout=limit)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    for task in tasks:
        if not task.cancelled() and task.exception():
            raise task.exception()
    return done, len(pending), max(finished, default=limit) if not pending else limit


def percentile(values, share):
    """As numpy interpolates."""
    values, at = sorted(values), share * (len(values) - 1)
    low = int(at)
    return values[low] + (at - low) * (values[min(low + 1, len(values) - 1)] - values[low])


def summarise(done, unfinished, seconds, rate, arrivals):
    point = {"rate": rate, "offered": len(arrivals), "unfinished": unfinished, "seconds": seconds,
             "requests_per_second": len(done) / seconds,
             "tokens_per_second": sum(len(d["tokens"]) for d in done) / seconds}
    for key in ("e2el", "ttft"):
        for share in (50, 95, 99):
            point[f"{key}_p{share}"] = percentile([d[key] for d in done], share / 100) if done else None
    # The queue does not grow: the last third of the requests waits about as long as the others.
    done.sort(key=lambda d: d["sent"])
    third = max(1, len(done) // 3)
    grown = statistics.mean(d["e2el"] for d in done[-third:]) / statistics.mean(
        d["e2el"] for d in done[:third]) if done else 0
    point["saturated"] = bool(unfinished or (grown > 2.5 and seconds > 1.35 * arrivals[-1]))
    point["late_max"] = max((d["late"] for d in done), default=0)
    return point
