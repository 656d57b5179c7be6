"""DeepL's package, unmodified, against the real server: texts, markup, documents, glossaries."""
import time
import types

import deepl
import httpx
import pytest

from conftest import GOLDENS

KEY = "secret"


@pytest.fixture(scope="module")
def server_of_languages(tmp_path_factory):
    from conftest import Server
    s = Server(tmp_path_factory.mktemp("deepl"), "--api-key", KEY, model=GOLDENS / "mbart50-tiny")
    yield s
    assert s.stop() == 0, s.log()


@pytest.fixture(params=[name for name in ("Translator", "DeepLClient") if hasattr(deepl, name)])
def client(request, server_of_languages):
    return getattr(deepl, request.param)(KEY, server_url=server_of_languages.url)


def test_a_text_and_several(client):
    one = client.translate_text("Hello, wörld", source_lang="EN", target_lang="DE")
    assert isinstance(one.text, str) and one.text and str(one) == one.text
    assert one.detected_source_lang == "EN"
    two = client.translate_text(["Hello, wörld", "And more"], source_lang="en", target_lang="de")
    assert [str(text) for text in two][0] == one.text and len(two) == 2
    assert {result.detected_source_lang for result in two} == {"EN"}
    if hasattr(one, "billed_characters"):
        assert [result.billed_characters for result in two] == [12, 8]


def test_the_language_is_the_models_own(client, server_of_languages):
    """DeepL's codes mean the tokens that the model's names mean."""
    for code, name in (("FR", "fr_XX"), ("EN-GB", "en_XX"), ("EN-US", "en_XX"), ("PT-BR", "pt_XX"), ("PT-PT", "pt_XX"),
                       ("ZH", "zh_CN")):
        by_name = httpx.post(server_of_languages.url + "/v1/translate", headers={"Authorization": f"Bearer {KEY}"}, timeout=60,
                             json={"text": "Some text", "source_lang": "de_DE", "target_lang": name}).json()
        assert by_name["translations"][0]["detected_source_language"] == "de_DE"
        result = client.translate_text("Some text", source_lang="DE", target_lang=code)
        assert result.text == by_name["translations"][0]["text"] and result.detected_source_lang == "DE"


@pytest.mark.parametrize("options", [{"formality": "default"}, {"formality": "prefer_more"}, {"preserve_formatting": True},
                                     {"split_sentences": "nonewlines"}, {"split_sentences": "off"}, {"outline_detection": False},
                                     {"context": "what was said before"}])
def test_options_that_change_nothing(client, options):
    if options.get("split_sentences") == "off":
        options = {"split_sentences": deepl.SplitSentences.OFF}
    plain = client.translate_text("Some text", source_lang="EN", target_lang="FR")
    assert client.translate_text("Some text", source_lang="EN", target_lang="FR", **options).text == plain.text


def test_model_types(client):
    if not hasattr(deepl, "ModelType"):
        pytest.skip("an older package")
    for asked in deepl.ModelType:
        used = client.translate_text("Some text", target_lang="FR", model_type=asked).model_type_used
        assert used in ("quality_optimized", "latency_optimized")


@pytest.mark.parametrize("options, field", [({"formality": "more"}, "formality"), ({"formality": "less"}, "formality"),
                                            ({"tag_handling": "text"}, "tag_handling"), ({"ignore_tags": "a,b"}, "ignore_tags"),
                                            ({"glossary": "a-glossary"}, "glossary_id")])
def test_what_there_is_not_is_refused_by_name(client, options, field):
    with pytest.raises(deepl.DeepLException, match=f"Bad request, message: .*{field}"):
        client.translate_text("Some text", source_lang="EN", target_lang="FR", **options)


def test_unknown_languages(client):
    for pair in ({"target_lang": "XX"}, {"source_lang": "XX", "target_lang": "FR"}):
        with pytest.raises(deepl.DeepLException, match="Bad request, message: .*language"):
            client.translate_text("Some text", **pair)


def test_a_wrong_key(server_of_languages):
    for key in ("wrong", KEY + "x"):
        client = deepl.Translator(key, server_url=server_of_languages.url)
        with pytest.raises(deepl.AuthorizationException, match="API key"):
            client.translate_text("Some text", target_lang="FR")
        with pytest.raises(deepl.AuthorizationException):
            client.get_usage()


def test_usage(client):
    before = client.get_usage()
    assert before.character.valid and not before.any_limit_reached and not before.document.valid
    client.translate_text(["four", "wörd"], target_lang="FR")
    assert client.get_usage().character.count == before.character.count + 8
    assert "Characters: " in str(before)


def test_languages(client):
    sources = {language.code: language for language in client.get_source_languages()}
    targets = {language.code: language for language in client.get_target_languages()}
    assert {"EN", "DE", "FR", "PT", "ZH", "UK"} <= sources.keys()
    assert sources["DE"].name == "German"
    assert {"EN-GB", "EN-US", "PT-BR", "PT-PT", "DE", "FR"} <= targets.keys()
    assert not {"EN", "PT"} & targets.keys()  # which the package refuses as targets
    assert targets["DE"].supports_formality is False
    for language in targets.values():
        assert client.translate_text("text", source_lang="DE", target_lang=language).text is not None
    pairs = {(pair.source_lang, pair.target_lang) for pair in client.get_glossary_languages()}
    assert ("en", "de") in pairs and ("de", "fr") in pairs and ("en", "en") not in pairs


