"""The page at "/" in headless Chromium, for all tests of this folder. They are skipped where there is no Chromium."""
import urllib.parse

import httpx
import pytest

from browser import Browser, find_chromium
from conftest import GOLDENS, MODEL, Server
from speech_model import make_whisper, wav

READY = "document.querySelector('#state').dataset.state === 'ready' && !document.querySelector('#starting')"
_MODELS = {"demo": MODEL, "translator": GOLDENS / "mbart50-tiny", "pair": GOLDENS / "marian-tiny", "tasks": GOLDENS / "t5-tiny",
           "reader": GOLDENS.parent / "vision-tiny", "plain": GOLDENS / "bart-tiny"}


@pytest.fixture(scope="session")
def sounds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sounds")
    for name, seconds in (("short", 3), ("long", 65)):
        (folder / (name + ".wav")).write_bytes(wav(seconds))
    return folder


@pytest.fixture(scope="session")
def chromium(sounds):
    program = find_chromium()
    if program is None:
        pytest.skip("no Chromium here (package \"chromium\")")
    try:
        browser = Browser(program, "--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream",
                          "--use-file-for-fake-audio-capture=" + str(sounds / "short.wav"),
                          "--autoplay-policy=no-user-gesture-required", "--lang=en")
    except ConnectionError:  # a wrapper without its program, a container that forbids it
        pytest.skip(program + " does not start here")
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def serve(tmp_path_factory):
    """serve(name): the address of a server with that model, one for the module's tests."""
    servers = {}

    def url(name):
        if name not in servers:
            folder = tmp_path_factory.mktemp("page")
            model = make_whisper(folder / "whisper") if name == "whisper" else _MODELS[name]
            servers[name] = Server(folder, model=model)
        return servers[name].url

    yield url
    for server in servers.values():
        assert server.stop() == 0, server.log()


def show(chromium, url, mode="", width=1280, height=900, scheme="light"):
    """Opens the page, in the mode that it chooses or another."""
    chromium.open("about:blank")  # an address that differs in its fragment alone is no new page
    chromium.errors.clear()
    chromium.urls.clear()
    chromium.viewport(width, height, mobile=width < 500)
    chromium.scheme(scheme)
    chromium.open(url + "/" + ("#/" + mode if mode else ""))
    chromium.wait(READY)


@pytest.fixture
def page(chromium, serve):
    """page(name, mode): the page of that model's server, and its address. It must neither complain nor ask elsewhere."""
    opened = []

    def open_page(name, mode="", **more):
        opened.append(serve(name))
        show(chromium, opened[-1], mode, **more)
        return opened[-1]

    yield open_page
    urls = [url for url in chromium.urls if not url.startswith(("about:", "data:"))]
    chromium.open("about:blank")  # before the server goes, which the page would ask again
    assert not chromium.errors, chromium.errors
    origins = {urllib.parse.urlsplit(url.removeprefix("blob:"))[:2] for url in urls}
    assert origins <= {urllib.parse.urlsplit(url)[:2] for url in opened}


def complete(url, **body):
    """What the server answers to such a request of text."""
    answer = httpx.post(url + "/v1/completions", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"]


def choose(chromium, menu, value):
    chromium.value("(() => { const menu = document.querySelector('#%s'); menu.value = %r;"
                   " for (const kind of ['input', 'change']) menu.dispatchEvent(new Event(kind, {bubbles: true})); })()"
                   % (menu, value))


def options_of(chromium, menu):
    return chromium.value("[...document.querySelectorAll('#%s option')].map(o => o.value)" % menu)


def pop_error(chromium, status):
    """The browser's own line about a request that failed as it should."""
    assert len(chromium.errors) == 1 and str(status) in chromium.errors.pop()


def press_button(chromium, within, text):
    chromium.value("[...document.querySelectorAll('%s button')].find(b => b.textContent === '%s').click()" % (within, text))


def saved(chromium, path):
    """The text of a file that the page saves there (Browser.save_to())."""
    for _ in range(100):
        if path.exists() and not path.with_name(path.name + ".crdownload").exists():
            return path.read_text()
        chromium.value("new Promise(r => setTimeout(r, 50))")
    raise AssertionError("no such file: %s" % path)
