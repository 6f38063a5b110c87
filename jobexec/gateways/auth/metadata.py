"""The credentials of a gRPC call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

#: gRPC's keys for the names in a client certificate.
_COMMON_NAME = "x509_common_name"
_OTHER_NAMES = "x509_subject_alternative_name"


def of_metadata(
    metadata: Iterable[tuple[str, str | bytes]] | None, auth_context: Mapping[str, Sequence[bytes]] | None = None
) -> tuple[str | None, tuple[str, ...]]:
    """Turn a call's ``invocation_metadata()`` and ``auth_context()`` into the arguments of ``authenticate``.

    A call with more than one authorization has no valid one.
    """
    given = [value for key, value in metadata or () if key.lower() == "authorization" and value]
    authorization = ",".join(_text(value) for value in given) if given else None
    context = auth_context or {}
    names = [_text(name) for key in (_COMMON_NAME, _OTHER_NAMES) for name in context.get(key, ())]
    return authorization, tuple(dict.fromkeys(names))


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