def test_markup_stays(client):
    source = '<p class="x">The <b>first</b> text.</p>\n<pre>code</pre><p translate="no">This stays.</p>'
    for handling in ("html", "xml"):
        text = client.translate_text(source, source_lang="EN", target_lang="DE", tag_handling=handling).text
        for part in ('<p class="x">', "<b>", "</b>", "<pre>code</pre>", '<p translate="no">This stays.</p>'):
            assert text.count(part) == 1, text
    kept = client.translate_text("<x>one</x> <y>two</y>", source_lang="EN", target_lang="DE", tag_handling="xml", ignore_tags=["x"]).text
    assert "<x>one</x>" in kept and "<y>" in kept
    with pytest.raises(deepl.DeepLException, match="not well-formed"):
        client.translate_text("<a>", source_lang="EN", target_lang="DE", tag_handling="xml")


DOCUMENTS = {"in.txt": "One text.\n\n  Two texts.\n", "in.html": "<html><body><h1>A title</h1><p>One <i>word</i> more.</body></html>",
             "in.srt": "1\n00:00:01,000 --> 00:00:02,000\nHello there.\n"}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents(client, tmp_path, name, monkeypatch):
    # (The package waits for five seconds before it asks again.)
    monkeypatch.setattr(deepl.translator, "time", types.SimpleNamespace(time=time.time, sleep=lambda seconds: time.sleep(min(seconds, 0.2))))
    (tmp_path / name).write_text(DOCUMENTS[name])
    out = tmp_path / ("out" + name[2:])
    status = client.translate_document_from_filepath(tmp_path / name, out, source_lang="EN", target_lang="FR")
    assert status.done and status.billed_characters == len(DOCUMENTS[name])
    text = out.read_text()
    if name == "in.html":
        assert text.startswith("<html><body><h1>") and text.count("<i>") == 1 and text.endswith("</body></html>")
    elif name == "in.srt":
        assert text.startswith("1\n00:00:01,000 --> 00:00:02,000\n") and text.endswith("\n")
    else:
        assert text == client.translate_text(DOCUMENTS[name], source_lang="EN", target_lang="FR").text


def test_documents_that_are_refused(client, tmp_path):
    (tmp_path / "in.docx").write_bytes(b"PK")
    with pytest.raises(deepl.DeepLException, match="in.docx.*[.]html"):
        client.translate_document_from_filepath(tmp_path / "in.docx", tmp_path / "out.docx", target_lang="FR")
    with pytest.raises(deepl.DeepLException, match="no such document"):
        client.translate_document_get_status(deepl.DocumentHandle("id", "key"))


def test_glossaries(client):
    made = client.create_glossary("mine", "EN", "DE", {"house": "Hausboot", "car": "Wagen"})
    assert made.ready and made.entry_count == 2 and made.name == "mine"
    assert client.get_glossary(made.glossary_id).source_lang.lower() == "en"
    assert made.glossary_id in [one.glossary_id for one in client.list_glossaries()]
    assert client.get_glossary_entries(made) == {"house": "Hausboot", "car": "Wagen"}
    text = client.translate_text("I see a house here.", source_lang="EN", target_lang="DE", glossary=made).text
    assert text.count("Hausboot") == 1, text
    with pytest.raises(deepl.DeepLException, match="glossary_id"):
        client.translate_text("house", source_lang="EN", target_lang="FR", glossary=made.glossary_id)
    client.delete_glossary(made)
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_glossary(made.glossary_id)


def test_glossaries_of_several_pairs(server_of_languages):
    if not hasattr(deepl, "DeepLClient"):
        pytest.skip("an older package")
    from deepl.api_data import MultilingualGlossaryDictionaryEntries as Entries
    client = deepl.DeepLClient(KEY, server_url=server_of_languages.url)
    pairs = [Entries("en", target, {"a": target}) for target in ("de", "fr")]
    made = client.create_multilingual_glossary("two", pairs)
    assert {(one.source_lang.lower(), one.target_lang.lower(), one.entry_count) for one in made.dictionaries} == {("en", "de", 1), ("en", "fr", 1)}
    entries = client.get_multilingual_glossary_entries(made, "en", "fr")
    assert entries.dictionaries[0].entries == "a\tfr"  # the package leaves them so
    client.replace_multilingual_glossary_dictionary(made.glossary_id, Entries("en", "de", {"b": "x"}))
    client.update_multilingual_glossary_dictionary(made.glossary_id, Entries("en", "de", {"c": "y"}))
    entries = client.get_multilingual_glossary_entries(made, "en", "de").dictionaries[0].entries
    assert sorted(entries.split("\n")) == ["b\tx", "c\ty"]
    assert client.update_multilingual_glossary_name(made.glossary_id, "new").name == "new"
    client.delete_multilingual_glossary_dictionary(made.glossary_id, source_lang="en", target_lang="fr")
    assert len(client.get_multilingual_glossary(made.glossary_id).dictionaries) == 1
    client.delete_multilingual_glossary(made.glossary_id)
    assert made.glossary_id not in [one.glossary_id for one in client.list_multilingual_glossaries()]


def test_forms(server_of_languages, client):
    """As curl and older packages send them."""
    answer = httpx.post(server_of_languages.url + "/v2/translate", headers={"Authorization": f"DeepL-Auth-Key {KEY}"}, timeout=60,
                        data={"text": ["Hello, wörld", "And more"], "source_lang": "EN", "target_lang": "DE"})
    assert answer.status_code == 200, answer.text
    texts = [result.text for result in client.translate_text(["Hello, wörld", "And more"], source_lang="EN", target_lang="DE")]
    assert [one["text"] for one in answer.json()["translations"]] == texts
