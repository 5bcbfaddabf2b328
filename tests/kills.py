"""Processes that are killed right before they change a file.

SQLite asks the operating system for what stands in a table, which can be changed.
"""

import _sqlite3
import ctypes
import os
import signal
from functools import partial
from itertools import count

import pytest


def _function(name, returns, *arguments):
    return name, ctypes.CFUNCTYPE(returns, *arguments, use_errno=True)


FILE, SIZE = ctypes.c_int, ctypes.c_ssize_t
CHANGES = [
    _function(b"open", FILE, ctypes.c_char_p, ctypes.c_int, ctypes.c_int),
    _function(b"write", SIZE, FILE, ctypes.c_void_p, ctypes.c_size_t),
    _function(b"pwrite", SIZE, FILE, ctypes.c_void_p, ctypes.c_size_t, SIZE),
    _function(b"pwrite64", SIZE, FILE, ctypes.c_void_p, ctypes.c_size_t, SIZE),
    _function(b"ftruncate", ctypes.c_int, FILE, SIZE),
    _function(b"unlink", ctypes.c_int, ctypes.c_char_p),
]


class System(ctypes.Structure):
    """The beginning of `sqlite3_vfs`, which has these two functions after 18 others."""

    _fields_ = (
        ("version", ctypes.c_int),
        ("sizes", ctypes.c_int * 2),
        ("others", ctypes.c_void_p * 16),
        ("set", ctypes.CFUNCTYPE(FILE, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)),
        ("get", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)),
    )


def the_system():
    """Return the table of calls, or None where it is out of reach."""
    try:
        find = ctypes.CDLL(_sqlite3.__file__).sqlite3_vfs_find
    except (AttributeError, OSError):
        return None
    find.restype, find.argtypes = ctypes.POINTER(System), [ctypes.c_char_p]
    found = find(None)
    return found.contents if os.name == "posix" and found.contents.version >= 3 else None


SYSTEM = the_system()
needs_system = pytest.mark.skipif(SYSTEM is None, reason="SQLite shows its system calls to nobody")


def is_killed_at(number, act):
    """Act in a process that is killed before a change of a file, if it gets so far."""
    child = os.fork()
    if child == 0:
        try:
            kept = die_at(number)
            act()
            os._exit(len(kept) == 0)
        finally:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL)
    return status == signal.SIGKILL


def die_at(number):
    """Be killed before the change of a file of that number, from 0; keep what is returned."""
    numbers, kept = count(), []
    for name in ("link", "unlink"):
        setattr(os, name, partial(_call, getattr(os, name), numbers, number))
    for name, kind in CHANGES:
        if address := SYSTEM.get(ctypes.addressof(SYSTEM), name):
            kept.append(kind(partial(_call, kind(address), numbers, number)))
            SYSTEM.set(ctypes.addressof(SYSTEM), name, ctypes.cast(kept[-1], ctypes.c_void_p))
    return kept


def _call(own, numbers, last, *arguments):
    if next(numbers) == last:
        os.kill(os.getpid(), signal.SIGKILL)
    return own(*arguments)
