"""Fingerprints that group similar failures."""

from __future__ import annotations

import re
from hashlib import blake2b

_FRAME = '  File "'
#: The parts that differ between messages with the same meaning: quoted texts, numbers, ids.
_PARTICULAR = re.compile(r"""'[^']*'|"[^"]*"|\b0x[0-9a-f]+\b|\b[0-9a-f]{8,}(?:-[0-9a-f]{4,})*\b|\d+""", re.IGNORECASE)


def fingerprint(handler_type: str, message: str, stack: str = "") -> str:
    """Compute a fingerprint that is equal for the same handler, exception and place in the code.

    ``message`` begins with the name of the exception. Without a stack trace the message replaces the place, with its
    numbers, ids and quoted texts masked. Returns 16 hexadecimal digits.
    """
    name = exception_name(message)
    place = _place(stack) or _PARTICULAR.sub("#", message[:1000])
    return blake2b(f"{handler_type}\0{name}\0{place}".encode("utf-8", "replace"), digest_size=8).hexdigest()


def exception_name(message: str) -> str:
    """Return the exception name at the beginning of a message; '' if there is none."""
    name = message.partition(":")[0]
    return name if name.isidentifier() else ""


def _place(stack: str) -> str:
    """Return file and function of the innermost frame, without the line, which the next release may move."""
    start = stack.rfind(_FRAME)
    if start < 0:
        return ""
    file, _, rest = stack[start + len(_FRAME) :].partition("\n")[0].partition('"')
    # Only the end of the path: each release may have its own folder.
    return "/".join(file.replace("\\", "/").rsplit("/", 2)[-2:]) + rest.rpartition(",")[2]
