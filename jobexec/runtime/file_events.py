"""Linux's notifications of writes to a file (inotify), which Python's library does not offer."""

from __future__ import annotations

import ctypes
import os
import struct
import weakref
from pathlib import Path

_MODIFY, _MOVED_TO, _CREATE, _DELETE, _OVERFLOW = 0x2, 0x80, 0x100, 0x200, 0x4000
#: The watch, the mask, a cookie, and the length of the name that follows, with zeros at its end.
_HEAD = struct.Struct("iIII")
_BUFFER = 64 * 1024


class FileEvents:
    """Tells of writes to files of one folder, by any process of this machine.

    An event comes with a write, so before a commit that is made of it is complete. Raises OSError where the system has
    no such notifications, or no more of them for this user.
    """

    def __init__(self, path: Path, names: frozenset[str]) -> None:
        self._names = {os.fsencode(name) for name in names}
        self._descriptor = _watching(path)
        self._close = weakref.finalize(self, os.close, self._descriptor)

    def fileno(self) -> int:
        """The descriptor that becomes readable with an event."""
        return self._descriptor

    def take(self) -> bool:
        """Whether any of the files was written to since the last call; never waits."""
        found = False
        while True:
            try:
                text = os.read(self._descriptor, _BUFFER)
            except BlockingIOError:
                return found
            found = self._concerns(text) or found

    def _concerns(self, text: bytes) -> bool:
        at = 0
        while at < len(text):
            _, mask, _, length = _HEAD.unpack_from(text, at)
            at += _HEAD.size
            if mask & _OVERFLOW or text[at : at + length].rstrip(b"\0") in self._names:
                return True
            at += length
        return False

    def close(self) -> None:
        """Watch no longer."""
        self._close()


def _watching(folder: Path) -> int:
    """A descriptor that tells of writes in a folder."""
    try:
        system = ctypes.CDLL(None, use_errno=True)
        begin, watch = system.inotify_init1, system.inotify_add_watch
    except (AttributeError, OSError, TypeError) as error:  # another system
        raise OSError("The system does not tell of writes to files.") from error
    descriptor: int = begin(os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "inotify_init1")
    if watch(descriptor, os.fsencode(folder), ctypes.c_uint32(_MODIFY | _MOVED_TO | _CREATE | _DELETE)) < 0:
        number = ctypes.get_errno()
        os.close(descriptor)
        raise OSError(number, "inotify_add_watch", str(folder))
    return descriptor
