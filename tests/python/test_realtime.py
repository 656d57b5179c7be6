"""/v1/realtime: the unmodified openai package and plain WebSockets, several sessions at once, clients that go."""
import base64
import json
import os
import signal
import threading
import time

import httpx
import openai
import pytest
from openai.types import realtime as types
from openai.types.beta import realtime as types_before
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from conftest import Server
from speech_model import make_whisper, wav

TRANSCRIPTION = "conversation.item.input_audio_transcription."
TYPES = {
    "session.created": types.SessionCreatedEvent,
    "session.updated": types.SessionUpdatedEvent,
    "transcription_session.updated": types_before.TranscriptionSessionUpdatedEvent,
    "error": types.RealtimeErrorEvent,
    "input_audio_buffer.speech_started": types.InputAudioBufferSpeechStartedEvent,
    "input_audio_buffer.speech_stopped": types.InputAudioBufferSpeechStoppedEvent,
    "input_audio_buffer.committed": types.InputAudioBufferCommittedEvent,
    "input_audio_buffer.cleared": types.InputAudioBufferClearedEvent,
    "conversation.item.added": types.ConversationItemAdded,
    "conversation.item.done": types.ConversationItemDone,
    "conversation.item.created": types_before.ConversationItemCreatedEvent,
    TRANSCRIPTION + "delta": types.ConversationItemInputAudioTranscriptionDeltaEvent,
    TRANSCRIPTION + "completed": types.ConversationItemInputAudioTranscriptionCompletedEvent,
    TRANSCRIPTION + "failed": types.ConversationItemInputAudioTranscriptionFailedEvent,
}
SECONDS = 3
SOUND = wav(SECONDS, 24000)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("realtime")
    # (OpenAI's types know three models.)
    s = Server(folder, "--served-model-name", "whisper-1", "--max-live-sessions", "5", "--api-key", "right",
               model=make_whisper(folder / "whisper"))
    yield s
    assert s.stop() == 0, s.log()


KEY = {"Authorization": "Bearer right"}


class Session:
    """A plain client, which checks each event against OpenAI's types."""

    def __init__(self, server, query="", headers=KEY, **more):
        self.socket = connect(server.url.replace("http", "ws", 1) + "/v1/realtime" + query, additional_headers=headers, **more)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.socket.close()

    def send(self, kind, **fields):
        self.socket.send(json.dumps({"type": kind, **fields}))

    def append(self, samples):
        self.send("input_audio_buffer.append", audio=base64.b64encode(samples).decode())

    def update(self, **given):
        self.send("session.update", session={"type": "transcription", "audio": {"input": given}})

    def receive(self):
        event = json.loads(self.socket.recv(timeout=60))
        if event["type"] in TYPES:
            TYPES[event["type"]].model_validate(event, strict=True)
        return event

    def until(self, kind):
        events = [self.receive()]
        while events[-1]["type"] != kind:
            events.append(self.receive())
        return events


def said(events):
    return "".join(e["delta"] for e in events if e["type"] == TRANSCRIPTION + "delta")


def transcribed(server, sound):
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="right", max_retries=0)
    answer = client.audio.transcriptions.create(model="whisper-1", file=("a.wav", sound), language="de", response_format="verbose_json")
    return answer.text


def under_way(server):
    status = httpx.get(server.url + "/status", headers=KEY).json()
    return status["prompts_under_way"]


def test_openais_client(server):
    client = openai.OpenAI(base_url=server.url + "/v1", websocket_base_url=server.url.replace("http", "ws", 1) + "/v1", api_key="right")
    with client.realtime.connect(model="whisper-1", extra_query={"intent": "transcription"}) as connection:
        assert connection.recv().type == "session.created"
        connection.session.update(session={"type": "transcription", "audio": {"input": {
            "format": {"type": "audio/pcm", "rate": 24000}, "turn_detection": None,
            "transcription": {"model": "whisper-1", "language": "de"}}}})
        updated = connection.recv()
        assert updated.session.audio.input.turn_detection is None
        assert updated.session.audio.input.transcription.language == "de"
        connection.input_audio_buffer.append(audio=base64.b64encode(SOUND[44:]).decode())
        connection.input_audio_buffer.commit()
        text, item, added = "", None, []
        for event in connection:
            if event.type == "input_audio_buffer.committed":
                item = event.item_id
            if event.type in ("conversation.item.added", "conversation.item.done"):
                assert event.item.role == "user" and event.item.content[0].type == "input_audio"
                added.append(event.item.id)
            if event.type == TRANSCRIPTION + "delta":
                text += event.delta
            if event.type == TRANSCRIPTION + "completed":
                break
        assert event.item_id == item and event.usage.seconds == SECONDS and added == [item, item]
        assert event.transcript == text == transcribed(server, SOUND)


