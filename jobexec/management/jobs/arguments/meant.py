"""Words that were probably meant."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from django.utils.translation import gettext as _

_CHOICE = re.compile(r"invalid choice: (?P<given>'[^']*'|\S+) \(choose from (?P<known>.*)\)", re.DOTALL)


#: How many names are looked through.
MOST = 1_000
#: Shorter beginnings of names mean nothing.
_BEGINNING = 3


#: What other tools call an option, a state or a scope.
_WORDS = {
    "--args": ("--arguments",),
    "--kwargs": ("--arguments",),
    "--countdown": ("--delay",),
    "--eta": ("--delay", "--to", "--at"),
    "--queue": ("--category",),
    "--task": ("--handler",),
    "failed": ("dead_letter",),
    "handler": ("job-definition",),
    "pending": ("executable",),
    "queue": ("category",),
    "queued": ("executable",),
    "scheduled": ("timer",),
}


def meant(word: str, known: Iterable[str]) -> list[str]:
    """The known words that are like this one, the most alike first; of dotted names also those that end alike.

    If there are none, those that begin with it.
    """
    known = list(known)
    if word in known:
        return []
    found = [name for name in _WORDS.get(word, ()) if name in known][:1]
    found = found or get_close_matches(word, known, n=3, cutoff=0.7)
    if not found:
        last = {name: name.rpartition(".")[2] for name in known}
        alike = get_close_matches(word.rpartition(".")[2], set(last.values()), n=3, cutoff=0.7)
        found = [name for end in alike for name in known if last[name] == end][:3]
    if not found and len(word) >= _BEGINNING:
        found = [name for name in known if name.startswith(word)][:3]
    return found


def question(word: str, known: Iterable[str]) -> str:
    """ " Did you mean 'list'?", or nothing."""
    found = meant(word, known)
    return f" Did you mean {' or '.join(map(repr, found))}?" if found else ""


def no_such(text: str, word: str, known: Iterable[str]) -> str:
    """This text, which says that there is no such thing, with the names that are like the word."""
    found = meant(word, known)
    asked = _("Did you mean %(meant)s?") % {"meant": ", ".join(found)}
    return f"{text} {asked}" if found else text


def with_suggestion(message: str) -> str:
    """An error of argparse about a word that is none of its choices, with the ones that are like it."""
    found = _CHOICE.search(message)
    if found is None:
        return message
    return message + question(found["given"].strip("'"), re.findall(r"[\w-]+", found["known"]))
