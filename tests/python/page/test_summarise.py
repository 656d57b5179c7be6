"""The summariser, and how the page chooses between it and the plain prompt."""
import pytest

from page_fixtures import chromium, complete, page, press_button, serve, sounds  # noqa: F401

ENDED = "document.querySelector('#summarise-facts').textContent !== ''"


def summarise(chromium):
    chromium.click("#summarise-go")
    chromium.wait(ENDED)
    return chromium.text("#summarise-output")


@pytest.mark.parametrize("name, tabs", [
    ("demo", ["Summarise", "Prompt"]),  # its card says so
    ("tasks", ["Summarise", "Prompt"]),  # its configuration does
    ("plain", ["Prompt", "Summarise"]),  # nothing does
    ("translator", ["Translate", "Prompt"]),
    ("reader", ["Read images"]),
    ("whisper", ["Transcribe"]),
])
def test_the_mode_is_the_models(page, chromium, name, tabs):
    page(name)
    assert chromium.value("[...document.querySelectorAll('[role=tab]')].map(t => t.textContent)") == tabs
    shown = chromium.value("[...document.querySelectorAll('main > section')].filter(s => !s.hidden).map(s => s.id)")
    assert len(shown) == 1 and shown[0] == {"Prompt": "prompt-mode", "Read images": "read"}.get(tabs[0], tabs[0].lower())
    assert chromium.value("document.querySelector('#tabs').hidden") is (len(tabs) == 1)


def test_a_text(page, chromium, texts):
    url = page("demo")
    chromium.type("#summarise-source", texts[0])
    assert summarise(chromium) == complete(url, prompt=texts[0], split="auto", merge="summary", max_tokens=None)[0]["text"] != ""


def test_the_models_own_task(page, chromium):
    url = page("tasks")
    chromium.type("#summarise-source", "This package reads files. It writes files too.")
    wanted = complete(url, prompt="This package reads files. It writes files too.", split="auto", merge="summary", task="summarization")
    assert summarise(chromium) == wanted[0]["text"]


def test_samples(page, chromium, texts):
    page("demo")
    names = chromium.value("[...document.querySelectorAll('#summarise .samples button')].map(b => b.textContent)")
    assert len(names) == 3
    chromium.click("#summarise .samples button:nth-of-type(2)")
    chromium.wait(ENDED)
    assert chromium.value("document.querySelector('#summarise-source').value") in texts
    assert chromium.value("document.querySelector('#summarise .samples').hidden") is True
    press_button(chromium, "#summarise", "Clear")
    assert chromium.text("#summarise-output") == ""
    assert chromium.value("document.querySelector('#summarise .samples').hidden") is False


def test_an_article_longer_than_the_model(page, chromium, texts):
    page("demo")
    chromium.type("#summarise-source", "\n\n".join(texts * 30))
    assert summarise(chromium)
    assert chromium.errors == []


def test_a_file_and_a_limit(page, chromium, tmp_path, texts):
    url = page("demo")
    (tmp_path / "text.txt").write_text(texts[1])
    chromium.choose_file("#summarise-file", tmp_path / "text.txt")
    chromium.wait("document.querySelector('#summarise-source').value !== ''")
    chromium.click("#summarise .options summary")
    chromium.type("#summarise-max_tokens", "3")
    assert summarise(chromium) == complete(url, prompt=texts[1], split="auto", merge="summary", max_tokens=3)[0]["text"]
    assert "cut" in chromium.text("#summarise-facts")


def test_text_is_never_markup(page, chromium):
    page("demo")
    chromium.type("#summarise-source", "<img src=x onerror=alert(1)><b id=injected>")
    summarise(chromium)
    assert chromium.value("document.querySelector('#injected') === null && document.querySelector('img') === null")
