"""LibreTranslate's package, unmodified, and its page's requests, against the real server."""
import httpx
import pytest
from libretranslatepy import LibreTranslateAPI

from conftest import GOLDENS

KEY = "secret"
GERMAN = "Das Wetter ist heute schön, und wir gehen in den Park."


@pytest.fixture(scope="module")
def server_of_languages(tmp_path_factory):
    from conftest import Server
    s = Server(tmp_path_factory.mktemp("libretranslate"), "--api-key", KEY, model=GOLDENS / "mbart50-tiny")
    yield s
    assert s.stop() == 0, s.log()


@pytest.fixture
def client(server_of_languages):
    return LibreTranslateAPI(server_of_languages.url, api_key=KEY)


def ours(server, text, source, target):
    answer = httpx.post(server.url + "/v1/translate", headers={"Authorization": f"Bearer {KEY}"}, timeout=60,
                        json={"text": text, "source_lang": source, "target_lang": target})
    return answer.json()["translations"][0]["text"]


def test_a_text(client, server_of_languages):
    assert client.translate(GERMAN, "de", "fr") == ours(server_of_languages, GERMAN, "de_DE", "fr_XX")
    assert client.translate(GERMAN, "auto", "fr") == ours(server_of_languages, GERMAN, "de_DE", "fr_XX")


def test_languages_and_detection(client):
    languages = {one["code"]: one for one in client.languages()}
    assert languages["de"]["name"] == "German" and "fr" in languages["de"]["targets"]
    found = client.detect(GERMAN)
    assert found[0]["language"] == "de" and 0 < found[0]["confidence"] <= 100


def test_every_language_is_one_of_the_models(client, server_of_languages):
    for one in client.languages():
        assert isinstance(client.translate("Some text", "en", one["code"]), str)


def test_a_list_with_alternatives(server_of_languages):
    body = {"q": [GERMAN, "Guten Tag"], "source": "de", "target": "en", "alternatives": 2, "api_key": KEY}
    answer = httpx.post(server_of_languages.url + "/translate", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    assert [len(texts) for texts in answer.json()["alternatives"]] == [2, 2]
    assert len(answer.json()["translatedText"]) == 2


def test_errors(client, server_of_languages):
    url = server_of_languages.url
    wrong = httpx.post(url + "/translate", json={"q": "a", "source": "en", "target": "de", "api_key": "no"})
    assert wrong.status_code == 403 and "API key" in wrong.json()["error"]
    bad = httpx.post(url + "/translate", json={"q": "a", "source": "en", "target": "xx", "api_key": KEY})
    assert bad.status_code == 400 and "target" in bad.json()["error"]
    assert httpx.get(url + "/frontend/settings").json()["keyRequired"] is True


def test_a_long_text_keeps_its_layout(client):
    text = "\n\n".join(f"  {i}. Das ist ein Satz. Und noch einer." for i in range(60))
    lines = client.translate(text, "de", "fr").split("\n")
    assert len(lines) == 119 and all(line.startswith("  ") for line in lines[::2]) and not any(lines[1::2])


def test_html_keeps_its_tags(server_of_languages):
    body = {"q": "<p>Das <b>Wetter</b> ist schön.</p><code>x</code>", "source": "de", "target": "fr", "format": "html", "api_key": KEY}
    text = httpx.post(server_of_languages.url + "/translate", json=body, timeout=60).json()["translatedText"]
    for part in ("<p>", "<b>", "</b>", "</p><code>x</code>"):
        assert text.count(part) == 1, text


def test_a_file(client, server_of_languages, tmp_path):
    (tmp_path / "a.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\nGuten Tag.\n")
    if hasattr(client, "translate_file"):
        url = client.translate_file(str(tmp_path / "a.srt"), "de", "fr")
    else:
        with (tmp_path / "a.srt").open("rb") as file:
            url = httpx.post(server_of_languages.url + "/translate_file", files={"file": file}, timeout=60,
                             data={"source": "de", "target": "fr", "api_key": KEY}).json()["translatedFileUrl"]
    answer = httpx.get(url)
    assert answer.status_code == 200 and answer.text.startswith("1\n00:00:01,000 --> 00:00:02,000\n")
    assert ".srt" in httpx.get(server_of_languages.url + "/frontend/settings").json()["supportedFilesFormat"]
