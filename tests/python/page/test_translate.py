"""The translator: languages by name, detection, swapping, documents, and what a model of one pair shows."""
import pytest

from page_fixtures import choose, chromium, complete, options_of, page, pop_error, press_button, saved, serve, sounds  # noqa: F401

ENDED = ("document.querySelector('#translate-output').getAttribute('aria-busy') === 'false' &&"
         "(document.querySelector('#translate-facts').textContent || document.querySelector('#translate [aria-invalid]') ||"
         "document.querySelector('#translate .failure').textContent) !== ''")
FRENCH = "Le marché ouvre à sept heures le samedi. On y trouve du pain et des fromages."


def output(chromium):
    return chromium.text("#translate-output")


def translate(chromium):
    chromium.click("#translate-go")
    chromium.wait(ENDED)
    return output(chromium)


def wanted(url, text, source, target):
    return complete(url, prompt=text, src_lang=source, tgt_lang=target, split="auto", max_tokens=None)[0]["text"]


def test_it_is_what_a_model_with_languages_shows(page, chromium):
    page("translator")
    assert chromium.value("[...document.querySelectorAll('[role=tab]')].map(t => t.textContent)") == ["Translate", "Prompt"]
    names = chromium.value("[...document.querySelectorAll('#translate-from option')].map(o => o.textContent)")
    assert len(names) == 53 and names[0] == "Detect language" and {"English", "French", "German", "Japanese"} <= set(names)
    assert len(options_of(chromium, "translate-to")) == 52


def test_a_language_that_is_found_out(page, chromium):
    url = page("translator")
    chromium.type("#translate-source", FRENCH)
    chromium.wait("document.querySelector('#translate-detected').textContent === 'Detected: French'")
    choose(chromium, "translate-to", "de")
    assert translate(chromium) == wanted(url, FRENCH, "fr_XX", "de_DE") != ""
    assert chromium.value("document.querySelector('#translate-output').lang") == "de"


def test_a_language_that_is_chosen(page, chromium):
    url = page("translator")
    chromium.type("#translate-source", FRENCH)
    choose(chromium, "translate-from", "es")
    choose(chromium, "translate-to", "ja")
    assert translate(chromium) == wanted(url, FRENCH, "es_XX", "ja_XX")
    assert chromium.text("#translate-detected") == ""
    assert not any(target.endswith("/v1/translate") for target in chromium.urls)


def test_a_language_that_nobody_recognises(page, chromium):
    page("translator")
    chromium.type("#translate-source", "12345")
    chromium.click("#translate-go")
    chromium.wait("document.querySelector('#error-translate-from').textContent !== ''")
    assert "choose" in chromium.text("#error-translate-from")
    assert chromium.value("document.activeElement.id") == "translate-from"
    choose(chromium, "translate-from", "en")
    assert translate(chromium)
    assert chromium.text("#error-translate-from") == ""


def test_swapping(page, chromium):
    url = page("translator")
    chromium.type("#translate-source", FRENCH)
    choose(chromium, "translate-to", "de")
    german = translate(chromium)
    chromium.click("#translate-swap")
    assert chromium.value("document.querySelector('#translate-from').value") == "de"
    assert chromium.value("document.querySelector('#translate-to').value") == "fr"
    assert chromium.value("document.querySelector('#translate-source').value") == german
    assert output(chromium) == ""
    assert translate(chromium) == wanted(url, german, "de_DE", "fr_XX")
    chromium.click("#translate-swap")
    assert chromium.value("document.querySelector('#translate-to').value") == "de"


def test_there_is_nothing_to_swap_with(page, chromium):
    page("translator")
    chromium.click("#translate-swap")
    assert "choose a language" in chromium.text("#error-translate-from")


def test_samples_are_in_the_models_languages(page, chromium):
    page("translator")
    names = chromium.value("[...document.querySelectorAll('#translate .samples button')].map(b => b.textContent)")
    assert len(names) == 3 and "English" in names
    press_button(chromium, "#translate .samples", "English")
    chromium.wait(ENDED)
    assert output(chromium) and chromium.text("#translate-detected") == "Detected: English"


def test_a_long_text_has_no_limit(page, chromium):
    """More sentences than the model has positions for, and more tokens than any default."""
    url = page("translator")
    text = "\n\n".join("  Line %d of the text goes on for a while, and then it ends. Here is another." % i for i in range(40))
    chromium.type("#translate-source", text)
    choose(chromium, "translate-from", "en")
    choose(chromium, "translate-to", "fr")
    got = translate(chromium)
    assert got == wanted(url, text, "en_XX", "fr_XX")
    assert [line == "" for line in got.split("\n")] == [line == "" for line in text.split("\n")]
    assert int(chromium.text("#translate-facts").split(" ")[0].replace(",", "")) > 400


