"""Hide sensitive arguments where only the handler's job definition in the database tells which they are."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from jobexec.encryption import envelope_of, shown_envelope
from jobexec.models import JobDefinition
from jobexec.sensitive import HIDDEN, hide, may_be_within


class Known(NamedTuple):
    """The sensitive names of a handler in the job definitions, and whether it has a definition itself."""

    named: Sequence[str]
    defined: bool


def hide_by_definition(handler_type: str, configuration: Any, using: str) -> Any:
    """Copy ``handler_configuration`` without the arguments that its job definition marks as sensitive.

    If any argument is sensitive, all positional arguments are hidden, as their names are not known here; likewise if
    there is no definition, as for a handler's former name.
    """
    return hide_as_known(configuration, known_by_definitions({handler_type}, using)[handler_type])


def hide_text_by_definition(handler_type: str, text: str, using: str) -> str:
    """Do the same for a row's text; if it is not JSON, all of it is hidden if anything may be sensitive."""
    known = known_by_definitions({handler_type}, using)[handler_type]
    if known.defined and not (known.named or may_be_within(text)):
        return text
    with suppress(ValueError, RecursionError):
        return json.dumps(hide_as_known(json.loads(text), known), ensure_ascii=False)
    return HIDDEN


def named_by_definition(handler_type: str, using: str) -> Sequence[str]:
    """Return the sensitive names of a handler's definition; those of all definitions if it has none."""
    return names_by_definitions({handler_type}, using)[handler_type]


def names_by_definitions(handler_types: Collection[str], using: str) -> dict[str, Sequence[str]]:
    """Return :func:`named_by_definition` for several handlers."""
    return {name: known.named for name, known in known_by_definitions(handler_types, using).items()}


def known_by_definitions(handler_types: Collection[str], using: str) -> dict[str, Known]:
    """Return what the definitions tell about these handlers, in one statement, or two if some have none."""
    definitions = JobDefinition.objects.using(using)
    rows = definitions.filter(pk__in=handler_types).values_list("pk", "sensitive")
    found = {pk: Known(names or (), True) for pk, names in rows}
    missing = set(handler_types) - found.keys()
    if missing:
        of_all = {name for names in definitions.values_list("sensitive", flat=True) for name in names or ()}
        found |= dict.fromkeys(missing, Known(sorted(of_all), False))
    return found


def callbacks_of(configuration: Any) -> Iterator[str]:
    """Yield the handlers that run when an external job has ended, and get its variables."""
    if isinstance(configuration, dict):
        by_code = configuration.get("on_error")
        for each in (configuration.get("on_complete"), *(by_code.values() if isinstance(by_code, dict) else ())):
            if isinstance(each, dict) and isinstance(each.get("handler"), str):
                yield each["handler"]


def hide_as_known(configuration: Any, known: Known) -> Any:
    """Do what :func:`hide_by_definition` does, with what the definitions have told."""
    if envelope_of(configuration):
        return shown_envelope(configuration)
    shown = hide(configuration, known.named)
    if (known.named or not known.defined) and isinstance(shown, dict) and isinstance(shown.get("args"), list):
        shown["args"] = [HIDDEN] * len(shown["args"])
    return shown
