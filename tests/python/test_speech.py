"""Sound over HTTP: the unmodified openai package, curl's way, hostile forms and files, clients that go."""
import json
import socket
import struct
import time

import httpx
import openai
import pytest

from conftest import Server
from speech_model import make_whisper, silent_flac, wav


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("speech")
    s = Server(folder, "--max-audio-size", "8MiB", model=make_whisper(folder / "whisper"))
    yield s
    assert s.stop() == 0, s.log()


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


SHORT, LONG = wav(3), wav(70)


def transcribe(client, sound=SHORT, **more):
    return client.audio.transcriptions.create(model="whisper", file=("a.wav", sound), **more)


def test_the_model_says_that_it_hears(client):
    model = client.models.list().data[0]
    assert model.speech_tasks == ["transcribe", "translate"] and "de" in model.speech_languages and model.speech_times


def test_json(client):
    answer = transcribe(client, language="de")
    assert answer.text and answer.usage.type == "duration" and answer.usage.seconds == 3
    assert transcribe(client, language="german").text == answer.text
    assert transcribe(client, wav(3, 44100), language="de").usage.seconds == 3


@pytest.mark.parametrize("rate", [44100, 11025, 22050, 48000, 8000])
def test_the_duration_is_the_files_own(client, rate):
    """Not that of what it becomes at the model's rate, nor of its windows."""
    for seconds in (1, 2.3456, 31.7):
        sound = wav(seconds, rate)
        answer = transcribe(client, sound, language="de", response_format="verbose_json")
        assert answer.duration == pytest.approx(int(seconds * rate) / rate, abs=1e-9)
        assert all(0 <= s.start <= s.end <= answer.duration for s in answer.segments)


def test_times_are_in_order_and_within_the_sound(client):
    for sound in (wav(0.3), wav(12.34), wav(61.5), wav(95)):
        for extra in ({}, {"chunk_length_s": 10}):
            answer = transcribe(client, sound, language="de", response_format="verbose_json", extra_body=extra)
            times = [t for s in answer.segments for t in (s.start, s.end)]
            assert times == sorted(times) and (not times or times[-1] <= answer.duration)


def test_segments_have_all_numbers(client):
    from openai.types.audio import TranscriptionVerbose

    for extra in ({}, {"chunk_length_s": 10}, {"no_speech_threshold": 0.6, "logprob_threshold": -1.0}):
        raw = client.audio.transcriptions.with_raw_response.create(
            model="whisper", file=("a.wav", LONG), response_format="verbose_json", extra_body=extra)
        answer = json.loads(raw.text)
        TranscriptionVerbose.model_validate(answer, strict=True)
        assert answer["segments"] and all(0 <= s["no_speech_prob"] <= 1 for s in answer["segments"])
        assert any(s["no_speech_prob"] > 0 for s in answer["segments"])


def test_names_of_languages(client):
    expected = transcribe(client, language="de").text
    for name in ("DE", "deu", "de-AT", "de_DE", "GERMAN", "<|de|>"):
        assert transcribe(client, language=name).text == expected


def test_granularities_in_every_spelling(server):
    def ask(fields, status=200):
        answer = httpx.post(server.url + "/v1/audio/transcriptions", files={"file": ("a.wav", SHORT)}, data=fields, timeout=60)
        assert answer.status_code == status, answer.text
        return answer.json()

    name = "timestamp_granularities"
    for fields in ({name: "segment"}, {name: '["segment"]'}, {name + "[]": "segment"}, {name + "[0]": "segment"},
                   {name: ["segment", "segment"]}):
        assert ask({**fields, "response_format": "verbose_json"})["segments"] is not None
        assert "segments" not in ask({**fields, "response_format": "json"})
    assert ask({name: "letter"}, 400)["error"]["param"] == name
    assert ask({"chunking_strategy[type]": "server_vad", "chunking_strategy[threshold]": "0.5"})["text"] is not None
    assert ask({"chunking_strategy[type]": "silence"}, 400)["error"]["param"] == "chunking_strategy"


