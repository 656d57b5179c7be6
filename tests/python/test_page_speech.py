"""The page of a model that hears, in headless Chromium: a file, and a microphone that is a file too."""
import json

import httpx
import pytest

from browser import Browser, find_chromium
from conftest import Server
from speech_model import make_whisper, wav

DONE = "document.querySelector('#transcribe').disabled === false && document.querySelector('.said') !== null"


@pytest.fixture(scope="module")
def sounds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sounds")
    for name, seconds in (("short", 3), ("long", 65)):
        (folder / (name + ".wav")).write_bytes(wav(seconds))
    return folder


@pytest.fixture(scope="module")
def chromium(sounds):
    program = find_chromium()
    if program is None:
        pytest.skip("no Chromium here (package \"chromium\")")
    try:
        browser = Browser(program, "--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream",
                          "--use-file-for-fake-audio-capture=" + str(sounds / "short.wav"),
                          "--autoplay-policy=no-user-gesture-required")
    except ConnectionError:  # a wrapper without its program, a container that forbids it
        pytest.skip(program + " does not start here")
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    s = Server(folder, model=make_whisper(folder / "whisper"))
    yield s
    assert s.stop() == 0, s.log()


@pytest.fixture
def page(chromium, server):
    chromium.errors.clear()
    chromium.urls.clear()
    chromium.viewport(1280, 900)
    chromium.open(server.url + "/")
    chromium.wait("document.querySelector('#hear').hidden === false")
    chromium.wait("document.querySelector('#state').dataset.state === 'ready'")
    yield chromium
    # Chromium would rather have a worklet, which the page's policy does not allow.
    assert [e for e in chromium.errors if "ScriptProcessorNode" not in e] == []
    assert all(url.startswith((server.url, "blob:" + server.url)) for url in chromium.urls)


def said(page):
    return page.value("[...document.querySelectorAll('.segments li')].map(e => [...e.children].map(c => c.textContent))")


def choose(page, menu, value):
    page.value("(() => { const menu = document.querySelector('#%s'); menu.value = %r;"
               " menu.dispatchEvent(new Event('input', {bubbles: true})); })()" % (menu, value))


