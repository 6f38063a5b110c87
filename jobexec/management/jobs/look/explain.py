"""``jobs why``: why a job is not running."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from jobexec.operations.why.explain import Explanation, why
from jobexec.redaction import load_calls

from ..arguments import named
from ..output.rows import standing
from ..output.screen import Exit, Screen
from ..output.text import bulleted, clean


class Why:
    """Write all current reasons, the decisive one first."""

    name = "why"
    help = "Explain why a job is not running, or where it runs: all current reasons, the decisive one first."
    positionals = " ID"

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", type=named.job, help="the id or key of the job")

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        found = why(named.id_of(options["id"], screen.using), using=screen.using)
        if screen.json:
            screen.tell(found.as_json())
        else:
            _say(found, screen)
        return Exit.DONE


def _say(found: Explanation, screen: Screen) -> None:
    if found.job is not None:
        word, paint = standing(found.job, screen.style)
        call = load_calls([found.job], screen.using).get(found.job.pk, found.job.handler_type)
        screen.say(f"{found.id}  {clean(call)}  {paint(word)}")
    for number, reason in enumerate(found.reasons):
        for line in bulleted(reason.text, "* ", screen.width):
            screen.say(line, screen.style.MIGRATE_LABEL if number == 0 else str)
