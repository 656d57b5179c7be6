"""PDF files: which pages there are, and the image of one."""
from __future__ import annotations

import os
from typing import Any, Dict, List, Optional

from ._library import page_image, pdf_pages

_MOST_BEFORE = 1024  # bytes that may stand before a PDF's first line
DPI = 150


class PdfFile:
    """A PDF file, of a path or of bytes. Its pages are drawn when they are asked for."""

    def __init__(self, file: Any, dpi: int) -> None:
        self._content = None if isinstance(file, (str, os.PathLike)) else bytes(file)
        self._request: Dict[str, Any] = {} if self._content is not None else {"path": os.fspath(file)}
        self._dpi = dpi

    def pages(self, wanted: Optional[str]) -> List[int]:
        """Numbers from 1. wanted: "1-3,7,9-"; None: all."""
        return pdf_pages({**self._request, **({"pages": wanted} if wanted is not None else {})}, self._content)

    def image(self, page: int) -> bytes:
        """A PNG file."""
        return page_image({**self._request, "page": page, "dpi": self._dpi}, self._content)


def is_pdf(image: Any) -> bool:
    """Whether it is the path or the bytes of a PDF file."""
    if isinstance(image, (bytes, bytearray, memoryview)):
        return b"%PDF-" in bytes(image[:_MOST_BEFORE])
    if not isinstance(image, (str, os.PathLike)) or not os.path.isfile(image):
        return False
    with open(image, "rb") as file:
        return b"%PDF-" in file.read(_MOST_BEFORE)