def test_the_shape_before(server):
    with Session(server, "?intent=transcription", {**KEY, "OpenAI-Beta": "realtime=v1"}) as session:
        assert session.receive()["type"] == "transcription_session.created"
        session.send("transcription_session.update", session={
            "input_audio_format": "g711_ulaw", "input_audio_transcription": {"model": "whisper-1", "language": "de"},
            "turn_detection": {"type": "server_vad", "silence_duration_ms": 300}})
        updated = session.receive()
        assert updated["session"]["turn_detection"]["silence_duration_ms"] == 300
        session.append(b"\xff" * 8000)
        session.send("input_audio_buffer.commit")
        assert session.receive()["error"]["code"] == "input_audio_buffer_commit_empty"
        session.send("transcription_session.update", session={"turn_detection": None})
        session.receive()
        session.append(b"\xff" * 8000)
        session.send("input_audio_buffer.commit")
        created = session.until("conversation.item.created")[-1]
        assert created["previous_item_id"] is None and created["item"]["object"] == "realtime.item"
        session.append(b"\xff" * 8000)
        session.send("input_audio_buffer.commit")
        assert session.until("conversation.item.created")[-1]["previous_item_id"] == created["item"]["id"]


@pytest.mark.parametrize("rate", [11025, 22050, 44100])
def test_rates_of_recordings(server, rate):
    with Session(server, "?language=de") as session:
        session.receive()
        session.update(turn_detection=None, format={"type": "audio/pcm", "rate": rate})
        assert json.loads(session.socket.recv(timeout=60))["session"]["audio"]["input"]["format"]["rate"] == rate
        sound = wav(2, rate)[44:]
        for at in range(0, len(sound), 9998):
            session.append(sound[at:at + 9998])
        session.send("input_audio_buffer.commit")
        events = session.until(TRANSCRIPTION + "completed")
        assert said(events) == events[-1]["transcript"] != "" and events[-1]["usage"]["seconds"] == 2


def test_a_server_that_ends(start_server, tmp_path):
    """What was heard is settled and told before the socket closes, and the server waits for it."""
    server = start_server("--served-model-name", "whisper-1", model=make_whisper(tmp_path / "whisper"))
    with Session(server, "?language=de", headers={}) as session, Session(server, headers={}) as idle:
        session.receive(), idle.receive()
        session.update(turn_detection=None)
        session.append(SOUND[44:])
        session.until(TRANSCRIPTION + "delta")
        server.process.send_signal(signal.SIGTERM)
        events = session.until(TRANSCRIPTION + "completed")
        kinds = [e["type"] for e in events]
        assert "input_audio_buffer.committed" in kinds and TRANSCRIPTION + "failed" not in kinds
        assert events[-1]["usage"]["seconds"] == SECONDS and events[-1]["transcript"] != ""
        for socket in (session.socket, idle.socket):
            with pytest.raises(ConnectionClosed) as closed:
                while True:
                    socket.recv(timeout=30)
            assert closed.value.rcvd.code == 1001
    assert server.stop() == 0, server.log()


def test_turns(server):
    """Speech is what is loud, where no network is installed; where one is, a tone is none."""
    with Session(server, "?language=de") as session:
        session.receive()
        session.update(turn_detection={"type": "server_vad", "threshold": 0.01, "silence_duration_ms": 400})
        session.receive()
        session.append(bytes(24000) + SOUND[44:] + bytes(96000))
        session.send("no.such.event", event_id="mine")
        events = session.until("error")
        assert events[-1]["error"]["event_id"] == "mine"
        if events[0]["type"] != "error":
            events += session.until(TRANSCRIPTION + "completed")
            assert said(events) == events[-1]["transcript"]


def test_sound_that_comes_bit_by_bit(server):
    """Deltas are never taken back: together they are the transcript."""
    with Session(server, "?language=de") as session:
        session.receive()
        session.update(turn_detection=None, format={"type": "audio/pcm", "rate": 16000})
        sound = wav(14)[44:]
        for at in range(0, len(sound), 16000):
            session.append(sound[at:at + 16000])
            time.sleep(0.01)
        session.send("input_audio_buffer.commit")
        # (OpenAI's type of a format has one rate.)
        events = [json.loads(session.socket.recv(timeout=60))]
        while events[-1]["type"] != TRANSCRIPTION + "completed":
            events.append(session.receive())
        deltas = [e for e in events if e["type"] == TRANSCRIPTION + "delta"]
        assert said(events) == events[-1]["transcript"] and any(e["partial"] for e in deltas)


