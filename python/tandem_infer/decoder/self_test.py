"""tandem-decoder --self-test: ways out of the sandbox, each of which must fail."""
from __future__ import annotations

import mmap
import os
import resource
import signal
import socket
import subprocess
import threading
from typing import Callable, Dict

from . import sandbox


def _executable_memory() -> None:
    mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)


def _memory_without_end() -> None:
    bytearray(2 * sandbox.MOST_MEMORY)


def _ways() -> Dict[str, Callable[[], object]]:
    return {
        "read a file": lambda: os.open("/etc/passwd", os.O_RDONLY),
        "write a file": lambda: os.open("/tmp/tandem-decoder-self-test", os.O_WRONLY | os.O_CREAT),
        "list a folder": lambda: os.listdir("/"),
        "make a socket": lambda: socket.socket(),
        "make a pair of sockets": lambda: socket.socketpair(),
        "make a pipe": os.pipe,
        "start a process": os.fork,
        "run a program": lambda: subprocess.run(["/bin/true"], check=True),
        "become another program": lambda: os.execv("/bin/true", ["true"]),
        "start a thread": lambda: threading.Thread(target=lambda: None).start(),
        "signal its parent": lambda: os.kill(os.getppid(), 0),
        "signal by kill()": lambda: os.kill(os.getpid(), signal.SIGCONT),
        "raise a limit": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)),
        "change its root": lambda: os.chroot("/"),
        "make memory that is run": _executable_memory,
        "make a file without a name": lambda: os.memfd_create("out"),
        "take memory without end": _memory_without_end,
    }


def _first_that_works() -> int:
    """Its number, from 1; 0: none. 77: there is no sandbox here."""
    if sandbox.enter()[0] != sandbox.ON:
        return 77
    for number, way in enumerate(_ways().values(), 1):
        try:
            way()
        except (OSError, RuntimeError, MemoryError, ValueError):
            continue
        return number
    return 0


def main() -> int:
    child = os.fork()
    if child == 0:
        os._exit(_first_that_works())
    status = os.waitpid(child, 0)[1]
    number = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 255
    if number in (0, 77):
        if number:
            print("tandem-decoder: no sandbox here", flush=True)
        return number
    names = list(_ways())
    print("tandem-decoder: the sandbox lets it " + (names[number - 1] if number <= len(names) else f"end with status {status}"),
          flush=True)
    return 1
