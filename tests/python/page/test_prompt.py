"""The plain prompt: decoding, counting tokens, menus, errors."""
import httpx
import pytest

from page_fixtures import chromium, choose, complete, options_of, page, pop_error, serve, sounds  # noqa: F401

GENERATED = "document.querySelector('#generate').disabled === false && document.querySelector('.run') !== null"


@pytest.fixture
def demo(page):
    """The address of the demo model's page, at its prompt."""
    return page("demo", "prompt")


def generate(chromium):
    chromium.click("#generate")
    chromium.wait(GENERATED)
    return chromium.value("[...document.querySelectorAll('.run')].map(r => [...r.querySelectorAll('.text')]"
                      ".map(t => t.textContent))")


def test_generate(demo, chromium, texts):
    prompt = chromium.value("document.querySelector('#prompt').value")
    assert prompt in texts
    (greedy,), = generate(chromium)
    assert greedy and greedy == complete(demo, prompt=prompt, num_beams=1, do_sample=False)[0]["text"]
    assert "first token" in chromium.text(".facts") and "tokens/s" in chromium.text(".facts")


def test_samples_are_the_repository_s(demo, chromium, texts):
    assert chromium.value("document.querySelectorAll('#prompt-samples button').length") == 3
    for i in range(3):
        chromium.click("#prompt-samples button:nth-child(%d)" % (i + 1))
        assert chromium.value("document.querySelector('#prompt').value") in texts


def test_beams_have_scores(demo, chromium, texts):
    chromium.type("#prompt", texts[0])
    chromium.click("[value=beams]")
    chromium.type("#num_beams", "4")
    chromium.type("#num_return_sequences", "3")
    beams, = generate(chromium)
    wanted = complete(demo, prompt=texts[0], num_beams=4, num_return_sequences=3, length_penalty=1)
    assert beams == [choice["text"] for choice in wanted]
    shown = chromium.value("[...document.querySelectorAll('.meta b')].map(b => b.textContent)")
    assert shown == [("%.3f" % choice["score"]).replace("-", "−") for choice in wanted]


def test_side_by_side(demo, chromium):
    chromium.click("[value=compare]")
    chromium.type("#seed", "7")
    columns = generate(chromium)
    assert [len(column) for column in columns] == [1, 3, 3]
    lefts = chromium.value("[...document.querySelectorAll('.run')].map(r => r.getBoundingClientRect().left)")
    tops = chromium.value("[...document.querySelectorAll('.run')].map(r => r.getBoundingClientRect().top)")
    assert lefts == sorted(set(lefts)) and len(set(tops)) == 1
    prompt = chromium.value("document.querySelector('#prompt').value")
    drawn = complete(demo, prompt=prompt, do_sample=True, temperature=0.8, top_p=0.95, n=3, seed=7)
    assert columns[2] == [choice["text"] for choice in drawn]


def test_decoder_prompt(demo, chromium):
    chromium.type("#decoder_prompt", "Python")
    (text,), = generate(chromium)
    prompt = chromium.value("document.querySelector('#prompt').value")
    assert text == complete(demo, prompt=prompt, num_beams=1, decoder_prompt="Python")[0]["text"]


def test_text_is_never_markup(demo, chromium):
    chromium.type("#prompt", "<img src=x onerror=alert(1)>")
    chromium.type("#decoder_prompt", "<b id=injected>")
    generate(chromium)
    assert chromium.value("document.querySelector('#injected') === null && document.querySelector('img') === null")


def test_errors_stand_at_their_field(demo, chromium):
    chromium.type("#max_tokens", "-3")
    chromium.click("#generate")
    chromium.wait(GENERATED)
    assert chromium.text("#error-max_tokens") and chromium.text(".run .error").endswith(chromium.text("#error-max_tokens"))
    assert chromium.value("document.querySelector('#max_tokens').getAttribute('aria-invalid')") == "true"
    assert chromium.value("document.activeElement.id") == "max_tokens"
    pop_error(chromium, 400)
    chromium.type("#max_tokens", "5")
    generate(chromium)
    assert chromium.text("#error-max_tokens") == ""
    assert chromium.value("document.querySelector('#max_tokens').hasAttribute('aria-invalid')") is False


def tokenized(url, text):
    return httpx.post(url + "/tokenize", json={"prompt": text}).json()


def counter_of(url, text):
    answer = tokenized(url, text)
    return f"{answer['count']:,} of {answer['max_model_len']:,} tokens"


