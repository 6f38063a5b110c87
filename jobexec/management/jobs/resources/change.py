"""``jobs resource set``, ``reset``, ``hold`` and ``release``."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from jobexec import operations
from jobexec.models import BreakerState, Resource
from jobexec.operations.manage import resource_words
from jobexec.operations.reports.resources import resource_status
from jobexec.operations.sql.locks import lock_rows

from ..arguments import values
from ..output.screen import Exit, Screen, usage


class _Change:
    """A verb on one resource."""

    name: str
    positionals = " NAME"

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("resource", metavar="NAME", help="the resource; an entry of RESOURCES must cover it")

    def tell(self, name: str, text: str, screen: Screen) -> int:
        if screen.json:
            (status,) = resource_status(screen.using, [name])
            screen.tell({"operation": self.name, **status.as_json()})
        else:
            screen.say(text, screen.style.SUCCESS)
        return Exit.DONE


def _limit(text: str) -> int:
    """A number of jobs, or ``none``."""
    if text == "none":
        return 0
    if not text.isdecimal():
        raise ArgumentTypeError(f"expected a number of jobs, or 'none', got {text!r}")
    return int(text)


class SetLimits(_Change):
    """Override the limit or the rate of the settings; what is not given stays as it is."""

    name = "set"
    help = "Override the limit or the rate of a resource, or of an entry of RESOURCES such as 'customer:*'."

    def add_options(self, parser: ArgumentParser) -> None:
        super().add_options(parser)
        most = "how many of its jobs run at once, or 'none'"
        parser.add_argument("--limit", type=_limit, metavar="N", help=most)
        parser.add_argument("--rate", metavar="RATE", help="jobs and an ISO 8601 duration, such as 100/PT1M")

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        name, limit, rate = options["resource"], options["limit"], options["rate"]
        if limit is None and rate is None:
            raise usage(_("Expected --limit or --rate."))
        with transaction.atomic(using=screen.using):
            row = lock_rows(Resource.objects.using(screen.using).filter(pk=name)).first() or Resource(name=name)
            operations.set_resource_limits(
                name,
                limit=row.limit if limit is None else limit,
                rate=row.rate if rate is None else rate,
                using=screen.using,
            )
        return self.tell(name, resource_words.limited(1), screen)


class Reset(_Change):
    """Return to the limit and the rate of the settings."""

    name = "reset"
    help = "Restore the limit and the rate of the settings."

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        operations.set_resource_limits(options["resource"], using=screen.using)
        return self.tell(options["resource"], resource_words.limited(1), screen)


class Hold(_Change):
    """Hold a resource open or closed, regardless of its breaker."""

    name = "hold"
    help = "Hold a resource open, so that no job of it starts; or closed, regardless of its breaker."

    def add_options(self, parser: ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--closed", action="store_true", help="hold it closed")
        end = "when the hold ends; default: when you release it"
        parser.add_argument("--until", type=values.moment, metavar="MOMENT", help=end)

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        name, until, closed = options["resource"], options["until"], options["closed"]
        state = (BreakerState.CLOSED if closed else BreakerState.OPEN).value
        operations.hold_resource(name, state=state, until=until, using=screen.using)
        return self.tell(name, resource_words.held(1, state, until), screen)


class Release(_Change):
    """End a hold, and close the breaker."""

    name = "release"
    help = "End a hold and close the breaker."

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        operations.release_resource(options["resource"], using=screen.using)
        return self.tell(options["resource"], resource_words.released(1), screen)


CHANGES = (SetLimits(), Reset(), Hold(), Release())
