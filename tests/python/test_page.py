"""The page at "/" in headless Chromium. Skipped where there is no Chromium."""
import base64
import os
import signal
import urllib.parse

import httpx
import pytest

from browser import Browser, find_chromium
from conftest import GOLDENS

GENERATED = "document.querySelector('#generate').disabled === false && document.querySelector('.run') !== null"


@pytest.fixture(scope="module")
def chromium():
    program = find_chromium()
    if program is None:
        pytest.skip("no Chromium here (package \"chromium\")")
    try:
        browser = Browser(program)
    except ConnectionError:  # a wrapper without its program, a container that forbids it
        pytest.skip(program + " does not start here")
    yield browser
    browser.close()


@pytest.fixture
def page(chromium, server):
    chromium.errors.clear()
    chromium.urls.clear()
    chromium.viewport(1280, 900)
    chromium.open(server.url + "/")
    chromium.wait("document.querySelector('#state').dataset.state === 'ready'")
    yield chromium
    assert chromium.errors == []
    origins = {urllib.parse.urlsplit(url)[:2] for url in chromium.urls}
    assert origins == {urllib.parse.urlsplit(server.url)[:2]}


def generate(page):
    page.click("#generate")
    page.wait(GENERATED)
    return page.value("[...document.querySelectorAll('.run')].map(r => [...r.querySelectorAll('.text')]"
                      ".map(t => t.textContent))")