def wait_for_count(chromium, expected):
    chromium.wait("document.querySelector('#count').textContent === %r" % expected)


def test_tokens_are_counted_once_nobody_types(demo, chromium, texts):
    wait_for_count(chromium, counter_of(demo, chromium.value("document.querySelector('#prompt').value")))
    for text in ("", "one", texts[1]):
        chromium.type("#prompt", text)
        wait_for_count(chromium, counter_of(demo, text))
    # Every key is an event, but the server is asked after a pause only.
    asked = len([url for url in chromium.urls if url.endswith("/tokenize")])
    chromium.value("for (let i = 0; i < 50; ++i) { document.querySelector('#prompt').value += ' a';"
               " document.querySelector('#form').dispatchEvent(new Event('input')); }")
    wait_for_count(chromium, counter_of(demo, texts[1] + " a" * 50))
    assert len([url for url in chromium.urls if url.endswith("/tokenize")]) == asked + 1


def test_long_texts_are_read_in_parts_or_cut(demo, chromium):
    limit = tokenized(demo, "x")["max_model_len"]
    chromium.click("#request summary")
    chromium.type("#prompt", "One sentence of many words. " * limit)
    chromium.wait("document.querySelector('#count').textContent.endsWith('more than %s: read in parts')" % f"{limit:,}")
    assert f"{limit:,} tokens" in chromium.text("#cut-note")
    assert '"split": "auto"' in chromium.text("#curl")
    chromium.type("#max_tokens", "2")
    (text,), = generate(chromium)
    assert text
    chromium.click("#cut")
    chromium.wait("document.querySelector('#count').textContent.endsWith('cut to %s')" % f"{limit:,}")
    assert "truncate_prompt_tokens" in chromium.text("#curl") and "split" not in chromium.text("#curl")
    (text,), = generate(chromium)
    assert text and chromium.text("#error-prompt") == ""


def test_menus_only_where_the_model_has_them(page, chromium):
    page("plain", "prompt")
    assert chromium.value("document.querySelector('#model-fields').hidden") is True
    chromium.click("#request summary")
    assert "src_lang" not in chromium.text("#curl")


def test_languages_have_menus(page, chromium):
    url = page("translator", "prompt")
    for menu in ("src_lang", "tgt_lang"):
        names = options_of(chromium, menu)
        assert len(names) == 53 and names[0] == "" and "fr_XX" in names
    assert chromium.value("document.querySelector('#task').closest('.field').hidden") is True
    assert chromium.value("document.querySelector('#src_lang').selectedOptions[0].textContent") == "en_XX"
    chromium.click("#request summary")
    choose(chromium, "src_lang", "fr_XX")
    choose(chromium, "tgt_lang", "de_DE")
    chromium.wait("document.querySelector('#curl').textContent.includes('\"src_lang\": \"fr_XX\"')")
    assert '"tgt_lang": "de_DE"' in chromium.text("#curl")
    chromium.type("#prompt", "Bonjour.")
    (text,), = generate(chromium)
    assert text == complete(url, prompt="Bonjour.", num_beams=1, src_lang="fr_XX", tgt_lang="de_DE")[0]["text"]


def test_tasks_have_a_menu(page, chromium):
    page("tasks", "prompt")
    assert options_of(chromium, "task") == ["", "summarization"]
    assert chromium.value("document.querySelector('#src_lang').closest('.field').hidden") is True
    chromium.click("#request summary")
    choose(chromium, "task", "summarization")
    chromium.wait("document.querySelector('#curl').textContent.includes('\"task\": \"summarization\"')")


def test_an_empty_text_is_an_error(demo, chromium):
    chromium.type("#prompt", "")
    chromium.click("#generate")
    chromium.wait(GENERATED)
    assert "empty" in chromium.text("#error-prompt")
    pop_error(chromium, 400)


def test_stop(demo, chromium):
    # Long enough not to have ended on the way from one click to the next.
    chromium.value("document.querySelector('#generate').addEventListener('click', () =>"
               " setTimeout(() => document.querySelector('#stop').click()), {once: true})")
    chromium.click("[value=sample]")
    chromium.type("#n", "64")
    chromium.type("#max_tokens", "300")
    generate(chromium)
    assert "stopped" in chromium.text(".facts")
    chromium.wait("fetch('/status').then(r => r.json()).then(s => s.prompts_under_way === 0)")
