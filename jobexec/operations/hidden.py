"""Arguments without what is sensitive, where only the database tells which are: the job definition of their handler."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from jobexec.models import JobDefinition
from jobexec.sensitive import HIDDEN, hide, may_be_within


def hide_by_definition(handler_type: str, configuration: Any, using: str) -> Any:
    """A copy of ``handler_configuration`` without what its job definition calls sensitive.

    If anything is, all positional arguments are hidden, since nobody here knows their names.
    """
    return _hidden(configuration, named_by_definition(handler_type, using))


def hide_text_by_definition(handler_type: str, text: str, using: str) -> str:
    """The same for the text in a row, which need not be JSON: then all of it is hidden if anything may be sensitive."""
    named = named_by_definition(handler_type, using)
    if not (named or may_be_within(text)):
        return text
    with suppress(ValueError, RecursionError):
        return json.dumps(_hidden(json.loads(text), named), ensure_ascii=False)
    return HIDDEN


def named_by_definition(handler_type: str, using: str) -> Sequence[str]:
    """The names that a handler's definition calls sensitive; none if no executor has written one yet."""
    definitions = JobDefinition.objects.using(using).filter(pk=handler_type)
    return definitions.values_list("sensitive", flat=True).first() or ()


def _hidden(configuration: Any, named: Sequence[str]) -> Any:
    shown = hide(configuration, named)
    if named and isinstance(shown, dict) and isinstance(shown.get("args"), list):
        shown["args"] = [HIDDEN] * len(shown["args"])
    return shown
