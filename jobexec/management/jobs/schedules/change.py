"""``jobs schedules enable``, ``disable``, ``fire`` and ``delete``."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from jobexec.exceptions import JobExecError, ScheduleNotFound
from jobexec.models import Schedule
from jobexec.operations import schedules

from ..arguments.meant import question
from ..output.screen import Exit, Screen, ask
from .rows import some_names, tell_schedules


@dataclass
class ChangeSchedule:
    """A verb on named schedules. With a ``warning`` it asks first. The result of ``function`` may have a ``job``."""

    name: str
    help: str
    function: Callable[[str, str], Any]
    counted: Callable[[int], str]
    warning: Any = ""
    positionals: str = " NAME [NAME ...]"

    def add_options(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("schedules", nargs="+", metavar="NAME", help="the schedules")
        add("--dry-run", action="store_true", help="only show which schedules would be affected")
        if self.warning:
            add("--yes", action="store_true", help="do not ask for confirmation")

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        names = list(dict.fromkeys(options["schedules"]))
        if options["dry_run"]:
            return self._dry(names, screen)
        if self.warning and not options["yes"]:
            text = ngettext("This affects %(count)s schedule.", "This affects %(count)s schedules.", len(names))
            if not ask(f"{text % {'count': len(names)}} {self.warning} {_('Are you sure?')}"):
                return Exit.LEFT_ALONE
        changed: dict[str, UUID | None] = {}
        skipped: dict[str, str] = {}
        for name in names:
            try:
                changed[name] = getattr(self.function(screen.using, name), "job", None)
            except ScheduleNotFound as error:
                skipped[name] = f"{error}{question(name, some_names(screen.using))}"
            except JobExecError as error:
                skipped[name] = str(error)
        self._tell(changed, skipped, screen)
        return Exit.LEFT_ALONE if skipped else Exit.DONE

    def _dry(self, names: Sequence[str], screen: Screen) -> int:
        found = list(Schedule.objects.using(screen.using).filter(name__in=names).order_by("name"))
        tell_schedules(found, screen)
        if not screen.json:
            screen.say(_("Nothing has been changed."))
        return Exit.DONE if len(found) == len(names) else Exit.LEFT_ALONE

    def _tell(self, changed: Mapping[str, UUID | None], skipped: Mapping[str, str], screen: Screen) -> None:
        jobs = {name: job for name, job in changed.items() if job is not None}
        if screen.json:
            made = {"jobs": jobs} if jobs else {}
            screen.tell({"operation": self.name, "changed": list(changed), "skipped": skipped, **made})
            return
        done = self.counted(len(changed)) % {"count": len(changed)}
        screen.say(done, screen.style.SUCCESS if changed else str)
        for name, job in jobs.items():
            screen.say(f"  {job}  {name}")
        if skipped:
            screen.say(_left(len(skipped)), screen.style.WARNING)
            for name, reason in skipped.items():
                screen.say(f"  {name}  {reason}")


def _left(count: int) -> str:
    text = ngettext("%(count)d schedule was skipped:", "%(count)d schedules were skipped:", count)
    return text % {"count": count}


@dataclass(frozen=True)
class _Made:
    job: UUID


def _fire(using: str, name: str) -> _Made:
    return _Made(schedules.fire_now(using, name).pk)


CHANGES = (
    ChangeSchedule(
        "enable",
        "Enable schedules; each fires at its first time from now on.",
        lambda using, name: schedules.set_enabled(using, name, True),
        lambda count: ngettext("%(count)d schedule enabled.", "%(count)d schedules enabled.", count),
    ),
    ChangeSchedule(
        "disable",
        "Disable schedules; times that pass until they are enabled are skipped.",
        lambda using, name: schedules.set_enabled(using, name, False),
        lambda count: ngettext("%(count)d schedule disabled.", "%(count)d schedules disabled.", count),
    ),
    ChangeSchedule(
        "fire",
        "Create an additional job now, also for a disabled schedule; the times do not change.",
        _fire,
        lambda count: ngettext("%(count)d schedule fired:", "%(count)d schedules fired:", count),
    ),
    ChangeSchedule(
        "delete",
        "Delete schedules; existing jobs are not affected.",
        schedules.delete_schedule,
        lambda count: ngettext("%(count)d schedule deleted.", "%(count)d schedules deleted.", count),
        gettext_lazy(
            "Existing jobs are not affected. A schedule that the code declares is created again when the next executor "
            "starts; disable it instead."
        ),
    ),
)
