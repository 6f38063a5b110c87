"""The setting PROCESSES: limits of process instances, and how long their history is kept."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any

from . import values


def _by(parser: values.Parser) -> dict[str, Any]:
    return {"parser": parser}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSettings:
    """The keys of PROCESSES in lower case; sizes are bytes of JSON. See ``docs/reference/settings.md``."""

    max_value_size: int = field(default=65_536, metadata=_by(values.integer(100, 2**30)))
    max_variables_size: int = field(default=1_048_576, metadata=_by(values.integer(1000, 2**30)))
    lock_timeout: timedelta | None = field(default=timedelta(seconds=10), metadata=_by(values.duration(none=True)))
    sensitive: tuple[str, ...] = field(default=(), metadata=_by(values.words))
    history_time_to_live: timedelta | None = field(
        default=timedelta(days=180), metadata=_by(values.duration(zero=True, none=True))
    )
    auto_deploy: bool = field(default=False, metadata=_by(values.boolean))
    shared_transactions: bool = field(default=True, metadata=_by(values.boolean))


PARSERS: Mapping[str, values.Parser] = {item.name.upper(): item.metadata["parser"] for item in fields(ProcessSettings)}


def processes(value: Any) -> ProcessSettings:
    """A dict of these keys."""
    if isinstance(value, ProcessSettings):
        return value
    if not isinstance(value, Mapping):
        raise ValueError(f"a dict with keys out of {', '.join(map(repr, PARSERS))}")
    parsed = {}
    for key, own in value.items():
        if key not in PARSERS:
            similar = difflib.get_close_matches(str(key).upper(), PARSERS, n=1)
            hint = f" (did you mean {similar[0]!r}?)" if similar else ""
            raise ValueError(f"a dict with keys out of {', '.join(map(repr, PARSERS))}, without {key!r}{hint}")
        try:
            parsed[key.lower()] = PARSERS[key](own)
        except ValueError as error:
            raise ValueError(f"a dict in which {key!r} is {error}") from None
    made = ProcessSettings(**parsed)
    if made.max_value_size > made.max_variables_size:
        raise ValueError(f"a dict in which 'MAX_VALUE_SIZE' is at most MAX_VARIABLES_SIZE, {made.max_variables_size}")
    return made
