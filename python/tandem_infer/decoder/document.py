"""Pages of PDF files by PDFium, as docs/images_input.md has them."""
from __future__ import annotations

import math
import struct
from typing import Any

import pypdfium2 as pdfium  # type: ignore[import-untyped]
import pypdfium2.raw as pdfium_c  # type: ignore[import-untyped]

from .serve import DONE, IMAGE, PIXELS, Answer, DecodeError, Source

# runtime/media/decoder_protocol.h and runtime/media/image/image.h have the same bounds.
_MOST_BYTES, _MOST_PIXELS, _MOST_SIDE = 64 << 20, 32 << 20, 65_500

# A page with a line of text and a field of a form: what is loaded when it is first used, is loaded.
_SMALL = b"""%PDF-1.4
1 0 obj<</Type/Catalog/Pages 2 0 R/AcroForm<</Fields[6 0 R]/DR<</Font<</F 5 0 R>>>>/DA(/F 9 Tf)>>>>endobj
2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj
3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 72 72]/Contents 4 0 R/Annots[6 0 R]/Resources<</Font<</F 5 0 R>>>>>>endobj
4 0 obj<</Length 32>>stream
BT /F 12 Tf 9 9 Td (a) Tj ET    
endstream endobj
5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj
6 0 obj<</Type/Annot/Subtype/Widget/FT/Tx/T(a)/V(b)/DA(/F 9 Tf)/Rect[9 40 60 60]/F 4/P 3 0 R>>endobj
trailer<</Root 1 0 R/Size 7>>
"""


def prepare() -> None:
    with _opened(_SMALL) as document:
        _draw(document, 1, 72)


def _opened(data: bytes) -> Any:
    try:
        return pdfium.PdfDocument(data)
    except pdfium.PdfiumError as error:
        if getattr(error, "err_code", None) == pdfium_c.FPDF_ERR_PASSWORD:
            raise DecodeError("is encrypted: it opens with a password only") from None
        raise DecodeError("is no PDF that can be read") from None


def _draw(document: Any, number: int, dpi: int) -> Any:
    """A bitmap of three bytes a pixel, red first, with what fields of forms say."""
    if not 1 <= number <= len(document):
        raise DecodeError(f"has no page {number}")
    try:
        document.init_forms()
        page = document[number - 1]
        width, height = (math.ceil(side * dpi / 72) for side in page.get_size())
        if width < 1 or height < 1:
            raise DecodeError(f"page {number} has no size")
        if width > _MOST_SIDE or height > _MOST_SIDE or width * height > _MOST_PIXELS:
            raise DecodeError(f"page {number} has more pixels at {dpi} dots per inch than are read", large=True)
        return page.render(scale=dpi / 72, rev_byteorder=True, prefer_bgrx=False)
    except pdfium.PdfiumError:
        raise DecodeError(f"page {number} cannot be drawn") from None


def decode(source: Source, page: int, dpi: int, answer: Answer) -> None:
    """page 0: how many there are."""
    if source.size > _MOST_BYTES:
        raise DecodeError(f"has more than {_MOST_BYTES >> 20} MiB, the most that a document may have", large=True)
    with _opened(source.read()) as document:
        if page == 0:
            if len(document) < 1:
                raise DecodeError("has no page")
            answer.frame(DONE, struct.pack("=d", len(document)))
            return
        drawn = _draw(document, page, dpi)
        row, stride = 3 * drawn.width, drawn.stride
        bytes_of_rows = memoryview(drawn.buffer).cast("B")
        pixels = b"".join(bytes(bytes_of_rows[y * stride:y * stride + row]) for y in range(drawn.height))
        answer.frame(IMAGE, struct.pack("=ii", drawn.width, drawn.height))
        answer.data(PIXELS, memoryview(pixels))
        answer.frame(DONE)
