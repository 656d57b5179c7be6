"""seccomp and limits, as runtime/media/decoder/sandbox.cc has them, by system calls through ctypes."""
from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import signal
import struct
from typing import Dict, List, Tuple

NONE, ON = 0, 1
MOST_MEMORY = 1 << 30  # beyond what the program has when it enters
_DESCRIPTORS = 16

# Calls that allocate, read what is given, answer, wait and end; and what they are called on each machine.
_CALLS = ("read", "pread64", "recvmsg", "sendto", "close", "brk", "munmap", "mremap", "madvise", "futex", "clock_gettime",
          "gettimeofday", "getrandom", "sched_yield", "rt_sigprocmask", "rt_sigreturn", "restart_syscall", "getpid", "gettid",
          "exit", "exit_group")
_NUMBERS: Dict[str, Tuple[int, List[int], int, int, int, int]] = {
    # machine: audit number, _CALLS, mmap, mprotect, tgkill, seccomp
    "x86_64": (0xC000003E, [0, 17, 47, 44, 3, 12, 11, 25, 28, 202, 228, 96, 318, 24, 14, 15, 219, 39, 186, 60, 231],
               9, 10, 234, 317),
    "aarch64": (0xC00000B7, [63, 67, 212, 206, 57, 214, 215, 216, 233, 98, 113, 169, 278, 124, 135, 139, 128, 172, 178, 93, 94],
                222, 226, 131, 277),
}

_libc = ctypes.CDLL(None, use_errno=True)


def end_with_parent(parent: int) -> bool:
    """The kernel ends this process with its parent. False: that has ended."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    _libc.prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    return os.getppid() == parent


def _filter() -> bytes:
    """A program of BPF: struct sock_filter[]."""
    audit, calls, mmap, mprotect, tgkill, _ = _NUMBERS[platform.machine()]
    load, equal, any_bit, give = 0x20, 0x15, 0x45, 0x06  # BPF_LD|W|ABS, JMP|JEQ|K, JMP|JSET|K, RET|K
    allow, deny = 0x7FFF0000, 0x00050000 | errno.EPERM
    number, architecture, argument = 0, 4, 16  # offsets in struct seccomp_data; low words of arguments
    lines: List[Tuple[int, int, int, int]] = [(load, 0, 0, architecture), (equal, 1, 0, audit), (give, 0, 0, deny),
                                              (load, 0, 0, number)]
    for call in calls:
        lines += [(equal, 0, 1, call), (give, 0, 0, allow)]
    # Memory, but none that is run (PROT_EXEC is 4).
    for call in (mmap, mprotect):
        lines += [(equal, 0, 4, call), (load, 0, 0, argument + 2 * 8), (any_bit, 0, 1, 4), (give, 0, 0, deny),
                  (give, 0, 0, allow)]
    # abort() raises a signal, in this process alone.
    lines += [(equal, 0, 3, tgkill), (load, 0, 0, argument), (equal, 0, 1, os.getpid()), (give, 0, 0, allow)]
    lines.append((give, 0, 0, deny))
    return b"".join(struct.pack("=HBBI", code, yes, no, value) for code, yes, no, value in lines)


def _limit(what: int, most: int) -> None:
    hard = resource.getrlimit(what)[1]
    if hard == resource.RLIM_INFINITY or hard > most:
        resource.setrlimit(what, (most, most))


def _address_space() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def enter() -> Tuple[int, str]:
    """Gives up what reading files does not need, for good and for all threads. ON, or NONE and why."""
    _limit(resource.RLIMIT_CORE, 0)
    _libc.prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
    space = _address_space()
    for what, most in ((resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_NOFILE, _DESCRIPTORS), (resource.RLIMIT_NPROC, 0),
                       (resource.RLIMIT_MEMLOCK, 0), (resource.RLIMIT_AS, space + MOST_MEMORY)):
        _limit(what, most)
    if platform.machine() not in _NUMBERS:
        return NONE, f"seccomp: no filter for {platform.machine()}"
    if _libc.prctl(38, 1, 0, 0, 0) != 0:  # PR_SET_NO_NEW_PRIVS
        return NONE, "seccomp: " + os.strerror(ctypes.get_errno())
    program = _filter()
    lines = ctypes.create_string_buffer(program, len(program))

    class Program(ctypes.Structure):
        _fields_ = [("count", ctypes.c_ushort), ("lines", ctypes.c_void_p)]

    given = Program(len(program) // 8, ctypes.addressof(lines))
    _libc.syscall.restype = ctypes.c_long
    # SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC: libraries may have threads.
    if _libc.syscall(_NUMBERS[platform.machine()][5], 1, 1, ctypes.byref(given)) != 0:
        return NONE, "seccomp: " + os.strerror(ctypes.get_errno())
    # An emulator may take a filter, and do without it.
    try:
        os.close(os.open("/", os.O_RDONLY | os.O_DIRECTORY))
    except OSError:
        return ON, ""
    return NONE, "seccomp: the kernel does not apply its filter"
