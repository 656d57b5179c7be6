"""tandem_infer.client's transcriptions, against scripted answers and against a server whose model hears."""
import asyncio
import json
import sys

import httpx
import pytest

from conftest import ROOT
from speech_model import make_whisper, wav

sys.path.insert(0, str(ROOT / "python"))

import tandem_infer.client as tc  # noqa: E402


def spoken(kind, **more):
    return b"data: " + json.dumps({"type": "transcript.text." + kind, **more}).encode() + b"\n\n"


def test_sound_as_a_form(tmp_path):
    bodies = []

    def server(request):
        bodies.append((request.url.path, request.headers["content-type"], request.read()))
        if b'name="stream"' in bodies[-1][2]:
            return httpx.Response(200, content=spoken("delta", delta="Guten ") + spoken("delta", delta="Tag") +
                                  spoken("segment", id="seg_0", start=0, end=1.5, text=" Guten Tag", tokens=[5]) +
                                  spoken("done", text="Guten Tag", language="german", duration=1.5) + b"data: [DONE]\n\n")
        return httpx.Response(200, json={"text": "Guten Tag", "language": "german", "duration": 1.5, "usage": {"seconds": 2},
                                         "segments": [{"id": 0, "start": 0, "end": 1.5, "text": " Guten Tag", "new": 1}],
                                         "words": [{"word": "Guten", "start": 0, "end": 1}]})

    client = tc.Client("http://server", transport=httpx.MockTransport(server))
    path = tmp_path / "a.wav"
    path.write_bytes(b"RIFF")
    said = client.transcribe(path, language="de", word_timestamps=True, temperature=[0.0, 0.2], seed=7)
    assert said.text == "Guten Tag" and said.language == "german" and said.duration == 1.5
    assert said.segments == [tc.Segment(0, 1.5, " Guten Tag")] and said.words == [tc.Word("Guten", 0, 1)]
    route, kind, body = bodies[0]
    assert route == "/v1/audio/transcriptions" and kind.startswith("multipart/form-data; boundary=")
    for part in (b'name="file"; filename="a.wav"', b"RIFF", b"verbose_json", b"[0.0, 0.2]", b'name="seed"\r\n\r\n7\r\n'):
        assert part in body
    assert body.count(b'name="timestamp_granularities[]"') == 2
    with client.transcribe_stream(open(path, "rb"), task="translate", timestamps=False) as stream:
        events = list(stream)
    assert [e.text for e in events] == ["Guten ", "Tag", "", ""] and events[2].segment.end == 1.5
    assert bodies[1][0] == "/v1/audio/translations" and b"verbose_json" not in bodies[1][2] and b"RIFF" in bodies[1][2]
    assert client.transcribe_stream(b"RIFF").result() == tc.Transcription(
        "Guten Tag", "german", 1.5, [tc.Segment(0, 1.5, " Guten Tag", [5])])
    with pytest.raises(ValueError, match="task"):
        client.transcribe(b"RIFF", task="sing")

    async def main():
        async with tc.AsyncClient("http://server", transport=httpx.MockTransport(server)) as c:
            assert (await c.transcribe(b"RIFF")).text == "Guten Tag"
            async with c.transcribe_stream(b"RIFF") as stream:
                assert [e.text async for e in stream if e.text] == ["Guten ", "Tag"]
            assert (await c.transcribe_stream(b"RIFF").result()).segments[0].tokens == [5]

    asyncio.run(main())


def test_sound_is_sent_again_whole():
    bodies = []

    def server(request):
        bodies.append(request.read())
        return httpx.Response(429 if len(bodies) == 1 else 200, headers={"retry-after": "0"}, json={"text": "t"})

    client = tc.Client("http://server", transport=httpx.MockTransport(server))
    assert client.transcribe(b"RIFF", timestamps=False).text == "t"
    assert [b"RIFF" in body for body in bodies] == [True, True]


def test_against_a_server(tmp_path, start_server):
    server = start_server(model=make_whisper(tmp_path / "whisper"))
    sound = wav(65)
    with tc.Client(server.url, retries=0) as client:
        model = client.models()[0]
        assert model.speech_tasks == ["transcribe", "translate"] and model.speech_times and "de" in model.speech_languages
        whole = client.transcribe(sound, language="de")
        assert whole.language == "german" and whole.duration == pytest.approx(65) and whole.segments and whole.request_id
        with client.transcribe_stream(sound, language="de") as stream:
            events = list(stream)
        assert "".join(e.text for e in events) == whole.text == events[-1].done.text
        assert [e.segment for e in events if e.segment] == whole.segments
        assert client.transcribe_stream(sound, language="de").result().segments == whole.segments
        assert client.transcribe(wav(3), task="translate", timestamps=False, num_beams=2, max_new_tokens=9).segments == []
        with pytest.raises(tc.BadRequestError) as e:
            client.transcribe(b"no sound", language="de")
        assert e.value.param == "file"
        with client.transcribe_stream(wav(120), language="de", num_beams=8) as stream:
            next(stream)  # and no more: the server hears of it

        async def main():
            async with tc.AsyncClient(server.url) as c:
                said = await asyncio.gather(*[c.transcribe(sound, language="de") for _ in range(4)])
                assert [s.segments for s in said] == [whole.segments] * 4
                assert (await c.transcribe_stream(sound, language="de").result()).text == whole.text

        asyncio.run(main())
