"""What all modes share: tabs, the key, light and dark, the policy, the engine's view."""
import os
import signal

import httpx
import pytest

from page_fixtures import READY, chromium, complete, page, serve, show, sounds  # noqa: F401


def test_tabs_are_in_the_address(page, chromium):
    url = page("demo", "prompt")
    assert chromium.value("document.querySelector('#prompt-mode').hidden") is False
    chromium.click("#tab-summarise")
    assert chromium.value("[document.querySelector('#prompt-mode').hidden, location.hash]") == [True, "#/summarise"]
    page("demo", "nonsense")
    assert chromium.value("document.querySelector('#summarise').hidden") is False
    assert chromium.text("#model") == "demo-model" and url


def test_light_and_dark(page, chromium):
    page("demo")

    def background():
        return chromium.value("getComputedStyle(document.body).backgroundColor")

    chromium.scheme("light")
    light = background()
    chromium.scheme("dark")
    dark = background()
    assert light != dark
    chromium.click("#theme-button")
    assert background() == light
    chromium.click("#theme-button")
    assert background() == dark
    chromium.value("localStorage.clear()")


def test_the_policy_lets_nothing_else_run(page, chromium):
    page("demo")
    chromium.value("(() => { for (const code of ['window.ran = 1']) { const s = document.createElement('script');"
                   " try { s.textContent = code; } catch { return; } document.body.append(s); } })()")
    assert chromium.value("window.ran === undefined")
    assert chromium.value("document.querySelectorAll('script:not([src]), style, [style*=url], [onclick]').length") == 0
    chromium.errors.clear()


def test_a_key(chromium, start_server):
    server = start_server("--api-key", "open sesame")
    chromium.viewport(1280, 900)
    chromium.open(server.url + "/")
    chromium.wait("document.querySelector('#key-dialog').open")
    chromium.type("#key", "open barley")
    chromium.click("#key-form .primary")
    chromium.wait("document.querySelector('#key-error').textContent !== ''")
    chromium.type("#key", "open sesame")
    chromium.click("#key-form .primary")
    chromium.wait(READY)
    chromium.type("#summarise-source", "This package reads files.")
    chromium.click("#summarise-go")
    chromium.wait("document.querySelector('#summarise-facts').textContent !== ''")
    assert chromium.text("#summarise-output")
    chromium.click("#request summary")
    chromium.wait("document.querySelector('#curl').textContent !== ''")
    assert "$TANDEM_API_KEY" in chromium.text("#curl") and "sesame" not in chromium.text("#curl")
    chromium.open(server.url + "/?again")
    chromium.wait(READY)
    assert chromium.value("document.querySelector('#key-dialog').open") is False
    assert chromium.value("Object.values(localStorage).join() + document.cookie") == ""
    chromium.value("sessionStorage.clear()")
    chromium.open("about:blank")


def test_no_key_is_no_dead_end(chromium, start_server):
    server = start_server("--api-key", "open sesame")
    chromium.open(server.url + "/")
    chromium.wait("document.querySelector('#key-dialog').open")
    chromium.press("Escape")
    chromium.wait("document.querySelector('#starting').textContent.includes('key')")
    chromium.click("#key-button")
    chromium.type("#key", "open sesame")
    chromium.press("Enter")
    chromium.wait(READY)
    chromium.value("sessionStorage.clear()")
    chromium.open("about:blank")


def test_a_path_before_the_page(chromium, start_server):
    """--root-path: the page asks with it, and the server answers with it too."""
    server = start_server("--root-path", "/below")
    chromium.urls.clear()
    chromium.open(server.url.split("/below")[0] + "/below/")
    chromium.wait(READY)
    asked = [url for url in chromium.urls if url.startswith("http")]
    assert len(asked) > 10 and all("/below/" in url for url in asked)
    chromium.open("about:blank")


# --- The engine ----------------------------------------------------------------------------------
@pytest.fixture
def engine(page, chromium):  # noqa: F811
    url = page("demo")
    assert chromium.value("document.querySelector('#engine').open") is False
    chromium.click("#engine > summary")
    chromium.wait("document.querySelector('#running').textContent !== '–'")
    return url


def test_it_asks_seldom_while_it_is_folded(page, chromium):
    page("demo")
    chromium.urls.clear()
    chromium.value("new Promise(r => setTimeout(r, 2500))")
    assert len([url for url in chromium.urls if url.endswith("/status")]) <= 1
    chromium.click("#engine > summary")
    chromium.value("new Promise(r => setTimeout(r, 2500))")
    assert len([url for url in chromium.urls if url.endswith("/status")]) >= 3


def test_the_engine_live(engine, chromium, texts):
    def number(selector):
        return int(chromium.text(selector).replace(",", ""))

    chromium.wait("document.querySelector('#total-tokens').textContent !== '–'")
    before = number("#total-tokens")
    tokens = sum(len(c["token_ids"]) for c in complete(engine, prompt=texts[0], max_tokens=20, return_token_ids=True))
    chromium.wait("document.querySelector('#total-tokens').textContent.replace(',', '') === '%d'" % (before + tokens))
    assert "Replica 0" in chromium.text("#workers li")
    squares = ("document.querySelector('#blocks .%s').getAttribute('d').includes('z') &&"
               "document.querySelector('#%s-blocks').textContent !== '0'")
    # A request that is being computed has blocks of both kinds; leaving the block cancels it.
    long = {"prompt": texts[0], "stream": True, "n": 128, "min_tokens": 400, "max_tokens": 400, "temperature": 2}
    with httpx.stream("POST", engine + "/v1/completions", json=long, timeout=60) as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith("data: ")
        chromium.wait("document.querySelector('#running').textContent === '1'")
        chromium.wait(" && ".join(squares % (kind, kind) for kind in ("self", "cross")))
        chromium.wait("document.querySelector('#workers .word').textContent === 'computing'")
    chromium.wait("document.querySelector('#running').textContent === '0'")
    chromium.wait("document.querySelector('#self-blocks').textContent === '0'")


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_numbers_keep_their_distance(engine, chromium, width):
    chromium.viewport(width, 740, mobile=width < 500)
    gaps = chromium.value("""(() => {
      const boxes = ['running', 'waiting', 'swapped'].map((id) => {
        const range = document.createRange();
        document.getElementById(id).textContent = '200';
        range.selectNodeContents(document.getElementById(id));
        return range.getBoundingClientRect();
      });
      return [boxes[1].left - boxes[0].right, boxes[2].left - boxes[1].right];
    })()""")
    assert min(gaps) >= 16, gaps


def test_a_worker_that_dies(chromium, start_server):
    server = start_server("--tensor-parallel-size", "2")
    show(chromium, server.url)
    chromium.click("#engine > summary")
    chromium.wait("(document.querySelector('.what') || {textContent: ''}).textContent.includes('first generation')")
    os.kill(server.workers()[0], signal.SIGKILL)
    chromium.wait("document.querySelector('.what').textContent.includes('generation 2')")
    chromium.wait("document.querySelector('#workers-note').textContent.includes('1 restart')")
    chromium.wait("document.querySelector('#state').dataset.state === 'ready'")
    server.stop()
    chromium.wait("document.querySelector('#state-text').textContent === 'unreachable'")
    chromium.open("about:blank")