def check_words(words, duration):
    assert words
    for word in words:
        assert set(word) == {"word", "start", "end", "probability"} and 0 < word["probability"] <= 1
        assert 0 <= word["start"] <= word["end"] <= duration + 1e-6


def test_times_of_words(server, client):
    def ask(*granularities, **fields):
        fields = {"language": "de", "response_format": "verbose_json", "timestamp_granularities[]": list(granularities), **fields}
        answer = httpx.post(server.url + "/v1/audio/transcriptions", files={"file": ("a.wav", LONG)}, data=fields, timeout=60)
        assert answer.status_code == 200, answer.text
        return answer.json()

    both, words = ask("word", "segment"), ask("word")
    check_words(both["words"], both["duration"])
    assert words["words"] == both["words"] and "segments" not in words
    assert "".join(word["word"] for word in words["words"]).split() == words["text"].split()
    check_words(ask("word", chunk_length_s=10)["words"], both["duration"])
    check_words(ask("word", num_beams=2)["words"], both["duration"])
    said = client.audio.transcriptions.create(model="whisper", file=("a.wav", LONG), language="de",
                                              response_format="verbose_json", timestamp_granularities=["word"])
    assert [word.start for word in said.words] == [word["start"] for word in words["words"]]
    streamed = ask_events(server, {"language": "de", "stream": "true", "timestamp_granularities[]": ["word"]})
    events = [event for event in streamed if event["type"] == "transcript.text.segment"]
    assert [word for event in events for word in event["words"]] == words["words"]


