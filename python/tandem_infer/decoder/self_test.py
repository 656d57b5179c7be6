"""tandem-decoder --self-test: ways out of the sandbox, each of which must fail."""
from __future__ import annotations

import ctypes
import mmap
import os
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


def main() -> int:
    ways: Dict[str, Callable[[], object]] = {
        "read a file": lambda: os.open("/etc/passwd", os.O_RDONLY),
        "write a file": lambda: os.open("/tmp/tandem-decoder-self-test", os.O_WRONLY | os.O_CREAT),
        "list a folder": lambda: os.listdir("/"),
        "make a socket": lambda: socket.socket(),
        "make a socket pair": lambda: socket.socketpair(),
        "make a pipe": os.pipe,
        "fork": os.fork,
        "run a program": lambda: subprocess.run(["/bin/true"], check=True),
        "replace this program": lambda: os.execv("/bin/true", ["true"]),
        "start a thread": lambda: threading.Thread(target=lambda: None).start(),
        "send a signal to the parent": lambda: os.kill(os.getppid(), 0),
        "send a signal to itself by kill": lambda: os.kill(os.getpid(), signal.SIGCONT),
        "raise a limit": lambda: __import__("resource").setrlimit(__import__("resource").RLIMIT_NOFILE, (64, 64)),
        "change the root": lambda: os.chroot("/"),
        "memory that is run": _executable_memory,
        "memory without end": _memory_without_end,
        "a file without a name": lambda: os.memfd_create("out"),
    }
    ctypes.CDLL(None)
    state, why = sandbox.enter()
    if state != sandbox.ON:
        print(f"tandem-decoder: no sandbox here: {why}")
        return 77
    worked = []
    for name, way in ways.items():
        try:
            way()
        except (OSError, RuntimeError, MemoryError, ValueError):
            continue
        worked.append(name)
    text = "".join(f"tandem-decoder: the sandbox lets it {name}\n" for name in worked)
    if text:
        ctypes.CDLL(None).syscall(0)  # (nothing may be written: the status says it)
    return 1 if worked else 0
