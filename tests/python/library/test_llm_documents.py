"""Documents with markup, and glossaries: what LLM gives is what `tandem translate` writes."""
import asyncio
import os
import subprocess

import pytest

from conftest import GOLDENS, MODEL, ROOT
from tandem_infer import LLM, AsyncLLM, MissingFileError, RequestError

BINARY = os.environ.get("TANDEM_BINARY", str(ROOT / "build" / "bin" / "tandem"))
DEVANAGARI = "नमस्ते"
# By the endings of their files: a document, and what stays of it whatever the model says.
DOCUMENTS = {
    "html": ("<!doctype html>\n<h1 id=x>A heading</h1><p>On the 3. Oktober <b>some</b> text &amp; <a href='/x?a=1'>a link</a>. Another one.\n"
             "<pre>the code</pre><img alt='not this'>\n\n", ["<h1 id=x>", "<b>", "</b>", "href='/x?a=1'", "<pre>the code</pre>", "not this"]),
    "md": ("# A heading\n\n- one `code` item\n- *another* [link](https://example.com/a)\n\n```\nthe code\n```\n",
           ["# ", "\n- ", "`code`", "](https://example.com/a)", "```\nthe code\n```\n"]),
    "xml": (f"<?xml version='1.0'?>\r\n<a><b x='1'>A text.</b><c>Another, {DEVANAGARI}.</c><code>the code</code></a>\r\n",
            ["<?xml version='1.0'?>\r\n<a><b x='1'>", "</b><c>", "<code>the code</code></a>\r\n"]),
    "srt": ("1\n00:00:01,000 --> 00:00:02,000\nHello there.\nHow are you?\n\n2\n00:00:03,000 --> 00:00:04,000\n<i>Fine.</i>\n",
            ["1\n00:00:01,000 --> 00:00:02,000\n", "\n\n2\n00:00:03,000 --> 00:00:04,000\n<i>"]),
    "vtt": ("WEBVTT\n\nNOTE not this\n\n00:01.000 --> 00:02.000 align:start\nHello there.\n", ["WEBVTT\n\nNOTE not this\n\n00:01.000 --> 00:02.000 align:start\n"]),
    "txt": ("A heading\n\nOne text. Another text.\n", []),
}
FORMATS = {"html": "html", "md": "markdown", "xml": "xml", "srt": "srt", "vtt": "vtt", "txt": "text"}
TERMS = {"heading": "Überschrift", "text": "Text", "Hello": "Servus", "a link": "ein \"Verweis\""}
LIMITS = {"max_new_tokens": 6}


@pytest.fixture(scope="module")
def translator():
    with LLM(GOLDENS / "mbart50-tiny", dtype="float32") as model:
        yield model


