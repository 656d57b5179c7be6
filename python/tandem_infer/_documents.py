"""Documents of one call whose markup stays in place: the texts to translate, and the documents again. No engine here."""
from __future__ import annotations

import os
from bisect import bisect_right
from itertools import accumulate
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple, Union

from ._errors import MissingFileError, RequestError, numbered
from ._library import DocumentSet

# {source: target}, pairs of them, or the path of a .tsv or .csv file.
Glossary = Union[Mapping[str, str], Iterable[Tuple[str, str]], str, "os.PathLike[str]"]

_WHOLE = ("none", "paragraphs")  # values of `split` that leave a paragraph whole


class Documents:
    """Reads the texts of a call as documents of one format. Takes the answers in the order of the texts."""

    def __init__(self, sources: Any, format: str, glossary: Optional[Glossary] = None, src_lang: Any = None,
                 split: Any = "auto") -> None:
        """sources: a text or some. Raises RequestError: "format", "glossary", or "text" with the index of the document."""
        self._set = DocumentSet(_rules(format, glossary, src_lang, split))
        self._counts = _add_all(self._set, sources)
        self._ends = list(accumulate(self._counts))
        self._answers = 0  # to texts of the next document
        self.written: List[str] = []
        self._write()

    def __len__(self) -> int:
        return len(self._counts)

    @property
    def total(self) -> int:
        """The number of texts of all documents."""
        return sum(self._counts)

    def texts(self) -> Iterator[str]:
        """All texts to translate, document by document."""
        for document, count in enumerate(self._counts):
            for number in range(count):
                yield self._set.text(document, number)

    def document_of(self, text: int) -> int:
        """The index of the document that a text is of."""
        return bisect_right(self._ends, text)

    def take(self, answer: str) -> None:
        """The translation of the next text. A document whose last text it is goes to `written`."""
        self._set.answer(len(self.written), self._answers, answer)
        self._answers += 1
        self._write()

    def _write(self) -> None:
        while len(self.written) < len(self) and self._answers == self._counts[len(self.written)]:
            self.written.append(self._set.write(len(self.written)))
            self._answers = 0


def plain_texts(sources: Any, format: str, split: Any = "auto") -> List[str]:
    """The texts of documents without markup. Raises RequestError: "format", or "text" with the index of the document."""
    documents = DocumentSet(_rules(format, None, None, split))
    return [documents.plain_text(index) for index, _ in enumerate(_add_all(documents, sources))]


def _add_all(documents: DocumentSet, sources: Any) -> List[int]:
    """Reads a text or some. Returns how many texts to translate each of them has."""
    if isinstance(sources, (bytes, bytearray, Mapping)) or not isinstance(sources, Iterable):
        raise RequestError(f"texts: must be a text or a list of texts, not {type(sources).__name__}", param="texts")
    given = [sources] if isinstance(sources, str) else list(sources)
    counts = []
    for index, source in enumerate(given):
        try:
            if not isinstance(source, str):
                raise RequestError(f"text: must be a text, not {type(source).__name__}", param="text")
            counts.append(documents.add(source))
        except RequestError as error:
            raise numbered(error, index, len(given) > 1) from None
    return counts


def _rules(format: Any, glossary: Any, src_lang: Any, split: Any) -> Dict[str, Any]:
    """As `tandem translate` has them. What is wrong with src_lang and split, the requests say."""
    if not isinstance(format, str):
        raise RequestError(f"format: must be a name such as \"html\", not {type(format).__name__}", param="format")
    rules: Dict[str, Any] = {"format": format, "sentences": split not in _WHOLE}
    if isinstance(src_lang, str):
        rules["language"] = src_lang
    if isinstance(glossary, (str, os.PathLike)):
        file = os.fsdecode(glossary)
        if not os.path.exists(file):
            raise MissingFileError(f"glossary: there is no file {file!r}", param="glossary")
        rules["glossary_file"] = file
    elif glossary is not None:
        rules["glossary"] = _entries(glossary)
    return rules


def _entries(glossary: Any) -> List[Tuple[str, str]]:
    if not isinstance(glossary, Iterable) or isinstance(glossary, (bytes, bytearray)):
        raise RequestError(f"glossary: must be a dictionary, a list of pairs or a path, not {type(glossary).__name__}",
                           param="glossary")
    entries = list(glossary.items() if isinstance(glossary, Mapping) else glossary)
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, (list, tuple)) or len(entry) != 2 or not all(isinstance(term, str) for term in entry):
            raise RequestError(f"glossary: entry {number}: {entry!r} is no pair of texts", param="glossary")
    return entries
