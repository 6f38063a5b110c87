"""The registry of operators' verbs, used by batches, the admin's actions and ``manage.py jobs``.

A verb that is added here can be performed by a batch. An action of the admin adds its form and where it is offered;
the command adds its name and options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from django.utils.dateparse import parse_datetime
from django.utils.functional import Promise
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from jobexec.conf.messages import check_moment
from jobexec.encryption import newest_key
from jobexec.exceptions import InvalidJob
from jobexec.models import (
    JOB_TABLES,
    WAITING_TABLES,
    AbstractJob,
    BlockedJob,
    DeadLetterJob,
    SuspendedJob,
    SuspensionScope,
    TimerJob,
)

from ..targets.for_each import OperationResult, Target
from ..values import humanize
from ..values.arguments import check_retries
from ..values.ranking import check_priority
from .adjust import delete_jobs, requeue, retry_now, set_due_date, set_priority, set_retries
from .cancel import cancel
from .dead_letters import move_to_dead_letter
from .due_dates import recalculate_due_date
from .reencrypt import reencrypt
from .suspend import activate, suspend
from .unlock import unlock
from .waits import end_wait

#: Converts a stored argument, given its name and value. Raises InvalidJob for an invalid value.
Reader: TypeAlias = Callable[[str, Any], Any]
Tables: TypeAlias = tuple[type[AbstractJob], ...]


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb of ``jobexec.operations`` on many jobs.

    ``tables`` are those in which it has a meaning. ``permission`` is the name in ``has_<permission>_permission`` of the
    admin. ``told`` is the success message for a number of jobs, formatted with the arguments. A ``warning`` is shown
    before the verb is executed. ``required`` and ``optional`` are its arguments by name.
    """

    function: Callable[..., Any]
    tables: Tables
    permission: str
    told: Callable[[int, Mapping[str, Any]], str]
    required: Mapping[str, Reader] = field(default_factory=dict)
    optional: Mapping[str, Reader] = field(default_factory=dict)
    warning: str | Promise = ""
    in_batches: bool = True
    #: Raises InvalidJob if it cannot be done at all, before a batch is started.
    check: Callable[[], object] | None = None

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as the function takes them. Raises InvalidJob for what is missing, unknown or invalid."""
        if self.check is not None:
            self.check()
        readers = {**self.required, **self.optional}
        missing, unknown = self.required.keys() - arguments.keys(), arguments.keys() - readers.keys()
        if missing or unknown:
            expected = ", ".join([*self.required, *(f"{name} (optional)" for name in self.optional)]) or "none"
            raise InvalidJob(f"arguments: expected {expected}, got {', '.join(sorted(arguments)) or 'none'}.")
        return {name: readers[name](name, value) for name, value in arguments.items()}

    def act(self, target: Target, arguments: Mapping[str, Any], using: str) -> OperationResult:
        """Perform the verb on these jobs."""
        result: OperationResult = self.function(target, using=using, **self.read(arguments))
        return result

    def done(self, count: int, arguments: Mapping[str, Any]) -> str:
        """The success message for ``count`` jobs."""
        due = arguments.get("due_date")
        words = {"count": count, "dates": period(arguments), "due": humanize.absolute(due) if due else ""}
        return self.told(count, arguments) % {**arguments, **words}


def as_json(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as they are stored: moments to the microsecond."""
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in arguments.items()}


# Arguments.


def _retries(name: str, value: Any) -> int:
    check_retries(value)
    return int(value)


def _priority(name: str, value: Any) -> int:
    check_priority(value)
    return int(value)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidJob(f"{name}: expected a string, got {value!r}.")
    return value


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidJob(f"{name}: expected True or False, got {value!r}.")
    return value


def _moment(name: str, value: Any) -> datetime | None:
    if isinstance(value, str):
        with suppress(ValueError):  # well-formed, but not a valid date
            value = parse_datetime(value) or value
    return check_moment(name, value)


# Success messages.


def _requeued(count: int, arguments: Mapping[str, Any]) -> str:
    if "retries" not in arguments:
        return ngettext("%(count)d job requeued.", "%(count)d jobs requeued.", count)
    return ngettext(
        "%(count)d job requeued with %(retries)d retries.", "%(count)d jobs requeued with %(retries)d retries.", count
    )


def period(arguments: Mapping[str, Any]) -> str:
    """The chosen period, to append to a word: " from … until …"; empty for now and without an end."""
    moments = {name: humanize.absolute(arguments[name]) for name in ("at", "until") if arguments.get(name)}
    begin = _(" from %(moment)s") % {"moment": moments["at"]} if "at" in moments else ""
    end = _(" until %(moment)s") % {"moment": moments["until"]} if "until" in moments else ""
    return begin + end


def scope_suspended(scope: str, value: str, count: int, arguments: Mapping[str, Any]) -> str:
    """The success message for a suspended scope, whose suspension has moved so many jobs."""
    text = ngettext(
        "%(scope)s %(value)s suspended%(dates)s; %(count)d job moved to the suspended jobs.",
        "%(scope)s %(value)s suspended%(dates)s; %(count)d jobs moved to the suspended jobs.",
        count,
    )
    return text % {"scope": _label(scope), "value": value, "dates": period(arguments), "count": count}