def ask(server, path, **fields):
    answer = httpx.post(server.url + "/v1/audio/transcriptions", files={"file": path.read_bytes()}, timeout=60,
                        data={"response_format": "verbose_json", **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


def minutes(seconds):
    return "%d:%02d" % divmod(int(seconds), 60)


def test_the_form_is_for_sound(page):
    assert page.value("document.querySelector('#form').hidden") is True
    tasks = page.value("[...document.querySelectorAll('#speech_task option')].map(o => o.value)")
    assert tasks == ["transcribe", "translate"]
    assert page.value("document.querySelectorAll('#speech_language option').length") == 100
    assert page.value("[...document.querySelectorAll('#hear input, #hear select')].filter(e => !e.labels.length).length") == 0


def test_a_file(page, server, sounds):
    page.choose_file("#file", sounds / "long.wav")
    choose(page, "speech_language", "de")
    page.click("#transcribe")
    page.wait(DONE)
    wanted = ask(server, sounds / "long.wav", language="de")
    assert said(page) == [[minutes(s["start"]), s["text"].strip()] for s in wanted["segments"]]
    assert "german" in page.text(".facts") and "65.0 s of sound" in page.text(".facts")
    curl = page.text("#curl")
    assert "-F 'language=de'" in curl and "-F 'file=@long.wav'" in curl and "/v1/audio/transcriptions" in curl


def test_subtitles_are_the_server_s(page, server, sounds):
    page.choose_file("#file", sounds / "long.wav")
    choose(page, "speech_language", "de")
    page.click("#transcribe")
    page.wait(DONE)
    page.value("window.saved = []; const made = URL.createObjectURL;"
               "URL.createObjectURL = (blob) => { saved.push(blob); return made(blob); };"
               "HTMLAnchorElement.prototype.click = function () { saved.push(this.download); };")
    for kind in ("srt", "vtt"):
        page.value("[...document.querySelectorAll('.said button')].find(b => b.textContent === 'Save .%s').click()" % kind)
        wanted = httpx.post(server.url + "/v1/audio/transcriptions", files={"file": (sounds / "long.wav").read_bytes()},
                            data={"response_format": kind, "language": "de"}, timeout=60).text
        assert page.value("saved.at(-1)") == "long.wav." + kind
        assert page.value("saved.at(-2).text()") == wanted


def test_a_file_that_is_dropped(page, server, sounds):
    data = list((sounds / "short.wav").read_bytes())
    page.value("(() => { const file = new File([new Uint8Array(%s)], 'dropped.wav'), data = new DataTransfer();"
               "data.items.add(file); document.querySelector('#drop').dispatchEvent("
               "new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true})); })()" % json.dumps(data))
    assert page.text("#chosen").startswith("dropped.wav")
    page.click("#transcribe")
    page.wait(DONE)
    assert page.text(".said h3") == "dropped.wav" and said(page)


def test_errors_stand_at_their_field(page, sounds):
    page.click("#transcribe")
    assert "choose a file" in page.text("#error-file")
    text = sounds / "text.wav"
    text.write_text("This is no sound. " * 100)
    page.choose_file("#file", text)
    page.click("#transcribe")
    page.wait(DONE)
    assert page.text("#error-file") and page.value("document.activeElement.id") == "file"
    assert len(page.errors) == 1 and "400" in page.errors.pop()


def test_stop(page, server, sounds):
    page.value("document.querySelector('#transcribe').addEventListener('click', () =>"
               " setTimeout(() => document.querySelector('#hear-stop').click()), {once: true})")
    page.choose_file("#file", sounds / "long.wav")
    page.click("#transcribe")
    page.wait(DONE)
    assert "stopped" in page.text(".facts")
    page.wait("fetch('/status').then(r => r.json()).then(s => s.prompts_under_way === 0)")


def test_a_microphone(page):
    choose(page, "speech_language", "de")
    page.click("#record")
    page.wait("document.querySelector('#record').getAttribute('aria-pressed') === 'true'")
    page.wait("document.querySelector('.segments li.open .text') !== null")  # live: while it records
    assert page.text("#record") == "Stop recording"
    live = said(page)
    assert live and any(text for _, text in live)
    page.click("#record")
    page.wait(DONE)
    assert page.text("#record") == "Record" and "s of sound" in page.text(".facts")
    assert page.value("document.querySelector('.said').getAttribute('aria-busy')") == "false"
    sent = [url for url in page.urls if url.endswith("/v1/audio/transcriptions")]
    assert len(sent) >= 2
    page.click("#record")  # again
    page.wait("document.querySelector('#record').getAttribute('aria-pressed') === 'true'")
    page.click("#record")
    page.wait(DONE)


def test_what_was_said_long_ago_is_settled(page):
    choose(page, "speech_language", "de")
    page.click("#record")
    page.wait("document.querySelectorAll('.segments li:not(.open)').length > 0", timeout=60)
    page.click("#record")
    page.wait(DONE)
    times = page.value("[...document.querySelectorAll('.segments .time')].map(e => e.textContent)")
    seconds = [int(m) * 60 + int(s) for m, s in (t.split(":") for t in times)]
    assert seconds == sorted(seconds)


@pytest.mark.parametrize("width", [320, 414, 1280])
def test_nothing_sticks_out(page, sounds, width):
    page.viewport(width, 740, mobile=width < 500)
    page.choose_file("#file", sounds / "long.wav")
    page.click("#transcribe")
    page.wait(DONE)
    assert page.value("document.documentElement.scrollWidth") <= width
    assert page.value("[...document.querySelectorAll('body *')].filter(e => e.getClientRects().length &&"
                      "!e.closest('pre, .spark, .visually-hidden') &&"
                      "e.getBoundingClientRect().right > innerWidth + 0.5).map(e => e.outerHTML.slice(0, 80))") == []
