"""The page at "/docs" in headless Chromium. Skipped where there is no Chromium."""
import urllib.parse

import httpx
import pytest

from page_fixtures import chromium, sounds  # noqa: F401

ROUTES = "document.querySelectorAll('.route').length"


@pytest.fixture
def page(chromium, server):  # noqa: F811
    chromium.errors.clear()
    chromium.urls.clear()
    chromium.viewport(1280, 900)
    chromium.open(server.url + "/docs")
    chromium.wait(ROUTES)
    yield chromium
    assert chromium.errors == []
    origins = {urllib.parse.urlsplit(url)[:2] for url in chromium.urls}
    assert origins == {urllib.parse.urlsplit(server.url)[:2]}, "nothing from elsewhere"


def shown(page):
    return page.value("[...document.querySelectorAll('.route:not([hidden]) > summary > code')].map(e => e.textContent)")


def test_every_route_with_its_schemas(page, server):
    document = httpx.get(server.url + "/openapi.json").json()
    assert page.value(ROUTES) == sum(len(methods) for methods in document["paths"].values())
    page.value("document.querySelectorAll('.route').forEach(route => { route.open = true; })")
    page.wait("document.querySelectorAll('.inside').length === " + ROUTES)
    kinds = page.value("[...document.querySelectorAll('.inside')]"
                       ".map(e => [...e.querySelectorAll('h3')].map(h => h.textContent.split(' ')[0]))")
    assert all("Answer" in kind and "Error" in kind and "Command" in kind for kind in kinds)
    # Down to the last schema, whatever refers to whatever.
    for _ in range(6):
        page.value("document.querySelectorAll('.inside details:not([open])').forEach(d => { d.open = true; })")
        page.wait("[...document.querySelectorAll('.inside details[open]')].every(d => d.children.length > 1)")
    assert page.value("document.querySelectorAll('.inside details:not([open])').length") == 0
    text = page.value("document.querySelector('.route[id=\"post/v1/responses\"] .inside').textContent")
    for part in ("max_output_tokens", "incomplete_details", "sequence_number", "text/event-stream", "curl http"):
        assert part in text


def test_commands_work(page, server):
    """The bodies that the page's commands send are bodies that the server takes."""
    import json
    page.value("document.querySelectorAll('.route').forEach(route => { route.open = true; })")
    page.wait("document.querySelectorAll('.inside pre').length === " + ROUTES)
    commands = page.value("[...document.querySelectorAll('.inside pre')].map(e => e.textContent)")
    tried = 0
    for command in commands:
        address = next(word for word in command.split() if word.startswith(("http", "ws")))
        if " -d '" not in command or "{" in address or any(
                name in address for name in ("ranslat", "detect", "recognition", "lora")):
            continue  # this model has no languages, and reads no sound; this server takes no adapters
        body = json.loads(command.split(" -d '")[1].rstrip("'"))
        answer = httpx.post(address, json=body, timeout=60)
        if answer.status_code == 400 and answer.json()["error"].get("param") == "model":
            continue  # it is none that classifies
        assert answer.is_success, command + answer.text
        tried += 1
    assert tried > 12


def test_filter_and_keyboard(page):
    page.type("#filter", "decoder_input_details")
    assert set(shown(page)) == {"/", "/generate", "/generate_stream", "/pipeline/summarization", "/pipeline/translation",
                                "/pipeline/text2text-generation", "/pipeline/text-generation"}
    assert page.text("#count").startswith("7 of ")
    page.type("#filter", "rerank cohere")
    assert shown(page) == ["/v2/rerank"]
    for key in ("Tab", "Enter"):
        code = {"Tab": 9, "Enter": 13}[key]
        for kind in ("keyDown", "keyUp"):
            page.command("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code,
                         text="\r" if key == "Enter" and kind == "keyDown" else "")
    page.wait("document.querySelector('.route:not([hidden]) .inside') !== null")
    assert "results" in page.text(".route:not([hidden]) .inside")


def test_light_dark_and_narrow(page):
    colours = set()
    for scheme in ("light", "dark"):
        page.scheme(scheme)
        colours.add(page.value("getComputedStyle(document.body).backgroundColor"))
    page.click("#theme-button")
    colours.add(page.value("getComputedStyle(document.body).backgroundColor"))
    page.click("#theme-button")
    assert len(colours) == 2, "the button takes the other one"
    page.viewport(400, 800, mobile=True)
    page.value("document.querySelectorAll('.route').forEach(route => { route.open = true; })")
    assert page.value("document.documentElement.scrollWidth") <= 400


def test_a_link_opens_its_route(page, server):
    page.open(server.url + "/docs?again#post/v1/embeddings")
    page.wait("document.querySelector('.route[open]') !== null")
    assert page.text(".route[open] > summary > code") == "/v1/embeddings"


def test_a_key(chromium, start_server):  # noqa: F811
    secret = start_server("--api-key", "k")
    chromium.errors.clear()
    chromium.open(secret.url + "/docs")
    chromium.wait("document.querySelector('#key-dialog').open")
    assert chromium.value(ROUTES) == 0
    chromium.click("#key-cancel")
    chromium.wait("document.querySelector('#error').textContent.includes('API key')")
    chromium.click("#key-button")
    chromium.type("#key", "wrong")
    chromium.click("#key-form .primary")
    chromium.wait("document.querySelector('#key-dialog').open && document.querySelector('#key-error').textContent !== ''")
    chromium.type("#key", "k")
    chromium.click("#key-form .primary")
    chromium.wait(ROUTES)
    assert not chromium.value("document.querySelector('#key-dialog').open")
    assert chromium.text("#error") == ""
    chromium.value("document.querySelectorAll('.route').forEach(route => { route.open = true; })")
    chromium.wait("document.querySelectorAll('.inside pre').length === " + ROUTES)
    assert "$TANDEM_API_KEY" in chromium.text(".route .inside pre"), "commands have the key's variable, not the key"
    chromium.errors.clear()  # the browser's own words about the 401s