def scope_activated(scope: str, value: str, count: int, arguments: Mapping[str, Any]) -> str:
    """The same for one that is activated."""
    text = ngettext(
        "%(scope)s %(value)s activated%(dates)s; %(count)d job can run again.",
        "%(scope)s %(value)s activated%(dates)s; %(count)d jobs can run again.",
        count,
    )
    return text % {"scope": _label(scope), "value": value, "dates": period(arguments), "count": count}


def scope_not_suspended(scope: str, value: str) -> str:
    """What there is to say if nothing was to be activated."""
    return _("%(scope)s %(value)s was not suspended.") % {"scope": _label(scope), "value": value}


def _label(scope: str) -> str:
    return capfirst(str(SuspensionScope(scope).label))


#: All verbs, by the names that batches and the audit log use.
VERBS: dict[str, Verb] = {
    "requeue": Verb(requeue, (DeadLetterJob,), "requeue", _requeued, optional={"retries": _retries}),
    "set_retries": Verb(
        set_retries,
        JOB_TABLES,
        "retry",
        lambda count, _: ngettext(
            "%(count)d job has %(retries)d retries.", "%(count)d jobs have %(retries)d retries.", count
        ),
        required={"retries": _retries},
    ),
    "retry_now": Verb(
        retry_now,
        WAITING_TABLES,
        "retry",
        lambda count, _: ngettext("%(count)d job is due now.", "%(count)d jobs are due now.", count),
    ),
    "set_due_date": Verb(
        set_due_date,
        WAITING_TABLES,
        "reschedule",
        lambda count, _: ngettext("%(count)d job is due %(due)s.", "%(count)d jobs are due %(due)s.", count),
        required={"due_date": _moment},
    ),
    "set_priority": Verb(
        set_priority,
        JOB_TABLES,
        "prioritize",
        lambda count, _: ngettext(
            "%(count)d job has priority %(priority)d.", "%(count)d jobs have priority %(priority)d.", count
        ),
        required={"priority": _priority},
    ),
    "suspend": Verb(
        suspend,
        WAITING_TABLES,
        "suspend",
        lambda count, _: ngettext(
            "%(count)d job suspended%(dates)s. If it is running, it finishes; only its retry is held back.",
            "%(count)d jobs suspended%(dates)s. Those that are running finish; only their retries are held back.",
            count,
        ),
        optional={"at": _moment, "until": _moment},
    ),
    "activate": Verb(
        activate,
        WAITING_TABLES,
        "activate",
        lambda count, _: ngettext("%(count)d job activated.", "%(count)d jobs activated.", count),
        optional={"at": _moment},
    ),
    "cancel": Verb(
        cancel,
        WAITING_TABLES,
        "cancel",
        lambda count, _: ngettext(
            "%(count)d job cancelled. If it is running, it has been asked to stop.",
            "%(count)d jobs cancelled. Those that are running have been asked to stop.",
            count,
        ),
        warning=gettext_lazy(
            "Waiting jobs are removed and never run. Running jobs are asked to stop; their handlers decide whether and "
            "when they do. They are not retried."
        ),
    ),
    "delete": Verb(
        delete_jobs,
        JOB_TABLES,
        "delete",
        lambda count, _: ngettext("%(count)d job deleted.", "%(count)d jobs deleted.", count),
        warning=gettext_lazy("Deleted jobs never run and cannot be restored. Running jobs are skipped."),
    ),
    "move_to_dead_letter": Verb(
        move_to_dead_letter,
        WAITING_TABLES,
        "bury",
        lambda count, _: ngettext("%(count)d job is now a dead letter.", "%(count)d jobs are now dead letters.", count),
        optional={"reason": _text},
        warning=gettext_lazy(
            "The jobs are not retried until an operator requeues them, and each gets an incident. Running jobs are "
            "skipped."
        ),
    ),
    "recalculate_due_date": Verb(
        recalculate_due_date,
        (TimerJob, SuspendedJob),
        "reschedule",
        lambda count, _: ngettext("%(count)d job has a new due date.", "%(count)d jobs have a new due date.", count),
        optional={"from_creation": _flag},
    ),
    "reencrypt": Verb(
        reencrypt,
        JOB_TABLES,
        "reencrypt",
        lambda count, _: ngettext(
            "%(count)d job checked: if it is encrypted, it now uses the newest key.",
            "%(count)d jobs checked: those that are encrypted now use the newest key.",
            count,
        ),
        optional={"plain": _flag},
        check=newest_key,
    ),
    "end_wait": Verb(
        end_wait,
        (BlockedJob, SuspendedJob),
        "reschedule",
        lambda count, _: ngettext(
            "The wait of %(count)d job has ended.", "The waits of %(count)d jobs have ended.", count
        ),
        warning=gettext_lazy("They run without a message, as if their wait had timed out."),
    ),
    "unlock": Verb(
        unlock,
        JOB_TABLES,
        "unlock",
        lambda count, _: ngettext("%(count)d job unlocked.", "%(count)d jobs unlocked.", count),
        in_batches=False,
    ),
}

#: The verbs of batches.
OPERATIONS: dict[str, Verb] = {name: verb for name, verb in VERBS.items() if verb.in_batches}


def operation_named(name: str) -> Verb:
    """The verb of a batch. Raises InvalidJob for an unknown name, and lists the known ones."""
    operation = OPERATIONS.get(name)
    if operation is None:
        raise InvalidJob(f"operation: expected one of {', '.join(OPERATIONS)}, got {name!r}.")
    return operation