def test_four_sessions_beside_files(server):
    expected = transcribed(server, SOUND)
    texts, files = [], []

    def live():
        with Session(server, "?language=de") as session:
            session.update(turn_detection=None)
            session.append(SOUND[44:])
            session.send("input_audio_buffer.commit")
            texts.append(session.until(TRANSCRIPTION + "completed")[-1]["transcript"])

    threads = [threading.Thread(target=live) for _ in range(4)] + [
        threading.Thread(target=lambda: files.append(transcribed(server, SOUND))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == [expected] * 4 and files == [expected] * 4


def test_workers_are_killed(start_server, tmp_path):
    """Four sessions and twenty files say the same as undisturbed: no word is lost or said twice."""
    server = start_server("--tp", "2", "--max-restarts", "1000", "--max-num-seqs", "4", "--served-model-name", "whisper-1",
                          model=make_whisper(tmp_path / "whisper"))
    # All at once: what a session's windows hear depends on when its sound comes.
    sounds = [wav(58, 16000, 110.0 * (i + 1))[44:] for i in range(4)]
    files = [wav(3 + 7 * i % 40, 16000, 90.0 + 17 * i) for i in range(20)]

    def run(kills):
        heard, running = {}, threading.Event()

        def live(i):
            with Session(server, "?language=de", headers={}) as session:
                session.update(turn_detection=None, format={"type": "audio/pcm", "rate": 16000})
                session.socket.recv(timeout=60), session.socket.recv(timeout=60)
                session.append(sounds[i])
                session.send("input_audio_buffer.commit")
                events = [session.receive()]
                running.set()
                while not events[-1]["type"].startswith(TRANSCRIPTION) or events[-1]["type"].endswith("delta"):
                    events.append(session.receive())
                assert events[-1]["type"] == TRANSCRIPTION + "completed" and said(events) == events[-1]["transcript"]
                heard["live", i] = events[-1]["transcript"]

        def file(i):
            heard["file", i] = transcribed(server, files[i])

        threads = [threading.Thread(target=live, args=[i]) for i in range(4)] + [
            threading.Thread(target=file, args=[i]) for i in range(20)]
        for thread in threads:
            thread.start()
        for kill in range(kills):
            running.wait(60)
            workers = server.workers()
            assert len(workers) == 2 and any(t.is_alive() for t in threads), "too fast to be disturbed"
            os.kill(workers[kill % 2], signal.SIGKILL)
            deadline = time.time() + 60
            while server.log().count(": up, generation") < kill + 2 and time.time() < deadline:
                time.sleep(0.02)
        for thread in threads:
            thread.join()
        return heard

    undisturbed = run(0)
    assert len(undisturbed) == 24 and all(undisturbed["live", i] for i in range(4))
    assert run(3) == undisturbed
    assert under_way(server) == 0


def test_clients_that_go(server):
    """Nothing is left of them: no request, and no session of the five that there may be."""
    for i in range(12):
        session = Session(server)
        session.update(turn_detection=None)
        session.append(SOUND[44:])
        if i % 2:
            session.receive()
        session.socket.socket.close()
        deadline = time.time() + 20
        while i % 4 == 3 and under_way(server) > 0 and time.time() < deadline:
            time.sleep(0.02)
        time.sleep(0.05)
    assert under_way(server) == 0
    with Session(server) as session:
        assert session.receive()["type"] == "session.created"


def test_who_may(server):
    def status(**more):
        with pytest.raises(InvalidStatus) as error:
            Session(server, **more)
        return error.value.response.status_code

    assert status(headers={}) == 401
    assert status(headers={**KEY, "Origin": "https://elsewhere"}) == 403
    assert status(query="?model=other") == 404
    assert httpx.get(server.url + "/v1/realtime", headers=KEY).status_code == 426
    with Session(server, headers={"Origin": server.url}, subprotocols=["realtime", "openai-insecure-api-key.right"]) as session:
        assert session.socket.subprotocol == "realtime"
    sessions = [Session(server) for _ in range(5)]
    assert status() == 429
    for session in sessions:
        session.socket.close()
