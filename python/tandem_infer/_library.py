"""libtandem.so (python/native/library.h) by ctypes. Its functions run without the interpreter's lock."""
from __future__ import annotations

import ctypes
import json
import os
import pathlib
import sys
import threading
import weakref
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray

from ._errors import EngineError, RequestError, error_of

_VERSION = 5
_CAPACITY = 128
_PACKAGE = pathlib.Path(__file__).parent


class _News(ctypes.Structure):
    _fields_ = [("number", ctypes.c_uint64), ("last", ctypes.c_int32), ("json", ctypes.c_void_p), ("bytes", ctypes.c_size_t),
                ("values", ctypes.c_void_p), ("num_values", ctypes.c_size_t),
                ("ids", ctypes.c_void_p), ("num_ids", ctypes.c_size_t)]


class _Array(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_char_p), ("data", ctypes.c_void_p),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("rank", ctypes.c_int32)]


# News for numpy, which reads many of them at once.
_NEWS = np.dtype({"names": [name for name, *_ in _News._fields_], "formats": ["u8", "i4", "u8", "u8", "u8", "u8", "u8", "u8"],
                  "offsets": [getattr(_News, name).offset for name, *_ in _News._fields_], "itemsize": ctypes.sizeof(_News)})


class News(NamedTuple):
    """Of a request: a chunk of its stream, or (last) its end. values: an embedding."""
    number: int
    last: bool
    body: Dict[str, Any]
    values: Optional[NDArray[np.float32]]


def library_path() -> str:
    """TANDEM_LIBRARY, or the package's own."""
    return os.environ.get("TANDEM_LIBRARY") or str(_PACKAGE / "lib" / "libtandem.so")


def program_path() -> pathlib.Path:
    """The program `tandem` of this package."""
    return _PACKAGE / "bin" / "tandem"


def prepare_environment() -> None:
    """Where the program and the library find the decoders of files, what runs them, and certificates of the hub."""
    if "TANDEM_LIBRARY" in os.environ:
        programs = pathlib.Path(os.environ["TANDEM_LIBRARY"]).parent
    else:
        programs = _PACKAGE / "bin"
        os.environ.setdefault("TANDEM_PYTHON", sys.executable)
    for variable, decoder in (("TANDEM_DECODER", programs / "tandem-decoder"), ("TANDEM_PAGE_DECODER", programs / "tandem-page-decoder")):
        if os.access(decoder, os.X_OK):
            os.environ.setdefault(variable, str(decoder))
    # The library of this package looks where Debian has them.
    named = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
    if not any(name in os.environ for name in named) and not os.path.exists("/etc/ssl/certs/ca-certificates.crt"):
        try:
            import certifi
        except ImportError:
            return
        os.environ["SSL_CERT_FILE"] = certifi.where()


_lock = threading.Lock()
_loaded: Optional[ctypes.CDLL] = None


def library() -> ctypes.CDLL:
    global _loaded
    with _lock:
        if _loaded is None:
            _loaded = _load()
        return _loaded


def _load() -> ctypes.CDLL:
    prepare_environment()
    path = library_path()
    try:
        lib = ctypes.CDLL(path)
    except OSError as e:
        raise ImportError(f"{path} cannot be loaded: {e}; TANDEM_LIBRARY names another build's libtandem.so") from e
    pointer, size, text = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
    for name, result, arguments in [
            ("library_version", ctypes.c_int, []),
            ("version", text, []),
            ("free", None, [pointer]),
            ("open", pointer, [text, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(pointer)]),
            ("close", None, [pointer]),
            ("facts", pointer, [pointer]),
            ("tokenize", pointer, [pointer, text]),
            ("inbox_open", pointer, [pointer]),
            ("inbox_close", None, [pointer]),
            ("inbox_fd", ctypes.c_int, [pointer]),
            ("submit", pointer, [pointer, ctypes.c_uint64, text, size, text, size]),
            ("cancel", None, [pointer, ctypes.c_uint64]),
            ("poll", size, [pointer, ctypes.c_int, size, ctypes.POINTER(_News), size]),
            ("pdf_pages", pointer, [text, text, size]),
            ("page_image", pointer, [text, text, size, ctypes.POINTER(size), ctypes.POINTER(pointer)]),
            ("documents_open", pointer, [text, ctypes.POINTER(pointer)]),
            ("documents_close", None, [pointer]),
            ("documents_add", pointer, [pointer, text, size, ctypes.POINTER(size)]),
            ("documents_text", pointer, [pointer, size, size, ctypes.POINTER(size)]),
            ("documents_answer", None, [pointer, size, size, text, size]),
            ("documents_write", pointer, [pointer, size, ctypes.POINTER(size)]),
            ("documents_plain_text", pointer, [pointer, size, ctypes.POINTER(size)]),
            ("attention", pointer, [text, ctypes.POINTER(_Array), size])]:
        function = getattr(lib, "tandem_" + name)
        function.restype = result
        function.argtypes = arguments
    if lib.tandem_library_version() != _VERSION:
        raise ImportError(f"{path} is of another version of tandem_infer")
    return lib