def test_a_text_file_that_is_dropped(page, chromium, tmp_path):
    url = page("translator")
    text = "Grüße\n\n    Der Zug fährt um zehn.\n\nUnd noch eine Zeile.\n"
    (tmp_path / "notes.txt").write_text(text)
    chromium.drop("#translate-pair", tmp_path / "notes.txt")
    chromium.wait("document.querySelector('#translate-source').value !== ''")
    assert chromium.value("document.querySelector('#translate-source').value") == text
    choose(chromium, "translate-to", "fr")
    assert translate(chromium) == wanted(url, text, "de_DE", "fr_XX")
    folder = tmp_path / "saved"
    folder.mkdir()
    chromium.save_to(folder)
    press_button(chromium, "#translate .answer", "Save")
    assert saved(chromium, folder / "notes.fr.txt") == output(chromium)


@pytest.mark.parametrize("name, data, words", [
    ("picture.bin", b"\x00\xff\xfe", "picture.bin cannot be read here, only text files: .txt, .md"),
    ("broken.txt", b"Gr\xfc\xdfe", "broken.txt is not a text in UTF-8"),
])
def test_files_that_are_no_texts(page, chromium, tmp_path, name, data, words):
    page("translator")
    (tmp_path / name).write_bytes(data)
    chromium.drop("#translate-pair", tmp_path / name)
    chromium.wait("document.querySelector('#error-translate-source').textContent !== ''")
    assert chromium.text("#error-translate-source").startswith(words)


def test_a_document_that_the_server_reads(page, chromium, tmp_path):
    """What the page does with /translate_file; a script of the test's stands for that route."""
    page("translator")
    (tmp_path / "report.docx").write_bytes(b"PK a document")
    with chromium.script("""
      const real = fetch, json = (body) => new Response(JSON.stringify(body), {headers: {'Content-Type': 'application/json'}});
      window.fetch = async (url, options = {}) => {
        if (url.endsWith('/frontend/settings')) return json({filesTranslation: true, supportedFilesFormat: ['.docx']});
        if (url.endsWith('/translate_file')) { window.sent = options.body; return json({translatedFileUrl: 'http://elsewhere:1/download_file/7.docx'}); }
        if (url.endsWith('/download_file/7.docx')) return new Response('translated');
        return real(url, options);
      };"""):
        chromium.open(chromium.value("location.href").split("#")[0] + "?documents")
        chromium.wait("!document.querySelector('#starting')")
    chromium.drop("#translate-pair", tmp_path / "report.docx")
    chromium.wait("document.querySelector('#translate .document').hidden === false")
    assert "report.docx" in chromium.text("#translate .document")
    choose(chromium, "translate-to", "fr")
    translate(chromium)
    assert chromium.text("#translate .failure") == ""
    sent = chromium.value("[window.sent.get('source'), window.sent.get('target'), window.sent.get('file').name]")
    assert sent == ["auto", "fr", "report.docx"]
    assert "report.fr.docx" in output(chromium)


def test_a_model_of_one_pair(page, chromium):
    url = page("pair")
    assert chromium.value("[...document.querySelector('#translate-from').options].map(o => o.textContent)") == ["English"]
    chromium.type("#translate-source", "A library that reads files.")
    targets = options_of(chromium, "translate-to")
    assert len(targets) >= 1
    got = translate(chromium)
    more = {"tgt_lang": targets[0]} if len(targets) > 1 else {}
    if len(targets) > 1:
        choose(chromium, "translate-to", targets[0])
        got = translate(chromium)
    assert got == complete(url, prompt="A library that reads files.", split="auto", max_tokens=None, **more)[0]["text"]


def test_errors_stand_at_their_field(page, chromium):
    page("translator")
    chromium.click("#translate-go")
    assert "type or paste" in chromium.text("#error-translate-source")
    assert chromium.value("document.activeElement.id") == "translate-source"
    chromium.type("#translate-source", FRENCH)
    chromium.value("document.querySelector('#translate .options').open = true")
    chromium.type("#translate-num_beams", "0")
    chromium.click("#translate-go")
    chromium.wait("document.querySelector('#error-translate-num_beams').textContent !== ''")
    assert chromium.value("document.activeElement.id") == "translate-num_beams"
    pop_error(chromium, 400)