def written_by_the_program(folder, *flags):
    """What `tandem translate` makes of the documents, by the endings of their files."""
    (folder / "in").mkdir()
    for ending, (document, _) in DOCUMENTS.items():
        (folder / "in" / f"file.{ending}").write_bytes(document.encode())
    done = subprocess.run([BINARY, "translate", str(GOLDENS / "mbart50-tiny"), str(folder / "in"), "--dtype", "float32", "--from", "de",
                           "--to", "fr_XX", "--max-new-tokens", "6", "--output-dir", str(folder / "out"), *flags],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {ending: (folder / "out" / f"file.fr_XX.{ending}").read_bytes().decode() for ending in DOCUMENTS}


@pytest.mark.parametrize("split", ["auto", "paragraphs"])
def test_formats(translator, tmp_path, split):
    expected = written_by_the_program(tmp_path, "--split", split)
    for ending, (document, kept) in DOCUMENTS.items():
        end = ""
        if ending == "txt":  # The program takes line ends off the end of a file, LLM shows the model all of a plain text.
            document, end = document.rstrip("\n"), "\n"
        got = translator.translate(document, "fr_XX", src_lang="de", format=FORMATS[ending], split=split, **LIMITS)
        assert got + end == expected[ending]
        assert got != document and all(part in got for part in kept), got


@pytest.mark.parametrize("kind", ["tsv", "csv"])
def test_glossaries(translator, tmp_path, kind):
    """As a dictionary, as pairs and as a file."""
    lines = {"tsv": [f"{source}\t{target}" for source, target in TERMS.items()],
             "csv": ['{},"{}"'.format(source, target.replace('"', '""')) for source, target in TERMS.items()]}
    file = tmp_path / f"terms.{kind}"
    file.write_text("\n".join(lines[kind]), encoding="utf-8")
    expected = written_by_the_program(tmp_path, "--glossary", str(file))
    for ending, (document, _) in DOCUMENTS.items():
        for glossary in (TERMS, list(TERMS.items()), [list(pair) for pair in TERMS.items()], file, str(file)):
            got = translator.translate(document, "fr_XX", src_lang="de", format=FORMATS[ending], glossary=glossary, **LIMITS)
            assert got == expected[ending]
        without = translator.translate(document, "fr_XX", src_lang="de", format=FORMATS[ending], **LIMITS)
        assert (without != got) == any(term in document for term in TERMS)
    assert "Überschrift</h1>" in expected["html"] and "Verweis" in expected["html"] and "Servus" in expected["srt"]


def test_a_list(translator):
    """Each document as by itself, in its place. Some have nothing to translate."""
    html = DOCUMENTS["html"][0]
    documents = ["<hr>", html, "", "<p>One. Two. Three.</p>", "<br>", html, "<!-- nothing -->\n"]
    got = translator.translate(documents, "de_DE", format="html", **LIMITS)
    assert got == [translator.translate(document, "de_DE", format="html", **LIMITS) for document in documents]
    assert [got[i] for i in (0, 2, 4, 6)] == ["<hr>", "", "<br>", "<!-- nothing -->\n"] and got[1] == got[5] != html
    assert translator.translate([], "de_DE", format="html") == []


class WatchedInbox:
    """Counts requests that have no answer yet."""

    def __init__(self, inbox):
        self._inbox = inbox
        self.sent = self.open = self.most = 0

    def submit(self, *arguments):
        self._inbox.submit(*arguments)
        self.sent, self.open = self.sent + 1, self.open + 1
        self.most = max(self.most, self.open)

    def poll(self, *arguments):
        news = self._inbox.poll(*arguments)
        self.open -= sum(one.last for one in news)
        return news

    def close(self):
        self._inbox.close()


def test_one_batch(translator, monkeypatch):
    """The parts of all documents are sent together, but not more of them than the window has room for."""
    documents = [f"<p>Number {i}. Another sentence of {i}.</p>" for i in range(20)]
    inboxes = []
    make = translator.engine.inbox
    monkeypatch.setattr(translator.engine, "inbox", lambda: inboxes.append(WatchedInbox(make())) or inboxes[-1])
    wide = translator.translate(documents, "de_DE", format="html", **LIMITS)
    monkeypatch.setattr(translator, "_window", 3)
    narrow = translator.translate(documents, "de_DE", format="html", **LIMITS)
    assert wide == narrow and [(inbox.sent, inbox.most) for inbox in inboxes] == [(40, 40), (40, 3)]


def test_a_bar(translator, capsys):
    translator.translate("<p>One. Two. Three.</p>", "de_DE", format="html", use_tqdm=True, **LIMITS)
    assert "3/3" in capsys.readouterr().err


def test_summaries(llm, tmp_path):
    page = ("<style>p{}</style><h1>Files</h1><p>A tool to find <i>duplicate</i> files on a disk.</p><script>x</script>"
            "<p>It compares sizes &amp; checksums.\n")
    short = llm.summarize(page, format="html", max_new_tokens=12)
    assert short == llm.summarize("Files\nA tool to find duplicate files on a disk.\nIt compares sizes & checksums.", max_new_tokens=12)
    assert llm.summarize([page, page], format="html", max_new_tokens=12) == [short, short] != [llm.summarize(page, max_new_tokens=12)] * 2
    (tmp_path / "page.html").write_text(page)
    program = subprocess.run([BINARY, "summarize", str(MODEL), str(tmp_path / "page.html"), "--dtype", "float32", "--max-new-tokens", "12"],
                             capture_output=True, text=True, check=True)
    assert program.stdout == short + "\n"


def fails(call, param, message):
    with pytest.raises(RequestError, match=message) as e:
        call()
    assert e.value.param == param, e.value
    return e.value


@pytest.mark.parametrize("format", ["docx", "HTML", "auto", ""])
def test_wrong_format(llm, translator, format):
    for call in (lambda: translator.translate("A text.", "de_DE", format=format), lambda: llm.summarize("A text.", format=format)):
        fails(call, "format", f"^format: \"{format}\" is not one of text, markdown, html, xml, srt, vtt$")


GLOSSARIES = [
    (7, "must be a dictionary, a list of pairs or a path, not int"), (b"a,b", "not bytes"), ({"a": 1}, r"entry 1: \('a', 1\) is no pair"),
    (["ab", "cd"], "entry 1: 'ab' is no pair"), ([("a", "b"), ("c", "d", "e")], "entry 2: .* is no pair"), ([("a", None)], "entry 1"),
    ({"a": ""}, "entry 1: a term is empty"), ([("a", "b"), ("a", "c")], "entry 2: \"a\" is there twice"),
    ({"a": "b\nc"}, "entry 1: a term has a control character"), ("/no/such/terms.tsv", "there is no file '/no/such/terms.tsv'"),
    (str(MODEL / "config.json"), "ends with neither .tsv nor .csv")]


@pytest.mark.parametrize("glossary, message", GLOSSARIES)
def test_wrong_glossary(translator, glossary, message):
    for format in ("text", "html"):
        e = fails(lambda: translator.translate("A text.", "de_DE", format=format, glossary=glossary), "glossary", "^glossary: .*" + message)
        assert isinstance(e, MissingFileError) == ("no file" in message)


def test_wrong_glossary_file(translator, tmp_path):
    (tmp_path / "terms.tsv").write_text("one\tOne\n\nno tab\n")
    (tmp_path / "folder.csv").mkdir()
    for name, message in (("terms.tsv", "line 3 is not two terms"), ("folder.csv", "is a directory")):
        fails(lambda: translator.translate("A text.", "de_DE", glossary=tmp_path / name), "glossary", "^glossary: .*" + message)


def test_which_document(translator):
    """Errors name the document, whichever of its parts is at fault."""
    good, long = "<p>One.</p><p>Two. Three.</p>", "<p>One. Two " + "and two " * 3000 + ".</p>"
    calls = [
        (lambda texts: translator.translate(texts, "de_DE", format="xml"), "<p>One.", "text", "not well-formed"),
        (lambda texts: translator.translate(texts, "de_DE", format="html"), 7, "text", "must be a text, not int"),
        (lambda texts: translator.translate(texts, "de_DE", format="html"), "a \ud800 text", "text", "UTF-8"),
        (lambda texts: translator.translate(texts, "de_DE", format="html", split="none", **LIMITS), long, "prompt", "tokens"),
        (lambda texts: translator.translate(texts, "de_DE", format="html", num_beams=0), None, "num_beams", "num_beams")]
    for call, wrong, param, message in calls:
        texts = [good] if wrong is None else [good, wrong, good]
        index = texts.index(wrong or good)
        assert fails(lambda: call(texts), param, ("prompt 1: .*" if wrong is not None else "") + message).index == index
        if wrong is not None:
            single = fails(lambda: call(wrong if isinstance(wrong, str) else [wrong]), param, message)
            assert not str(single).startswith("prompt 0") and single.index == 0
    for texts, kind in ((7, "int"), (b"<p>One.", "bytes"), ({"prompt": "One."}, "dict")):
        fails(lambda: translator.translate(texts, "de_DE", format="html"), "texts", f"must be a text or a list of texts, not {kind}")
    assert translator.translate(good, "de_DE", format="html", **LIMITS).startswith("<p>"), "the model stays usable"


def test_asyncio(translator, llm):
    async def work():
        model = AsyncLLM.of(translator)
        documents = [(DOCUMENTS[ending][0], FORMATS[ending]) for ending in DOCUMENTS] + [("<hr>", "html")]
        got = await asyncio.gather(*(model.translate(document, "de_DE", format=format, glossary=TERMS, **LIMITS)
                                     for document, format in documents))
        for glossary, format, param in (({"a": ""}, "html", "glossary"), (None, "docx", "format"), (None, "xml", "text")):
            with pytest.raises(RequestError) as e:
                await model.translate("<p>One.", "de_DE", format=format, glossary=glossary)
            assert e.value.param == param
        with pytest.raises(RequestError, match="^num_beams") as e:
            await model.translate("<p>One. Two.</p>", "de_DE", format="html", num_beams=0)
        long = "<p>" + " ".join(f"Sentence {i}." for i in range(3000))
        task = asyncio.ensure_future(model.translate(long, "de_DE", format="html", min_new_tokens=60, max_new_tokens=90, num_beams=4))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        expected = [translator.translate(document, "de_DE", format=format, glossary=TERMS, **LIMITS) for document, format in documents]
        assert got == expected
        page = "<p>A tool to find <i>duplicate</i> files."
        assert await AsyncLLM.of(llm).summarize(page, format="html", max_new_tokens=9) == llm.summarize(page, format="html", max_new_tokens=9)

    asyncio.run(asyncio.wait_for(work(), 120))
