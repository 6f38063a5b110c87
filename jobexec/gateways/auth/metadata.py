"""The credentials that come with a call over gRPC."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

#: What gRPC calls the names in a client's certificate.
_COMMON_NAME = "x509_common_name"
_OTHER_NAMES = "x509_subject_alternative_name"


def of_metadata(
    metadata: Iterable[tuple[str, str | bytes]] | None, auth_context: Mapping[str, Sequence[bytes]] | None = None
) -> tuple[str | None, tuple[str, ...]]:
    """The arguments of ``authenticate``: ``invocation_metadata()`` and ``auth_context()`` of a call.

    A call with more than one authorization has none that is valid.
    """
    given = [value for key, value in metadata or () if key.lower() == "authorization" and value]
    authorization = ",".join(_text(value) for value in given) if given else None
    context = auth_context or {}
    names = [_text(name) for key in (_COMMON_NAME, _OTHER_NAMES) for name in context.get(key, ())]
    return authorization, tuple(dict.fromkeys(names))


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