def version() -> str:
    """Of the library."""
    return str(library().tandem_version().decode())


def _take_text(lib: ctypes.CDLL, address: int) -> Any:
    try:
        return json.loads(ctypes.string_at(address))
    finally:
        lib.tandem_free(address)


def _take_bytes(lib: ctypes.CDLL, address: int, size: ctypes.c_size_t) -> bytes:
    try:
        return ctypes.string_at(address, size.value)
    finally:
        lib.tandem_free(address)


def _default(value: Any) -> Any:
    """Numbers and arrays of numpy and torch, paths, and HuggingFace's configurations."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    for convert in ("tolist", "to_diff_dict"):
        method = getattr(value, convert, None)
        if method is not None:
            return method()
    if isinstance(value, (set, frozenset, range)) or hasattr(value, "__iter__"):
        return list(value)
    raise TypeError


_encode = json.JSONEncoder(default=_default, ensure_ascii=False).encode
_raw_decode = json.JSONDecoder().raw_decode


def dump(value: Any, name: str = "request") -> bytes:
    """As JSON. Raises RequestError, which names the part that is at fault, or `name`."""
    try:
        return _encode(value).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError, RecursionError):
        raise _unsendable(value, name) from None


def _unsendable(value: Any, name: str) -> RequestError:
    """Names the innermost part that JSON has no words for."""
    parts = value.items() if isinstance(value, dict) else ((name, part) for part in value) if isinstance(value, list) else ()
    for key, part in parts:
        try:
            _encode(part)
        except (TypeError, ValueError, RecursionError):
            return _unsendable(part, str(key))
    return RequestError(f"{name}: {type(value).__name__} is no kind of value that it can have", param=name)


def attention(request: Dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """An op over arrays without gaps, of which some are written. Raises RequestError, which names the array at fault."""
    lib = library()
    rows = (_Array * len(arrays))()
    for row, (name, array) in zip(rows, arrays.items()):
        row.name, row.dtype, row.data = name.encode(), array.dtype.name.encode(), array.ctypes.data
        row.shape, row.rank = (ctypes.c_int64 * array.ndim)(*array.shape), array.ndim
    error = lib.tandem_attention(dump(request), rows, len(arrays))
    if error:
        raise error_of(_take_text(lib, error))


def pdf_pages(request: Dict[str, Any], content: Optional[bytes]) -> List[int]:
    """The numbers of a PDF file's pages. Waits for the program that reads them. Raises RequestError."""
    lib = library()
    body: Dict[str, Any] = _take_text(lib, lib.tandem_pdf_pages(dump(request), content, len(content or b"")))
    if "error" in body:
        raise error_of(body["error"])
    return list(body["pages"])


def page_image(request: Dict[str, Any], content: Optional[bytes]) -> bytes:
    """One of them as a PNG file."""
    lib = library()
    size, error = ctypes.c_size_t(), ctypes.c_void_p()
    image = lib.tandem_page_image(dump(request), content, len(content or b""), ctypes.byref(size), ctypes.byref(error))
    if not image:
        raise error_of(_take_text(lib, error.value or 0))
    return _take_bytes(lib, image, size)


class DocumentSet:
    """Documents whose markup stays in place. Documents and their texts count from 0."""

    def __init__(self, rules: Dict[str, Any]) -> None:
        """rules: as of tandem_documents_open() (library.h). Raises RequestError."""
        self._lib = library()
        error = ctypes.c_void_p()
        self._handle = self._lib.tandem_documents_open(dump(rules), ctypes.byref(error))
        if not self._handle:
            raise error_of(_take_text(self._lib, error.value or 0))
        weakref.finalize(self, self._lib.tandem_documents_close, self._handle)

    def add(self, source: str) -> int:
        """Reads the next document. Returns how many texts it has. Raises RequestError."""
        content, count = source.encode("utf-8", "surrogatepass"), ctypes.c_size_t()
        error = self._lib.tandem_documents_add(self._handle, content, len(content), ctypes.byref(count))
        if error:
            raise error_of(_take_text(self._lib, error))
        return count.value

    def text(self, document: int, number: int) -> str:
        """A text to translate."""
        return self._string(self._lib.tandem_documents_text, document, number)

    def answer(self, document: int, number: int, translation: str) -> None:
        """Its translation."""
        content = translation.encode("utf-8", "replace")
        self._lib.tandem_documents_answer(self._handle, document, number, content, len(content))

    def write(self, document: int) -> str:
        """The document with its translations. It is gone afterwards."""
        return self._string(self._lib.tandem_documents_write, document)

    def plain_text(self, document: int) -> str:
        """Its text without markup."""
        return self._string(self._lib.tandem_documents_plain_text, document)

    def _string(self, function: Any, *numbers: int) -> str:
        size = ctypes.c_size_t()
        return _take_bytes(self._lib, function(self._handle, *numbers, ctypes.byref(size)), size).decode()


