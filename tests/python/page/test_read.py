"""The reader of images: files, dropped and pasted ones, a sample, what is no image."""
import base64

from conftest import GOLDENS
from page_fixtures import chromium, complete, page, pop_error, serve, sounds  # noqa: F401

FOLDER = GOLDENS.parent / "vision-tiny"
READ = "document.querySelectorAll('.reading[aria-busy=\"false\"]').length"


def readings(chromium):
    return chromium.value("[...document.querySelectorAll('.reading')].map(r => [r.querySelector('img').alt, r.querySelector('.output').textContent])")


def wanted(url, path, kind):
    image = "data:image/%s;base64,%s" % (kind, base64.b64encode(path.read_bytes()).decode())
    return complete(url, prompt={"multi_modal_data": {"image": image}}, max_tokens=None)[0]["text"]


def test_files(page, chromium):
    url = page("reader")
    chromium.choose_file("#image", FOLDER / "image_0.png", FOLDER / "image_1.jpg")
    chromium.wait(READ + " === 2")
    assert readings(chromium) == [["image_1.jpg", wanted(url, FOLDER / "image_1.jpg", "jpeg")],
                                  ["image_0.png", wanted(url, FOLDER / "image_0.png", "png")]]
    assert chromium.value("[...document.querySelectorAll('.reading img')].every(i => i.naturalWidth > 0)")


def test_an_image_that_is_dropped(page, chromium):
    page("reader")
    chromium.drop("#read-drop", FOLDER / "image_0.png")
    chromium.wait(READ + " === 1")
    assert readings(chromium)[0][0] == "image_0.png" and readings(chromium)[0][1]


def test_a_sample(page, chromium):
    page("reader")
    chromium.click("#read-sample")
    chromium.wait(READ + " === 1")
    assert readings(chromium)[0][0] == "line.png" and readings(chromium)[0][1]


def test_what_is_no_image(page, chromium, tmp_path):
    page("reader")
    (tmp_path / "text.png").write_text("This is no image.")
    chromium.choose_file("#image", tmp_path / "text.png")
    chromium.wait("document.querySelector('#error-image').textContent !== ''")
    assert chromium.text("#error-image").startswith("text.png: ")
    assert chromium.value("document.activeElement.id") == "image" and readings(chromium) == []
    chromium.errors[:] = [e for e in chromium.errors if "blob:" not in e]
    pop_error(chromium, 400)
    chromium.choose_file("#image", FOLDER / "image_0.png")
    chromium.wait(READ + " === 1")
    assert chromium.text("#error-image") == ""


def pages_read(chromium):
    return chromium.value("[...document.querySelectorAll('.reading')].map(r => [r.querySelector('.page-name').textContent, r.querySelector('.output').textContent])")


def test_a_document(page, chromium):
    """Each page in its place, with the text of its own request."""
    url = page("reader")
    document = GOLDENS.parent / "documents" / "two.pdf"
    data = "data:application/pdf;base64," + base64.b64encode(document.read_bytes()).decode()
    of_pages = [c["text"] for c in complete(url, prompt={"multi_modal_data": {"image": data}}, max_tokens=None)]
    assert len(of_pages) == 2
    chromium.choose_file("#image", document)
    chromium.wait(READ + " === 2")
    assert pages_read(chromium) == [["two.pdf, page 1", of_pages[0]], ["two.pdf, page 2", of_pages[1]]]
    chromium.click("#read .options summary")
    chromium.type("#read-pages", "2-")
    chromium.choose_file("#image", document)
    chromium.wait(READ + " === 3")
    assert pages_read(chromium)[0] == ["two.pdf, page 2", of_pages[1]]
    chromium.click("#request summary")
    chromium.wait("document.querySelector('#curl').textContent !== ''")
    assert "data:application/pdf;base64,…" in chromium.text("#curl") and '"pages": "2-"' in chromium.text("#curl")
    chromium.choose_file("#image", GOLDENS.parent / "documents" / "locked.pdf")
    chromium.wait("document.querySelector('#error-image').textContent !== ''")
    assert "encrypted" in chromium.text("#error-image") and len(pages_read(chromium)) == 3
    pop_error(chromium, 400)


def test_the_beginning_that_is_given(page, chromium):
    url = page("reader")
    chromium.click("#read .options summary")
    chromium.type("#read-max_tokens", "2")
    chromium.choose_file("#image", FOLDER / "image_0.png")
    chromium.wait(READ + " === 1")
    assert len(readings(chromium)[0][1]) < len(wanted(url, FOLDER / "image_0.png", "png"))
    chromium.click("#request summary")
    chromium.wait("document.querySelector('#curl').textContent !== ''")
    assert "data:image/png;base64,…" in chromium.text("#curl")