def ask(server, **body):
    answer = httpx.post(server.url + "/v1/completions", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"]


def test_generate(page, server, texts):
    prompt = page.value("document.querySelector('#prompt').value")
    assert prompt in texts
    (greedy,), = generate(page)
    assert greedy and greedy == ask(server, prompt=prompt, max_tokens=40, num_beams=1, do_sample=False)[0]["text"]
    assert "first token" in page.text(".facts") and "tokens/s" in page.text(".facts")


def test_examples_are_the_repository_s(page, texts):
    for i in range(3):
        page.click('[data-example="%d"]' % i)
        assert page.value("document.querySelector('#prompt').value") in texts


def test_beams_have_scores(page, server, texts):
    page.type("#prompt", texts[0])
    page.click("[value=beams]")
    page.type("#num_beams", "4")
    page.type("#num_return_sequences", "3")
    beams, = generate(page)
    wanted = ask(server, prompt=texts[0], max_tokens=40, num_beams=4, num_return_sequences=3, length_penalty=1)
    assert beams == [choice["text"] for choice in wanted]
    shown = page.value("[...document.querySelectorAll('.meta b')].map(b => b.textContent)")
    assert shown == [("%.3f" % choice["score"]).replace("-", "−") for choice in wanted]


def test_side_by_side(page, server):
    page.click("[value=compare]")
    page.type("#seed", "7")
    columns = generate(page)
    assert [len(column) for column in columns] == [1, 3, 3]
    lefts = page.value("[...document.querySelectorAll('.run')].map(r => r.getBoundingClientRect().left)")
    tops = page.value("[...document.querySelectorAll('.run')].map(r => r.getBoundingClientRect().top)")
    assert lefts == sorted(set(lefts)) and len(set(tops)) == 1
    prompt = page.value("document.querySelector('#prompt').value")
    drawn = ask(server, prompt=prompt, max_tokens=40, do_sample=True, temperature=0.8, top_p=0.95, n=3, seed=7)
    assert columns[2] == [choice["text"] for choice in drawn]


def test_decoder_prompt(page, server):
    page.type("#decoder_prompt", "Python")
    (text,), = generate(page)
    prompt = page.value("document.querySelector('#prompt').value")
    assert text == ask(server, prompt=prompt, max_tokens=40, num_beams=1, decoder_prompt="Python")[0]["text"]


def test_text_is_never_markup(page):
    page.type("#prompt", "<img src=x onerror=alert(1)>")
    page.type("#decoder_prompt", "<b id=injected>")
    generate(page)
    assert page.value("document.querySelector('#injected') === null && document.querySelector('img') === null")


def test_errors_stand_at_their_field(page):
    page.type("#max_tokens", "-3")
    page.click("#generate")
    page.wait(GENERATED)
    assert page.text("#error-max_tokens") and page.text(".run .error").endswith(page.text("#error-max_tokens"))
    assert page.value("document.querySelector('#max_tokens').getAttribute('aria-invalid')") == "true"
    assert page.value("document.activeElement.id") == "max_tokens"
    # The browser's own line about a failed request.
    assert len(page.errors) == 1 and "400" in page.errors.pop()
    page.type("#max_tokens", "5")
    generate(page)
    assert page.text("#error-max_tokens") == ""
    assert page.value("document.querySelector('#max_tokens').hasAttribute('aria-invalid')") is False


def tokenized(server, text):
    return httpx.post(server.url + "/tokenize", json={"prompt": text}).json()


def counter_of(server, text):
    answer = tokenized(server, text)
    return f"{answer['count']:,} of {answer['max_model_len']:,} tokens"


def wait_for_count(page, expected):
    page.wait("document.querySelector('#count').textContent === %r" % expected)


def test_tokens_are_counted_once_nobody_types(page, server, texts):
    wait_for_count(page, counter_of(server, page.value("document.querySelector('#prompt').value")))
    for text in ("", "one", texts[1]):
        page.type("#prompt", text)
        wait_for_count(page, counter_of(server, text))
    # Every key is an event, but the server is asked after a pause only.
    asked = len([url for url in page.urls if url.endswith("/tokenize")])
    page.value("for (let i = 0; i < 50; ++i) { document.querySelector('#prompt').value += ' a';"
               " document.querySelector('#form').dispatchEvent(new Event('input')); }")
    wait_for_count(page, counter_of(server, texts[1] + " a" * 50))
    assert len([url for url in page.urls if url.endswith("/tokenize")]) == asked + 1


def test_long_texts_are_cut_on_request(page, server):
    limit = tokenized(server, "x")["max_model_len"]
    page.type("#prompt", "word " * (2 * limit))
    page.wait("document.querySelector('#count').classList.contains('over')")
    assert f"more than the {limit:,}" in page.text("#count")
    assert f"{limit:,} tokens" in page.text("#cut-note")
    page.click("#generate")
    page.wait(GENERATED)
    assert "truncate_prompt_tokens" in page.text("#error-prompt")
    assert len(page.errors) == 1 and "400" in page.errors.pop()
    page.click("#cut")
    page.wait("document.querySelector('#count').textContent.endsWith('cut to %s')" % f"{limit:,}")
    assert "truncate_prompt_tokens" in page.value("document.querySelector('#curl').textContent")
    page.type("#max_tokens", "4")
    (text,), = generate(page)
    assert text and page.text("#error-prompt") == ""


@pytest.fixture
def open_page(chromium, start_server):
    """open_page(model): the page of a server of the test's own."""
    def opened(model):
        server = start_server(model=GOLDENS / model)
        chromium.errors.clear()
        chromium.urls.clear()
        chromium.open(server.url + "/")
        chromium.wait("document.querySelector('#state').dataset.state === 'ready'")
        return server

    yield opened
    chromium.open("about:blank")  # before the server goes, which the page would ask again


def options_of(page, menu):
    return page.value("[...document.querySelectorAll('#%s option')].map(o => o.value)" % menu)


def choose(page, menu, value):
    page.value("(() => { const menu = document.querySelector('#%s'); menu.value = %r;"
               " menu.dispatchEvent(new Event('input', {bubbles: true})); })()" % (menu, value))


def test_menus_only_where_the_model_has_them(page):
    page.value("fetch('/v1/models').then(r => r.json()).then(() => true)")
    assert page.value("document.querySelector('#model-fields').hidden") is True
    assert "src_lang" not in page.value("document.querySelector('#curl').textContent")


def test_languages_have_menus(chromium, open_page):
    server = open_page("mbart50-tiny")
    chromium.wait("document.querySelector('#model-fields').hidden === false")
    for menu in ("src_lang", "tgt_lang"):
        names = options_of(chromium, menu)
        assert len(names) == 53 and names[0] == "" and "fr_XX" in names
    assert chromium.value("document.querySelector('#task').closest('.field').hidden") is True
    assert chromium.value("document.querySelector('#src_lang').selectedOptions[0].textContent") == "en_XX"
    choose(chromium, "src_lang", "fr_XX")
    choose(chromium, "tgt_lang", "de_DE")
    curl = chromium.value("document.querySelector('#curl').textContent")
    assert '"src_lang": "fr_XX"' in curl and '"tgt_lang": "de_DE"' in curl
    chromium.type("#prompt", "Bonjour.")
    (text,), = generate(chromium)
    assert text == ask(server, prompt="Bonjour.", max_tokens=40, num_beams=1, src_lang="fr_XX", tgt_lang="de_DE")[0]["text"]
    assert chromium.errors == []


def test_tasks_have_a_menu(chromium, open_page):
    open_page("t5-tiny")
    chromium.wait("document.querySelector('#model-fields').hidden === false")
    assert options_of(chromium, "task") == ["", "summarization"]
    assert chromium.value("document.querySelector('#src_lang').closest('.field').hidden") is True
    choose(chromium, "task", "summarization")
    assert '"task": "summarization"' in chromium.value("document.querySelector('#curl').textContent")


def test_images_where_the_model_reads_them(chromium, open_page):
    folder = GOLDENS.parent / "vision-tiny"
    server = open_page("../vision-tiny")
    chromium.wait("document.querySelector('#picture').hidden === false")
    assert chromium.value("document.querySelector('#source').hidden") is True
    chromium.choose_file("#image", folder / "image_0.png")
    chromium.wait("document.querySelector('#curl').textContent.includes('data:image/png;base64,…')")
    (text,), = generate(chromium)
    image = "data:image/png;base64," + base64.b64encode((folder / "image_0.png").read_bytes()).decode()
    assert text == ask(server, prompt={"multi_modal_data": {"image": image}}, max_tokens=40, num_beams=1)[0]["text"]
    assert chromium.errors == []


def test_an_empty_text_is_an_error(page):
    page.type("#prompt", "")
    page.click("#generate")
    page.wait(GENERATED)
    assert "empty" in page.text("#error-prompt")
    assert len(page.errors) == 1 and "400" in page.errors.pop()


def test_stop(page, server):
    # Long enough not to have ended on the way from one click to the next.
    page.value("document.querySelector('#generate').addEventListener('click', () =>"
               " setTimeout(() => document.querySelector('#stop').click()), {once: true})")
    page.click("[value=sample]")
    page.type("#n", "64")
    page.type("#max_tokens", "300")
    generate(page)
    assert "stopped" in page.text(".facts")
    page.wait("fetch('/status').then(r => r.json()).then(s => s.prompts_under_way === 0)")


def test_the_engine_live(page, server, texts):
    def number(selector):
        return int(page.text(selector).replace(",", ""))

    page.wait("document.querySelector('#total-tokens').textContent !== '–'")
    before = number("#total-tokens")
    tokens = sum(len(c["token_ids"]) for c in ask(server, prompt=texts[0], max_tokens=20, return_token_ids=True))
    page.wait("document.querySelector('#total-tokens').textContent.replace(',', '') === '%d'" % (before + tokens))
    assert "Replica 0" in page.text("#workers li")
    squares = ("document.querySelector('#blocks .%s').getAttribute('d').includes('z') &&"
               "document.querySelector('#%s-blocks').textContent !== '0'")
    # A request that is being computed has blocks of both kinds; leaving the block cancels it.
    long = {"prompt": texts[0], "stream": True, "n": 128, "min_tokens": 400, "max_tokens": 400, "temperature": 2}
    with httpx.stream("POST", server.url + "/v1/completions", json=long, timeout=60) as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith("data: ")
        page.wait("document.querySelector('#running').textContent === '1'")
        page.wait(" && ".join(squares % (kind, kind) for kind in ("self", "cross")))
        page.wait("document.querySelector('#workers .word').textContent === 'computing'")
    page.wait("document.querySelector('#running').textContent === '0'")
    page.wait("document.querySelector('#self-blocks').textContent === '0'")


@pytest.mark.parametrize("width", [320, 360, 390, 414, 768, 1280])
def test_numbers_keep_their_distance(page, width):
    page.viewport(width, 740, mobile=width < 500)
    page.wait("document.querySelector('#running').textContent !== '–'")
    gaps = page.value("""(() => {
      const boxes = ['running', 'waiting', 'swapped'].map((id) => {
        const range = document.createRange();
        document.getElementById(id).textContent = '200';
        range.selectNodeContents(document.getElementById(id));
        return range.getBoundingClientRect();
      });
      return [boxes[1].left - boxes[0].right, boxes[2].left - boxes[1].right];
    })()""")
    assert min(gaps) >= 16, gaps


@pytest.mark.parametrize("width", [320, 360, 414, 768, 1280])
def test_nothing_sticks_out(page, width):
    page.viewport(width, 740, mobile=width < 500)
    for mode in ("greedy", "sample", "beams", "compare"):
        page.click("[value=%s]" % mode)
        generate(page)
        assert page.value("document.documentElement.scrollWidth") <= width, mode
        assert page.value("[...document.querySelectorAll('body *')].filter(e => e.getClientRects().length &&"
                          "!e.closest('pre, .spark, .visually-hidden') &&"
                          "e.getBoundingClientRect().right > innerWidth + 0.5).map(e => e.outerHTML.slice(0, 80))") == []
        assert page.value("[...document.querySelectorAll('.card, .run, .field, .foot, .counts, .modes span')]"
                          ".filter(e => e.scrollWidth > e.clientWidth).map(e => e.outerHTML.slice(0, 80))") == []


def test_light_and_dark(page):
    def background():
        return page.value("getComputedStyle(document.body).backgroundColor")

    page.scheme("light")
    light = background()
    page.scheme("dark")
    dark = background()
    assert light != dark
    page.click("#theme-button")
    assert background() == light
    page.click("#theme-button")
    assert background() == dark
    page.value("localStorage.clear()")


def test_every_field_has_a_name(page):
    assert page.value("[...document.querySelectorAll('input, textarea')].filter(e => !e.labels.length)"
                      ".map(e => e.outerHTML)") == []
    assert page.value("[...document.querySelectorAll('button, a')].filter(e => !e.textContent.trim() &&"
                      "!e.getAttribute('aria-label')).map(e => e.outerHTML)") == []


def test_a_worker_that_dies(chromium, start_server):
    server = start_server("--tensor-parallel-size", "2")
    chromium.viewport(1280, 900)
    chromium.open(server.url + "/")
    chromium.wait("(document.querySelector('.what') || {textContent: ''}).textContent.includes('first generation')")
    os.kill(server.workers()[0], signal.SIGKILL)
    chromium.wait("document.querySelector('.what').textContent.includes('generation 2')")
    chromium.wait("document.querySelector('#workers-note').textContent.includes('1 restart')")
    chromium.wait("document.querySelector('#state').dataset.state === 'ready'")
    server.stop()
    chromium.wait("document.querySelector('#state-text').textContent === 'unreachable'")


def test_key(chromium, start_server):
    server = start_server("--api-key", "open sesame")
    chromium.viewport(1280, 900)
    chromium.open(server.url + "/")
    chromium.wait("document.querySelector('#key-dialog').open")
    chromium.type("#key", "open barley")
    chromium.click("#key-form .primary")
    chromium.wait("document.querySelector('#key-error').textContent !== ''")
    chromium.type("#key", "open sesame")
    chromium.click("#key-form .primary")
    chromium.wait("document.querySelector('#state').dataset.state === 'ready'")
    (text,), = generate(chromium)
    assert text
    chromium.open(server.url + "/?again")
    chromium.wait("document.querySelector('#state').dataset.state === 'ready'")
    assert chromium.value("document.querySelector('#key-dialog').open") is False
    assert chromium.value("Object.values(localStorage).join() + document.cookie") == ""
