#!/usr/bin/env python3
"""Latency of live transcription: seconds from the end of a word to its settled text, with 1, 4 and 8 sessions at once.

    python3 benchmarks/online/live.py http://127.0.0.1:8000 talk.wav [--sessions 1,4,8] [--seconds 60] [--out live]

Needs `websockets`, and a server with a model that says times of words (docs/speech.md). Each session sends the file as fast as it is
said, from another place of it. The words and their ends are those of /v1/audio/transcriptions. Words that a session has
otherwise are left out of the latencies and counted. A session falls behind if its last text comes more than 5 s after its sound.
Writes OUT.json, and a table to standard output.
"""
import argparse, asyncio, base64, difflib, io, json, statistics, time, urllib.request, wave

PIECE = 0.1  # seconds of sound in an event


def plain(word):
    return "".join(c for c in word.lower() if c.isalnum())


def read(path, seconds):
    with wave.open(path) as file:
        if file.getnchannels() != 1 or file.getsampwidth() != 2:
            raise SystemExit(f"{path}: must be of one channel and samples of 16 bits")
        rate = file.getframerate()
        return file.readframes(int(seconds * rate) if seconds else file.getnframes()), rate


def words_of(url, samples, rate):
    """[(word, seconds at which it ends)]"""
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1), out.setsampwidth(2), out.setframerate(rate)
        out.writeframes(samples)
    parts = [("response_format", b"verbose_json"), ("timestamp_granularities[]", b"word")]
    body = b"".join(b'--b\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (name.encode(), value) for name, value in parts)
    body += b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n' + file.getvalue() + b"\r\n--b--\r\n"
    request = urllib.request.Request(url + "/v1/audio/transcriptions", body, {"Content-Type": "multipart/form-data; boundary=b"})
    answer = json.load(urllib.request.urlopen(request, timeout=600))
    return [(plain(word["word"]), word["end"]) for word in answer["words"] if plain(word["word"])]


async def session(url, samples, rate):
    """[(word, seconds since the first sample at which it was settled)], and how long after the sound the last one came."""
    from websockets.asyncio.client import connect

    settled, text, begun = [], "", None
    async with connect(url.replace("http", "ws", 1) + "/v1/realtime", max_size=None) as socket:
        async def send():
            await socket.send(json.dumps({"type": "session.update", "session": {"audio": {"input": {
                "format": {"type": "audio/pcm", "rate": rate}}}}}))
            size = int(PIECE * rate) * 2
            for i in range(0, len(samples), size):
                await asyncio.sleep(max(0.0, begun + (i + size) / 2 / rate - time.monotonic()))
                await socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": base64.b64encode(samples[i:i + size]).decode()}))
            await socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": base64.b64encode(bytes(4 * rate)).decode()}))

        begun = time.monotonic()
        sending = asyncio.create_task(send())
        open_items, ended = set(), 0.0
        while not sending.done() or open_items:
            try:
                event = json.loads(await asyncio.wait_for(socket.recv(), 10))
            except asyncio.TimeoutError:
                if sending.done():
                    break
                continue
            kind, now = event["type"].rpartition(".")[2], time.monotonic() - begun
            if kind == "speech_started":
                open_items.add(event["item_id"])
            if kind == "delta":
                text += event["delta"]
                *whole, text = text.split(" ")
                settled += [(plain(word), now) for word in whole if plain(word)]
            if kind in ("completed", "failed"):
                open_items.discard(event["item_id"])
                if plain(text):
                    settled.append((plain(text), now))
                text, ended = "", now
        await sending
    return settled, ended - len(samples) / 2 / rate


def latencies(settled, expected):
    matcher = difflib.SequenceMatcher(None, [w for w, _ in settled], [w for w, _ in expected], autojunk=False)
    return [settled[a + i][1] - expected[b + i][1] for a, b, size in matcher.get_matching_blocks() for i in range(size)]


async def measure(url, samples, rate, count, expected):
    step = len(samples) // 2 // count * 2  # each begins elsewhere
    results = await asyncio.gather(*(session(url, samples[i * step:] + samples[:i * step], rate) for i in range(count)))
    all_of_them, late = [], 0
    for i, (settled, behind) in enumerate(results):
        late += behind > 5
        total, offset = len(samples) / 2 / rate, i * step / 2 / rate
        moved = sorted(((word, (end - offset) % total or total) for word, end in expected), key=lambda pair: pair[1])
        all_of_them += latencies(settled, moved)
    return {"sessions": count, "words": len(expected) * count, "matched": len(all_of_them), "behind": late,
            "median": statistics.median(all_of_them), "p90": statistics.quantiles(all_of_them, n=10)[-1], "most": max(all_of_them)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("file")
    parser.add_argument("--sessions", default="1,4,8")
    parser.add_argument("--seconds", type=float, default=60, help="of the file; 0: all of it")
    parser.add_argument("--out", default="live")
    options = parser.parse_args()
    samples, rate = read(options.file, options.seconds)
    expected = words_of(options.url, samples, rate)
    if not expected:
        raise SystemExit("nothing is said in the file")
    rows = [asyncio.run(measure(options.url, samples, rate, int(count), expected)) for count in options.sessions.split(",")]
    with open(options.out + ".json", "w") as out:
        json.dump(rows, out, indent=1)
    print("| sessions | words | matched | median s | p90 s | most s | behind |\n|---|---|---|---|---|---|---|")
    for row in rows:
        print(f"| {row['sessions']} | {row['words']} | {row['matched']} | {row['median']:.2f} | {row['p90']:.2f} | {row['most']:.2f} | {row['behind']} |")


if __name__ == "__main__":
    main()
