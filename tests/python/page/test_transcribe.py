"""The transcriber: files, and a microphone that is a file too; times and subtitles."""
import httpx
import pytest

from page_fixtures import choose, chromium, page, pop_error, press_button, saved, serve, sounds  # noqa: F401

DONE = "document.querySelector('#transcribe-go').disabled === false && document.querySelector('.said') !== null"


@pytest.fixture
def url(page):  # noqa: F811
    return page("whisper")


def said(chromium):
    return chromium.value("[...document.querySelectorAll('.segments li')].map(e => [...e.children].map(c => c.textContent))")


def ask(url, path, **fields):
    answer = httpx.post(url + "/v1/audio/transcriptions", files={"file": path.read_bytes()}, timeout=60,
                        data={"response_format": "verbose_json", **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


def minutes(seconds):
    return "%d:%02d" % divmod(int(seconds), 60)


def transcribe(chromium, *files, language="de"):
    chromium.choose_file("#file", *files)
    choose(chromium, "speech_language", language)
    chromium.click("#transcribe-go")
    chromium.wait(DONE)


def test_the_form_is_for_sound(url, chromium):
    tasks = chromium.value("[...document.querySelectorAll('#speech_task option')].map(o => [o.value, o.textContent])")
    assert tasks == [["transcribe", "as it is spoken"], ["translate", "in English"]]
    languages = chromium.value("[...document.querySelectorAll('#speech_language option')].map(o => o.textContent)")
    assert len(languages) == 100 and languages[0] == "Detect language" and {"German", "Welsh"} <= set(languages)


def test_a_file(url, chromium, sounds):
    transcribe(chromium, sounds / "long.wav")
    wanted = ask(url, sounds / "long.wav", language="de")
    assert said(chromium) == [[minutes(s["start"]), s["text"].strip()] for s in wanted["segments"]]
    assert "german" in chromium.text(".facts") and "65.0 s of sound" in chromium.text(".facts")
    chromium.click("#times")
    assert chromium.value("getComputedStyle(document.querySelector('.segments .time')).display") == "none"
    chromium.click("#request summary")
    chromium.wait("document.querySelector('#curl').textContent !== ''")
    curl = chromium.text("#curl")
    assert "-F 'language=de'" in curl and "-F 'file=@long.wav'" in curl and "/v1/audio/transcriptions" in curl


def test_several_files(url, chromium, sounds):
    transcribe(chromium, sounds / "short.wav", sounds / "long.wav")
    assert chromium.value("[...document.querySelectorAll('.said h2')].map(h => h.textContent)") == ["short.wav", "long.wav"]
    wanted = [s["text"].strip() for name in ("short", "long") for s in ask(url, sounds / (name + ".wav"), language="de")["segments"]]
    assert [text for _, text in said(chromium)] == wanted


def test_subtitles_are_the_server_s(url, chromium, sounds, tmp_path):
    transcribe(chromium, sounds / "long.wav")
    chromium.save_to(tmp_path)
    for kind in ("srt", "vtt"):
        wanted = httpx.post(url + "/v1/audio/transcriptions", files={"file": (sounds / "long.wav").read_bytes()},
                            data={"response_format": kind, "language": "de"}, timeout=60).text
        press_button(chromium, ".said", "Save " + kind.upper())
        assert saved(chromium, tmp_path / ("long." + kind)) == wanted
    press_button(chromium, ".said", "Save text")
    assert saved(chromium, tmp_path / "long.txt") == "".join(text + "\n" for _, text in said(chromium) if text)


def test_a_file_that_is_dropped(url, chromium, sounds):
    chromium.drop("#drop", sounds / "short.wav")
    chromium.wait("document.querySelector('#chosen').textContent !== ''")
    assert chromium.text("#chosen").startswith("short.wav")
    chromium.click("#transcribe-go")
    chromium.wait(DONE)
    assert chromium.text(".said h2") == "short.wav" and said(chromium)


def test_errors_stand_at_their_field(url, chromium, sounds):
    chromium.click("#transcribe-go")
    assert "choose a file" in chromium.text("#error-file")
    text = sounds / "text.wav"
    text.write_text("This is no sound. " * 100)
    chromium.choose_file("#file", text)
    chromium.click("#transcribe-go")
    chromium.wait(DONE)
    assert chromium.text("#error-file") and chromium.value("document.activeElement.id") == "file"
    pop_error(chromium, 400)


def test_stop(url, chromium, sounds):
    chromium.value("document.querySelector('#transcribe-go').addEventListener('click', () =>"
               " setTimeout(() => document.querySelector('#hear-stop').click()), {once: true})")
    chromium.choose_file("#file", sounds / "long.wav")
    chromium.click("#transcribe-go")
    chromium.wait(DONE)
    assert "stopped" in chromium.text(".facts")
    chromium.wait("fetch('/status').then(r => r.json()).then(s => s.prompts_under_way === 0)")


def test_a_microphone(url, chromium):
    chromium.urls.clear()
    choose(chromium, "speech_language", "de")
    chromium.click("#record")
    chromium.wait("document.querySelector('#record').getAttribute('aria-pressed') === 'true'")
    chromium.wait("document.querySelector('.segments li.open .text') !== null")  # live: while it records
    assert chromium.text("#record") == "Stop recording"
    live = said(chromium)
    assert live and any(text for _, text in live)
    chromium.click("#record")
    chromium.wait(DONE)
    assert chromium.text("#record") == "Record" and "s of sound" in chromium.text(".facts")
    assert chromium.value("document.querySelector('.said').getAttribute('aria-busy')") == "false"
    assert not [url for url in chromium.urls if url.endswith("/v1/audio/transcriptions")], "a WebSocket has all of it"
    chromium.click("#record")  # again
    chromium.wait("document.querySelector('#record').getAttribute('aria-pressed') === 'true'")
    chromium.click("#record")
    chromium.wait(DONE)


def test_what_was_said_long_ago_is_settled(url, chromium):
    choose(chromium, "speech_language", "de")
    chromium.click("#record")
    chromium.wait("document.querySelectorAll('.segments li:not(.open)').length > 0", timeout=60)
    chromium.click("#record")
    chromium.wait(DONE)
    times = chromium.value("[...document.querySelectorAll('.segments .time')].map(e => e.textContent)")
    seconds = [int(m) * 60 + int(s) for m, s in (t.split(":") for t in times)]
    assert seconds == sorted(seconds)


def test_a_microphone_that_is_refused(url, chromium):
    chromium.value("navigator.mediaDevices.getUserMedia = async () => { throw new DOMException('no', 'NotAllowedError'); }")
    chromium.click("#record")
    chromium.wait(DONE)
    assert "does not let the page hear" in chromium.text("#error-file")
    assert chromium.value("document.querySelector('#record').disabled") is False
