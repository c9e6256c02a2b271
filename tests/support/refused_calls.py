"""A child process in which the kernel refuses one system call: a call that is not made cannot be
refused. The filter (seccomp) stands in the kernel, so nothing in the process can pretend.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

#: No call that a store makes answers this by itself.
REFUSED = 132  # ERFKILL
_NUMBERS = {
    "x86_64": {"fsync": 74, "fdatasync": 75, "msync": 26, "syncfs": 306, "sync_file_range": 277},
    "aarch64": {"fsync": 82, "fdatasync": 83, "msync": 227, "syncfs": 267, "sync_file_range": 84},
}
_LIBC = ctypes.CDLL(None, use_errno=True)
_SET_NO_NEW_PRIVS, _SET_SECCOMP, _MODE_FILTER = 38, 22, 2
_LOAD, _JUMP_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_ARGUMENTS = 16  # where the arguments lie in struct seccomp_data, 8 bytes each
_NOT_POSSIBLE = 77


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def _filter(number: int, arguments: tuple[int, ...]) -> bytes:
    """Refuses the call of this number whose first arguments are these."""
    words = [(0, number)]
    for place, value in enumerate(arguments):
        low, high = value & 0xFFFFFFFF, value >> 32 & 0xFFFFFFFF
        words += [(_ARGUMENTS + 8 * place, low), (_ARGUMENTS + 8 * place + 4, high)]
    steps: list[tuple[int, int, int, int]] = []
    for left, (at, value) in zip(range(len(words) - 1, -1, -1), words, strict=True):
        steps += [(_LOAD, 0, 0, at), (_JUMP_EQUAL, 0, 2 * left + 1, value)]
    steps += [(_RETURN, 0, 0, _ERRNO | REFUSED), (_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _refuse(call: str, arguments: tuple[int, ...]) -> bool:
    """From now on this process cannot make the call. False if the kernel has no such filters."""
    code = _filter(_NUMBERS[platform.machine()][call], arguments)
    program = _Program(len(code) // 8, code)
    zeros = (ctypes.c_ulong(0),) * 3
    if _LIBC.prctl(_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), *zeros) != 0:
        return False
    mode = ctypes.c_ulong(_MODE_FILTER)
    return bool(_LIBC.prctl(_SET_SECCOMP, mode, ctypes.byref(program), *zeros[:2]) == 0)


def is_made(call: str, arguments: tuple[int, ...], action: Callable[[], object]) -> bool:
    """Whether `action` makes the system call with these first arguments, and raises what the kernel
    answers. Skips the test where the kernel cannot filter calls.
    """
    if platform.machine() not in _NUMBERS:
        pytest.skip(f"the numbers of system calls on {platform.machine()} are not known here")
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            if _refuse(call, arguments):
                action()
            else:
                status = _NOT_POSSIBLE
        except OSError as error:
            status = 0 if error.errno == REFUSED else 2
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status == _NOT_POSSIBLE:
        pytest.skip("this kernel, or this container, lets no process filter its system calls")
    assert status in (0, 1), f"the action failed in another way: status {status}"
    return status == 0