class Engine:
    """A model in this process. Closed once, by close() or when nobody has it any more."""

    def __init__(self, options: Dict[str, Any]) -> None:
        self._lib = library()
        self._handle = self._open(options)
        self._pid = os.getpid()
        self._close = weakref.finalize(self, self._lib.tandem_close, self._handle)
        self._using = threading.Lock()  # of the handle
        self.facts: Dict[str, Any] = _take_text(self._lib, self._lib.tandem_facts(self._handle))

    def _open(self, options: Dict[str, Any]) -> int:
        """By a thread, so that Ctrl-C need not wait for it."""
        stop, done = ctypes.c_int(0), threading.Event()
        handle: List[Optional[int]] = [None]
        error = ctypes.c_void_p()
        lib, text = self._lib, dump(options)

        def work() -> None:
            handle[0] = lib.tandem_open(text, ctypes.byref(stop), ctypes.byref(error))
            if stop.value and handle[0]:
                lib.tandem_close(handle[0])
            done.set()

        threading.Thread(target=work, daemon=True, name="tandem-open").start()
        try:
            while not done.wait(0.05):
                pass
        except BaseException:
            stop.value = 1
            raise
        if handle[0] is None:
            raise error_of(_take_text(lib, error.value or 0))
        return handle[0]

    def tokenize(self, request: Dict[str, Any]) -> Dict[str, Any]:
        text = dump(request)
        with self._using:
            self.check()
            body: Dict[str, Any] = _take_text(self._lib, self._lib.tandem_tokenize(self._handle, text))
        if "error" in body:
            raise error_of(body["error"])
        return body

    def check(self) -> None:
        """Raises EngineError where it cannot be used (any more)."""
        if os.getpid() != self._pid:
            raise EngineError("the engine is of another process: a fork has none of its threads; open it after forking, or "
                              "use the start method \"spawn\"")
        if not self._close.alive:
            raise EngineError("the engine is closed")

    def inbox(self) -> Inbox:
        with self._using:
            self.check()
            handle = self._lib.tandem_inbox_open(self._handle)
        if not handle:
            raise EngineError("no descriptor, or no memory, for news of requests")
        return Inbox(self, handle)

    def close(self) -> None:
        """What is under way fails."""
        if os.getpid() != self._pid:
            self._close.detach()
            return
        with self._using:
            self._close()


class Inbox:
    """Requests of one caller, and the news of them."""

    def __init__(self, engine: Engine, handle: int) -> None:
        self._engine = engine
        self._lib = library()
        self._handle = handle
        self._pid = os.getpid()
        self._using = threading.Lock()
        self._close = weakref.finalize(self, self._lib.tandem_inbox_close, handle)
        self._news = (_News * _CAPACITY)()
        self._rows = np.frombuffer(memoryview(self._news), dtype=_NEWS)

    def fd(self) -> int:
        """Readable while there is news."""
        return int(self._lib.tandem_inbox_fd(self._handle))

    def submit(self, number: int, text: bytes, sound: Optional[bytes] = None) -> None:
        """Raises what is wrong with it."""
        self._engine.check()
        with self._using:
            self._check()
            error = self._lib.tandem_submit(self._handle, number, text, len(text), sound, len(sound or b""))
        if error:
            raise error_of(_take_text(self._lib, error))

    def cancel(self, number: int) -> None:
        with self._using:
            if self._close.alive:
                self._lib.tandem_cancel(self._handle, number)

    def poll(self, milliseconds: int, wanted: int = 1) -> List[News]:
        """Waits for `wanted` of them, but not longer."""
        with self._using:
            self._check()
            count = self._lib.tandem_poll(self._handle, milliseconds, wanted, self._news, _CAPACITY)
            return [self._taken(*row) for row in self._rows[:count].tolist()]

    def _taken(self, number: int, last: int, text: int, size: int, values: int, num_values: int, ids: int, num_ids: int) -> News:
        body, _ = _raw_decode(ctypes.string_at(text, size).decode())
        self._lib.tandem_free(text)
        if ids:
            body["encoder_prompt_token_ids"] = memoryview(ctypes.string_at(ids, num_ids * 4)).cast("i").tolist()
            self._lib.tandem_free(ids)
        if not values:
            return News(number, bool(last), body, None)
        vector = np.frombuffer(ctypes.string_at(values, num_values * 4), dtype=np.float32).copy()
        self._lib.tandem_free(values)
        return News(number, bool(last), body, vector)

    def _check(self) -> None:
        if not self._close.alive:
            raise EngineError("the engine is closed")

    def close(self) -> None:
        """What has not ended is cancelled."""
        if os.getpid() != self._pid:
            self._close.detach()
            return
        with self._using:
            self._close()