def test_a_server_that_goes_away(page, chromium):
    page("translator")
    chromium.type("#translate-source", FRENCH)
    choose(chromium, "translate-from", "fr")
    chromium.value("window.fetch = async () => { throw new TypeError('gone'); }")
    chromium.click("#translate-go")
    chromium.wait("document.querySelector('#translate .failure').textContent !== ''")
    assert "cannot be reached" in chromium.text("#translate .failure")
    assert chromium.value("document.querySelector('#translate-go').disabled") is False


def test_stop(page, chromium):
    page("translator")
    chromium.type("#translate-source", "This sentence is one of very many. " * 400)
    choose(chromium, "translate-from", "en")
    chromium.click("#translate-go")
    chromium.wait("document.querySelector('#translate-output').textContent.length > 20")  # it streams
    assert chromium.value("document.querySelector('#translate-stop').disabled") is False
    chromium.click("#translate-stop")
    chromium.wait(ENDED)
    assert "stopped" in chromium.text("#translate-facts")
    chromium.wait("fetch('/status').then(r => r.json()).then(s => s.prompts_under_way === 0)")


def test_the_curl_command_works_as_shown(page, chromium):
    page("translator")
    chromium.click("#request summary")
    chromium.type("#translate-source", "It's one.")
    choose(chromium, "translate-from", "en")
    choose(chromium, "translate-to", "fr")
    chromium.wait("document.querySelector('#curl').textContent.includes('\"tgt_lang\": \"fr\"')")
    assert "'\\''" in chromium.text("#curl") and '"split": "auto"' in chromium.text("#curl")


def test_tasks_are_languages_too(page, chromium):
    """T5 has pairs as tasks; the golden has none, so the page is told of some."""
    url = page("tasks")
    with chromium.script("""
      const real = fetch;
      window.fetch = async (url, options) => {
        const response = await real(url, options);
        if (!url.endsWith('/v1/models')) return response;
        const body = await response.json();
        body.data[0].tasks = ['summarization', 'translation_en_to_de', 'translation_en_to_fr'];
        return new Response(JSON.stringify(body));
      };"""):
        chromium.open(url + "/?tasks")
        chromium.wait("!document.querySelector('#starting')")
    assert options_of(chromium, "translate-from") == ["en"] and options_of(chromium, "translate-to") == ["de", "fr"]
    assert chromium.value("document.querySelector('#translate-swap').hidden") is True
    chromium.click("#request summary")
    choose(chromium, "translate-to", "fr")
    chromium.wait("document.querySelector('#curl').textContent.includes('\"task\": \"translation_en_to_fr\"')")


def test_the_target_gives_way_to_the_language_of_the_text(page, chromium):
    page("translator")
    assert chromium.value("document.querySelector('#translate-to').value") == "de"
    chromium.type("#translate-source", "Der Nachtzug fährt um zehn nach neun ab. Bitte bewahren Sie Ihre Fahrkarte auf.")
    chromium.wait("document.querySelector('#translate-detected').textContent === 'Detected: German'")
    assert chromium.value("document.querySelector('#translate-to').value") == "en"
    choose(chromium, "translate-to", "fr")
    chromium.type("#translate-source", FRENCH)
    chromium.wait("document.querySelector('#translate-detected').textContent === 'Detected: French'")
    assert chromium.value("document.querySelector('#translate-to').value") == "fr", "it was chosen"


def test_a_document_that_the_server_refuses(page, chromium, tmp_path):
    url = page("translator")
    (tmp_path / "report.docx").write_bytes(b"PK a document")
    with chromium.script("""
      const real = fetch, json = (body, status) => new Response(JSON.stringify(body), {status, headers: {'Content-Type': 'application/json'}});
      window.fetch = async (url, options = {}) => {
        if (url.endsWith('/frontend/settings')) return json({filesTranslation: true, supportedFilesFormat: ['.docx']}, 200);
        if (url.endsWith('/translate_file')) return json({error: 'file: is damaged'}, 400);
        return real(url, options);
      };"""):
        chromium.open(url + "/?refused")
        chromium.wait("!document.querySelector('#starting')")
    chromium.drop("#translate-pair", tmp_path / "report.docx")
    chromium.wait("document.querySelector('#translate .document').hidden === false")
    translate(chromium)
    assert chromium.text("#translate .failure") == "file: is damaged"
    press_button(chromium, "#translate", "Clear")
    assert chromium.value("document.querySelector('#translate-source').hidden") is False
    assert chromium.text("#translate .failure") == ""
