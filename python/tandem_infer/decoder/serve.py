"""One file, one job (runtime/media/decoder_protocol.h)."""
from __future__ import annotations

import array
import os
import socket
import struct
from typing import Callable, NamedTuple, Optional

from . import sandbox

PROTOCOL = 1
HELLO, SAMPLES, IMAGE, PIXELS, WARNING, DONE, ERROR = range(7)
_SOUND, _IMAGE, _DOCUMENT = 1, 2, 3
_MOST_FRAME = 1 << 18
_MOST_WARNINGS = 16
_JOB = struct.Struct("=IIQiid")
_NO_MEMORY = 3


class DecodeError(Exception):
    """What is wrong with a file, in words that follow its name. large: more than is taken."""

    def __init__(self, message: str, large: bool = False) -> None:
        super().__init__(message)
        self.large = large


class Source:
    """The bytes of a job's file, which others may read too. A file object, as PyAV and Pillow read one."""

    def __init__(self, fd: int, size: int) -> None:
        self._fd = fd
        self.size = size
        self._at = 0

    def read(self, count: int = -1) -> bytes:
        left = max(0, self.size - self._at)
        count = left if count is None or count < 0 else min(count, left)
        out = b""
        while len(out) < count:
            got = os.pread(self._fd, count - len(out), self._at)
            if not got:
                break
            out += got
            self._at += len(got)
        return out

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence]
        if at < 0:
            raise ValueError("before the file's begin")
        self._at = at
        return at

    def tell(self) -> int:
        return self._at


class Answer:
    """Frames to whoever sent the job. BrokenPipeError: it has gone."""

    def __init__(self, to: socket.socket) -> None:
        self._to = to

    def frame(self, kind: int, payload: bytes = b"") -> None:
        self._to.sendall(struct.pack("=II", kind, len(payload)) + payload)

    def data(self, kind: int, payload: memoryview) -> None:
        """In as many frames as it takes."""
        for begin in range(0, len(payload), _MOST_FRAME):
            self.frame(kind, bytes(payload[begin:begin + _MOST_FRAME]))

    def warn(self, lines: list[str]) -> None:
        for line in lines[:_MOST_WARNINGS]:
            self.frame(WARNING, line.encode("utf-8", "replace")[:512])

    def error(self, error: DecodeError) -> None:
        self.frame(ERROR, struct.pack("=I", 1 if error.large else 0) + str(error).encode("utf-8", "replace")[:1024])


class Job(NamedTuple):
    """rate, channels: of a document the dots per inch, and the page from 1; page 0 asks how many there are."""
    kind: int
    size: int
    rate: int
    channels: int
    seconds: float
    file: int


def _receive(of: socket.socket) -> Optional[Job]:
    """None: there are no more."""
    fds = array.array("i")
    message, parts, _, _ = of.recvmsg(_JOB.size, socket.CMSG_SPACE(fds.itemsize), socket.MSG_WAITALL | socket.MSG_CMSG_CLOEXEC)
    for level, kind, data in parts:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[:fds.itemsize])
    if len(message) != _JOB.size or len(fds) != 1:
        return None
    protocol, kind, size, rate, channels, seconds = _JOB.unpack(message)
    return Job(kind, size, rate, channels, seconds, fds[0]) if protocol == PROTOCOL else None


def serve(documents: bool) -> int:
    # All that may be needed is loaded by now: nothing can be opened later.
    run = _documents() if documents else _sound_and_images()
    to = socket.socket(fileno=0)  # standard input
    answer = Answer(to)
    nothing = os.open("/dev/null", os.O_WRONLY)
    os.dup2(nothing, 2)
    os.close(nothing)
    state, why = sandbox.enter()
    try:
        answer.frame(HELLO, struct.pack("=II", PROTOCOL, state) + why.encode())
        while True:
            job = _receive(to)
            if job is None:
                return 0
            try:
                run(job, Source(job.file, job.size), answer)
            except DecodeError as error:
                answer.error(error)
            finally:
                os.close(job.file)
    except (BrokenPipeError, ConnectionError):
        return 0
    except MemoryError:
        return _NO_MEMORY


_Run = Callable[[Job, Source, Answer], None]


def _sound_and_images() -> _Run:
    from . import image, sound

    image.prepare()
    sound.prepare()

    def run(job: Job, source: Source, answer: Answer) -> None:
        if job.kind == _SOUND:
            sound.decode(source, job.rate, job.channels, job.seconds, answer)
        elif job.kind == _IMAGE:
            image.decode(source, answer)
        else:
            raise DecodeError("is of a kind that another program reads")

    return run


def _documents() -> _Run:
    from . import document

    document.prepare()

    def run(job: Job, source: Source, answer: Answer) -> None:
        if job.kind != _DOCUMENT:
            raise DecodeError("is of a kind that another program reads")
        document.decode(source, job.channels, job.rate, answer)

    return run
