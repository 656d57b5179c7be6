"""A cheap client of streams: a thousand of them in one thread."""
import asyncio
import json
import urllib.parse


class Answer:
    def __init__(self, status, headers, text, finish, error, first, last):
        self.status, self.headers, self.text, self.finish = status, headers, text, finish
        self.error, self.first, self.last = error, first, last


async def _chunk(reader):
    size = int((await reader.readline()).strip(), 16)
    data = await reader.readexactly(size)
    await reader.readexactly(2)
    return data


async def stream(url, body, path="/v1/completions"):
    """POSTs the body (with "stream": true) and reads to the end. Times are those of the event loop."""
    where = urllib.parse.urlsplit(url)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    try:
        data = json.dumps(dict(body, stream=True)).encode()
        writer.write(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                     % (path.encode(), len(data)) + data)
        status = int((await reader.readline()).split()[1])
        headers = {}
        while (line := await reader.readline()) != b"\r\n":
            name, value = line.decode().split(":", 1)
            headers[name.lower()] = value.strip()
        if status != 200:
            error = json.loads(await reader.readexactly(int(headers["content-length"])))
            return Answer(status, headers, "", None, error, None, loop.time() - begun)
        text, finish, first, error, rest = [], None, None, None, b""
        while data := await _chunk(reader):
            first = first if first is not None else loop.time() - begun
            *events, rest = (rest + data).split(b"\n\n")
            for event in events:
                if event == b"data: [DONE]":
                    continue
                event = json.loads(event[len(b"data: "):])
                error = event.get("error", error)
                for choice in event.get("choices", ()):
                    text.append(choice["text"])
                    finish = choice["finish_reason"] or finish
        return Answer(status, headers, "".join(text), finish, error, first, loop.time() - begun)
    finally:
        writer.close()