def ask_events(server, fields):
    with httpx.stream("POST", server.url + "/v1/audio/transcriptions", files={"file": ("a.wav", LONG)}, data=fields,
                      timeout=60) as answer:
        lines = [line[6:] for line in answer.iter_lines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def test_a_file_in_another_field(server):
    answer = httpx.post(server.url + "/v1/audio/transcriptions", files={"audio": ("a.wav", SHORT)}, timeout=60)
    error = answer.json()["error"]
    assert answer.status_code == 400 and error["param"] == "file" and '"audio"' in error["message"]


def test_other_names_of_the_model_and_english_only(tmp_path, start_server):
    """OpenAI's clients have whisper-1 built in. Models of one language take its name, and no other."""
    server = start_server("--served-model-name", "whisper-1", "--served-model-name", "tiny",
                          model=make_whisper(tmp_path / "english", english=True))
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
    assert [m.id for m in client.models.list().data] == ["whisper-1", "tiny"]
    texts = {client.audio.transcriptions.create(model=name, file=("a.wav", SHORT), **more).text
             for name in ("whisper-1", "tiny") for more in ({}, {"language": "en"}, {"language": "English"}, {"language": ""})}
    assert len(texts) == 1
    verbose = client.audio.transcriptions.create(model="tiny", file=("a.wav", SHORT), response_format="verbose_json")
    assert verbose.language == "english"
    with pytest.raises(openai.BadRequestError, match="English") as e:
        client.audio.transcriptions.create(model="tiny", file=("a.wav", SHORT), language="de")
    assert e.value.param == "language"
    with pytest.raises(openai.BadRequestError) as e:
        client.audio.translations.create(model="tiny", file=("a.wav", SHORT))
    assert e.value.param == "model"


def test_verbose_json(client):
    answer = transcribe(client, LONG, language="de", response_format="verbose_json", timestamp_granularities=["segment"])
    assert answer.duration == pytest.approx(70) and answer.language == "german" and answer.usage.seconds == 70
    assert answer.segments and all(s.start <= s.end <= 90 for s in answer.segments)
    assert [s.id for s in answer.segments] == list(range(len(answer.segments)))
    assert "".join(s.text for s in answer.segments).strip() == answer.text


def test_text_and_subtitles(client):
    whole = transcribe(client, LONG, language="de", response_format="verbose_json")
    assert transcribe(client, LONG, language="de", response_format="text") == whole.text + "\n"
    srt = transcribe(client, LONG, language="de", response_format="srt")
    vtt = transcribe(client, LONG, language="de", response_format="vtt")
    said = [s for s in whole.segments if s.text.strip()]
    assert srt.count(" --> ") == vtt.count(" --> ") == len(said)
    assert srt.startswith("1\n00:") and vtt.startswith("WEBVTT\n\n00:")


def test_the_language_is_found(client):
    answer = transcribe(client, response_format="verbose_json")
    assert answer.language and transcribe(client, language=answer.language).text


def test_translations(client):
    answer = client.audio.translations.create(model="whisper", file=("a.wav", SHORT), response_format="verbose_json")
    assert answer.task == "translate" and answer.segments is not None


def test_stream(client):
    whole = transcribe(client, LONG, language="de", response_format="verbose_json")
    events = list(transcribe(client, LONG, language="de", response_format="verbose_json", stream=True))
    deltas = [e.delta for e in events if e.type == "transcript.text.delta"]
    segments = [e for e in events if e.type == "transcript.text.segment"]
    assert events[-1].type == "transcript.text.done"
    assert "".join(deltas) == events[-1].text == whole.text
    assert len(deltas) > 1, "a window at a time, at least"
    assert [(s.start, s.end, s.text) for s in segments] == [(s.start, s.end, s.text) for s in whole.segments]
    assert events[-1].usage.seconds == 70


def test_huggingfaces_and_vllms_names(client):
    beams = transcribe(client, language="de", extra_body={"num_beams": 4, "max_new_tokens": 20, "priority": -1})
    assert beams.text
    drawn = [transcribe(client, language="de", temperature=1.0, extra_body={"seed": seed}).text for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    prompted = transcribe(client, language="de", prompt="Tandem, Whisper.", extra_body={"max_completion_tokens": 12})
    assert prompted.text is not None


def refused(client, match=None, **more):
    with pytest.raises(openai.BadRequestError, match=match) as e:
        transcribe(client, **more)
    return e.value.body["param"]


def test_errors_name_the_field(client):
    assert refused(client, language="klingon") == "language"
    assert refused(client, temperature=-1) == "temperature"
    assert refused(client, response_format="xml") == "response_format"
    assert refused(client, extra_body={"langauge": "de"}) == "langauge"
    assert refused(client, extra_body={"max_new_tokens": 4000}) == "max_new_tokens"
    assert refused(client, extra_body={"max_completion_tokens": 0}) == "max_completion_tokens"
    assert transcribe(client, language="de", extra_body={"max_completion_tokens": 4000}).text  # as many as there is room for
    assert refused(client, match="sound", sound=b"This is no sound at all." * 50) == "file"
    assert refused(client, sound=b"") == "file"
    with pytest.raises(openai.NotFoundError):
        client.audio.transcriptions.create(model="another", file=("a.wav", SHORT))
    with pytest.raises(openai.BadRequestError):
        client.completions.create(model="whisper", prompt="a text")


def test_hostile_files(client):
    # What a header says is not believed: what is there counts, as ffmpeg hears it.
    for claim in (1 << 20, 1 << 30, 0xfffffff0, 0xffffffff):
        sound = bytearray(SHORT)
        sound[40:44] = struct.pack("<I", claim)
        assert transcribe(client, bytes(sound), language="de").usage.seconds == 3
    sound[4:8] = struct.pack("<I", 1 << 30)
    assert transcribe(client, bytes(sound), language="de").usage.seconds == 3
    assert transcribe(client, silent_flac(5, claim=(1 << 36) - 1), language="de").usage.seconds == 5
    assert transcribe(client, SHORT[:60000], language="de").usage.seconds == 2
    assert transcribe(client, silent_flac(60)[:-30], language="de").usage.seconds == 50  # as ffmpeg: 49.15
    # What could not be decoded is said.
    damaged = silent_flac(5) + b"no sound at all, long enough to be looked at" * 4
    answer = transcribe(client, damaged, language="de", response_format="verbose_json")
    assert answer.duration == 5 and any("flac" in line for line in answer.warnings)
    assert transcribe(client, silent_flac(5)).usage.seconds == 5


def test_hours_of_silence_in_few_bytes(client):
    file = silent_flac(5 * 3600)
    assert len(file) < 1 << 17
    begun = time.monotonic()
    assert refused(client, sound=file) == "file"
    assert time.monotonic() - begun < 60


def post(server, body, boundary="b", **headers):
    return httpx.post(server.url + "/v1/audio/transcriptions", content=body, timeout=30,
                      headers={"content-type": "multipart/form-data; boundary=" + boundary, **headers})


def part(name, content, more=b""):
    return b'--b\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n' % (name, more, content)


def test_hostile_forms(server):
    good = part(b"language", b"de") + part(b"file", SHORT, b'; filename="a"') + b"--b--\r\n"
    assert post(server, good).status_code == 200
    for size in (len(good) - 8, len(good) // 2, 40, 1):
        assert post(server, good[:size]).json()["error"]["param"] == "body"
    assert post(server, part(b"x", b"") * 10000 + b"--b--").json()["error"]["param"] == "body"
    assert post(server, part(b"x" * (1 << 20), b"") + b"--b--").json()["error"]["param"] == "body"
    assert post(server, part(b"prompt", b"a" * (1 << 20)) + good).json()["error"]["param"] == "prompt"
    assert post(server, good, "c").json()["error"]["param"] == "body"
    large = post(server, part(b"file", b"\0" * (9 << 20)) + b"--b--")
    assert large.status_code == 413
    assert httpx.post(server.url + "/v1/completions", content=b" " * (5 << 20)).status_code == 413
    assert httpx.post(server.url + "/v1/audio/transcriptions", json={}).json()["error"]["param"] == "content-type"
    assert post(server, good).status_code == 200


def idle(server):
    deadline = time.time() + 20
    while httpx.get(server.url + "/status").json()["num_requests"] > 0:
        assert time.time() < deadline
        time.sleep(0.05)
    return httpx.get(server.url + "/status").json()["prompts_under_way"] == 0


def test_clients_that_go(server):
    body = part(b"language", b"de") + part(b"num_beams", b"8") + part(b"file", wav(120)) + b"--b--"
    head = (b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n"
            b"Content-Type: multipart/form-data; boundary=b\r\n\r\n" % len(body))
    address = httpx.URL(server.url)
    for sent in (len(body), len(body) // 2):
        with socket.create_connection((address.host, address.port)) as s:
            s.sendall(head + body[:sent])
            time.sleep(0.3)
        assert idle(server)
    with httpx.stream("POST", server.url + "/v1/audio/transcriptions", files={"file": wav(120)},
                      data={"stream": "true", "language": "de", "num_beams": "8"}, timeout=60) as answer:
        assert next(answer.iter_lines()).startswith("data: ")
    assert idle(server)


def test_many_at_once(server, client):
    alone = {n: transcribe(client, wav(n), language="de").text for n in (1, 5, 35, 61)}
    import concurrent.futures
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        patient = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=10)
        lengths = [n for _ in range(5) for n in alone]
        texts = list(pool.map(lambda n: transcribe(patient, wav(n), language="de").text, lengths))
    assert texts == [alone[n] for n in lengths]


def test_metrics_and_log(server, client):
    def seconds():
        lines = httpx.get(server.url + "/metrics").text.splitlines()
        return float(next(line for line in lines if line.startswith("tandem:audio_seconds_total")).split()[-1])

    before = seconds()
    transcribe(client, prompt="a secret")
    assert seconds() == pytest.approx(before + 3)
    assert "secret" not in server.log() and '"POST /v1/audio/transcriptions" 200' in server.log()


def test_a_model_that_reads_text(tmp_path, start_server):
    answer = httpx.post(start_server().url + "/v1/audio/transcriptions", files={"file": SHORT})
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "model"
    assert json.loads(answer.text)["error"]["type"] == "not_supported_error"
