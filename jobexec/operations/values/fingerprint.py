"""What makes two failures alike."""

from __future__ import annotations

import re
from hashlib import blake2b

_FRAME = '  File "'
#: What differs between messages that mean the same: quoted texts, numbers, ids.
_PARTICULAR = re.compile(r"""'[^']*'|"[^"]*"|\b0x[0-9a-f]+\b|\b[0-9a-f]{8,}(?:-[0-9a-f]{4,})*\b|\d+""", re.IGNORECASE)


def fingerprint(handler_type: str, message: str, stack: str = "") -> str:
    """The fingerprint of a failure: equal for the same handler, the same exception and the same place in the code.

    ``message`` begins with the name of the exception. Without a stack trace the place is unknown, and the message
    stands for it, but for what is particular in it (numbers, ids, quoted texts). 16 hexadecimal digits.
    """
    name = exception_name(message)
    place = _place(stack) or _PARTICULAR.sub("#", message[:1000])
    return blake2b(f"{handler_type}\0{name}\0{place}".encode("utf-8", "replace"), digest_size=8).hexdigest()


def exception_name(message: str) -> str:
    """The name of the exception that a message begins with; '' if it does not look like one."""
    name = message.partition(":")[0]
    return name if name.isidentifier() else ""


def _place(stack: str) -> str:
    """File and function of the innermost frame; not the line, which the next release moves."""
    start = stack.rfind(_FRAME)
    if start < 0:
        return ""
    file, _, rest = stack[start + len(_FRAME) :].partition("\n")[0].partition('"')
    # The end of the path: releases may live in folders of their own.
    return "/".join(file.replace("\\", "/").rsplit("/", 2)[-2:]) + rest.rpartition(",")[2]
