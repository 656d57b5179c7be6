"""read() of PDF files, and the child that draws their pages in a wheel."""
import asyncio
import os
import pathlib
import socket
import struct
import subprocess
import sys

import pytest

from conftest import ROOT
from tandem_infer import LLM, AsyncLLM, RequestError

DOCUMENTS = ROOT / "tests" / "data" / "documents"
TWO = DOCUMENTS / "two.pdf"
PROGRAM = ROOT / "python" / "tandem_infer" / "bin" / "tandem-page-decoder"
# A field of a form, whose value stands nowhere but in it.
FORM = b"""%PDF-1.4
1 0 obj<</Type/Catalog/Pages 2 0 R/AcroForm<</Fields[4 0 R]/DR<</Font<</F 5 0 R>>>>/DA(/F 30 Tf 0 g)>>>>endobj
2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj
3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 100]/Annots[4 0 R]/Resources<</Font<</F 5 0 R>>>>>>endobj
4 0 obj<</Type/Annot/Subtype/Widget/FT/Tx/T(name)/V(WWWW)/DA(/F 30 Tf 0 g)/Rect[10 20 190 80]/F 4/P 3 0 R>>endobj
5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj
trailer<</Root 1 0 R/Size 6>>
"""


@pytest.fixture(scope="module")
def reads():
    with LLM(ROOT / "tests" / "data" / "vision-tiny", dtype="float32") as llm:
        yield llm


def test_pages(reads):
    """As many answers as pages, the same as of their images, whatever stands beside them."""
    pages = reads.read(str(TWO), dpi=60, max_new_tokens=8)
    assert [page.page for page in pages] == [1, 2]
    assert pages[0].outputs[0].token_ids != [] and all(page.finished for page in pages)
    (second,) = reads.read(TWO, pages="2", dpi=60, max_new_tokens=8)
    assert second.page == 2 and second.outputs[0].token_ids == pages[1].outputs[0].token_ids
    image = ROOT / "tests" / "data" / "vision-tiny" / "image_0.png"
    mixed = reads.read([image, TWO.read_bytes(), image], dpi=60, max_new_tokens=8)
    assert [page.page for page in mixed] == [None, 1, 2, None]
    assert mixed[2].outputs[0].token_ids == second.outputs[0].token_ids
    assert mixed[0].outputs[0].token_ids == mixed[3].outputs[0].token_ids == reads.read(image, max_new_tokens=8).outputs[0].token_ids


def test_pages_for_asyncio(reads):
    async def main():
        return await AsyncLLM.of(reads).read_pages(TWO, dpi=60, max_new_tokens=8)

    expected = reads.read(TWO, dpi=60, max_new_tokens=8)
    assert [(p.page, p.outputs[0].token_ids) for p in asyncio.run(main())] == [(p.page, p.outputs[0].token_ids) for p in expected]


@pytest.mark.parametrize("file, options, words, param", [
    (TWO, {"pages": "3"}, "has 2 pages", "image"), (TWO, {"pages": "2-1"}, "no list of pages", "pages"),
    (TWO, {"pages": 2}, "no list of pages", "pages"), (TWO, {"dpi": 5}, "not from 20 to 600", "dpi"),
    (TWO, {"dpi": 60.5}, "no whole number", "dpi"), (DOCUMENTS / "locked.pdf", {}, "encrypted", "image"),
    (b"%PDF-1.4 and no more", {}, "no PDF", "image")])
def test_what_is_wrong(reads, file, options, words, param):
    with pytest.raises(RequestError, match=words) as raised:
        reads.read(file, **options)
    assert raised.value.param == param


class Child:
    """A program that draws pages, as `tandem` speaks with it."""

    def __init__(self, program, environment):
        self.socket, other = socket.socketpair()
        self.process = subprocess.Popen([str(program), "--serve", str(os.getpid())], stdin=other, env=environment)
        other.close()
        self.socket.settimeout(60)
        kind, hello = self.frame()
        self.locked = kind == 0 and struct.unpack("=II", hello[:8]) == (1, 1)

    def receive(self, count):
        out = b""
        while len(out) < count:
            got = self.socket.recv(count - len(out))
            assert got, "the program has ended"
            out += got
        return out

    def frame(self):
        kind, count = struct.unpack("=II", self.receive(8))
        return kind, self.receive(count)

    def run(self, path, page, dpi=60, job=3):
        """The last frame, the size and the pixels."""
        with open(path, "rb") as file:
            socket.send_fds(self.socket, [struct.pack("=IIQiid", 1, job, os.path.getsize(path), dpi, page, 0)], [file.fileno()])
        size, pixels = None, b""
        while True:
            kind, payload = self.frame()
            if kind in (5, 6):
                return (kind, payload), size, pixels
            if kind == 2:
                size = struct.unpack("=ii", payload)
            pixels += payload if kind == 3 else b""

    def close(self):
        self.socket.close()
        return self.process.wait(20)


@pytest.fixture(scope="module")
def child():
    pytest.importorskip("pypdfium2")
    child = Child(PROGRAM, {"TANDEM_PYTHON": sys.executable})
    if not child.locked:
        pytest.skip("no sandbox here")
    yield child
    assert child.close() == 0


def test_the_child_of_a_wheel(child, tmp_path):
    assert child.run(TWO, 0)[0] == (5, struct.pack("=d", 2.0))
    for page in (1, 2):
        (kind, _), size, pixels = child.run(TWO, page)
        assert kind == 5 and len(pixels) == 3 * size[0] * size[1] and min(pixels) < 100 and max(pixels) == 255
    for path, page, words in ((TWO, 3, b"has no page 3"), (DOCUMENTS / "locked.pdf", 0, b"encrypted"), (ROOT / "LICENSE", 0, b"no PDF")):
        (kind, text), _, _ = child.run(path, page)
        assert kind == 6 and words in text
    assert child.run(TWO, 1, job=2)[0][0] == 6, "of a kind that it does not read"
    path = tmp_path / "form.pdf"
    path.write_bytes(FORM)
    (kind, _), size, pixels = child.run(path, 1)
    assert kind == 5 and min(pixels) < 100, "the field's text is drawn"
    huge = tmp_path / "huge.pdf"
    huge.write_bytes(FORM.replace(b"200 100", b"14400 14400"))
    (kind, text), _, _ = child.run(huge, 1, dpi=600)
    assert kind == 6 and text[:4] == b"\1\0\0\0" and b"more pixels" in text


def test_both_programs_draw_the_same_page(child):
    """Of one size, and nearly the same: fonts and smoothing are their own."""
    other = Child(pathlib.Path(os.environ["TANDEM_LIBRARY"]).parent / "tandem-page-decoder", None)
    for page in (1, 2):
        _, mine, pixels = child.run(TWO, page, dpi=100)
        _, theirs, expected = other.run(TWO, page, dpi=100)
        assert mine == theirs
        assert sum(abs(a - b) for a, b in zip(pixels, expected)) / len(pixels) < 8
    assert other.close() == 0


def test_the_sandbox_of_the_child():
    pytest.importorskip("pypdfium2")
    assert subprocess.run([str(PROGRAM), "--self-test"], env={"TANDEM_PYTHON": sys.executable}).returncode in (0, 77)
