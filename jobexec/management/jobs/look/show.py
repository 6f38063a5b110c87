"""``jobs show``: everything about one job."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from django.db.models import TextField
from django.db.models.functions import Cast
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from jobexec import clock
from jobexec.exceptions import JobNotFound
from jobexec.models import AbstractJob, JobLog, JobProgress, LogState, ResultStatus, TaskResult
from jobexec.operations.rows.bury_unreadable import UNREADABLE
from jobexec.operations.rows.redaction_by_definition import hide_text_by_definition
from jobexec.operations.targets.lookup import find_job
from jobexec.operations.values.humanize import NONE, absolute, both, duration
from jobexec.operations.values.messages import shown_message
from jobexec.operations.why.facts import HEAVY
from jobexec.redaction import redact_job, redact_results
from jobexec.sensitive import hide

from ..arguments import named
from ..output.rows import SECRET, as_object, standing
from ..output.screen import Exit, Screen, plain
from ..output.table import Cell, Column
from ..output.text import clean, clean_lines

MOST_ENTRIES = 100


class Show:
    """Write columns, arguments without sensitive values, the log of attempts and the last stack trace of a job."""

    name = "show"
    help = "Show everything about a job, or what the log contains about a job that is gone."
    positionals = " ID"

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", type=named.job, help="the id or key of the job")

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        id, using = named.id_of(options["id"], screen.using), screen.using
        try:
            job = find_job(id, using, defer=HEAVY)
        except JobNotFound:
            job = None
        result = _result(id, using)
        entries = list(JobLog.objects.using(using).filter(job_id=id).order_by("-timestamp", "-pk")[:MOST_ENTRIES])
        if screen.json:
            told = {} if result is None else {"result": result}
            screen.tell(_object(id, job, entries, using) | told)
        else:
            _say(id, job, entries, screen)
            if result is not None:
                _text(screen, _("Result"), _json(result))
        return Exit.DONE if job or entries or result else Exit.LEFT_ALONE


def _result(id: UUID, using: str) -> dict[str, Any] | None:
    """The result of a job that keeps it, without sensitive values; None before the end of its first attempt."""
    rows = TaskResult.objects.using(using).filter(pk=id)
    for row, shown in redact_results(rows, using):
        value = {"return_value": shown} if row.status == ResultStatus.SUCCESSFUL else {}
        return {"status": row.status, "end_time": row.end_time, "expires_at": row.expires_at, **value}
    return None


def _object(id: UUID, job: AbstractJob | None, entries: list[JobLog], using: str) -> dict[str, Any]:
    log = [{field.name: getattr(entry, field.name) for field in entry._meta.fields} for entry in entries]
    if job is None:
        return {"id": id, "state": None, "log": log}
    progress = _progress(job, using)
    return {
        **as_object(job),
        "handler_configuration": _arguments(job, using),
        "custom_headers": _headers(job),
        "exception_stack": job.exception_stack,
        "progress": progress and {"attempt": progress.attempt, "done": progress.done, "total": progress.total},
        "log": log,
    }


def _arguments(job: AbstractJob, using: str) -> Any:
    try:
        return redact_job(job)
    except UNREADABLE:
        rows = type(job)._base_manager.using(using).filter(pk=job.pk)
        text = rows.values_list(Cast("handler_configuration", TextField()), flat=True).first()
        return hide_text_by_definition(job.handler_type, text or "", using)


def _headers(job: AbstractJob) -> Any:
    try:
        return hide(job.custom_headers)
    except UNREADABLE:
        return None


def _progress(job: AbstractJob, using: str) -> JobProgress | None:
    return JobProgress.objects.using(using).filter(pk=job.pk).first() if job.locked else None


def _say(id: UUID, job: AbstractJob | None, entries: list[JobLog], screen: Screen) -> None:
    if job is None:
        known = _("The job is gone; these are its log entries.") if entries else _("There is no such job.")
        screen.say(f"{id}  {known}", screen.style.WARNING)
    else:
        word, paint = standing(job, screen.style)
        screen.say(f"{job.pk}  {clean(job.handler_type)}  {paint(word)}")
        for line in _columns(job, screen.using):
            screen.say(line)
        _text(screen, _("Arguments"), _json(_arguments(job, screen.using)))
        _text(screen, _("Headers"), _json(_headers(job)))
    if entries:
        screen.say()
        screen.say(_("Log, the latest first"), screen.style.MIGRATE_HEADING)
        screen.table(_log_columns(), [_log_cells(entry, screen.style) for entry in entries], indent=2)
    stack = (job.exception_stack if job else "") or next((each.exception_stack for each in entries), "")
    _text(screen, _("Stack trace of the last failure"), stack)


def _columns(job: AbstractJob, using: str) -> Iterator[str]:
    now, progress = clock.now(using), _progress(job, using)
    shown = {}
    for field in job._meta.concrete_fields:
        if field.name not in ("id", "handler_type", *HEAVY, *SECRET):
            value = getattr(job, field.attname)
            if field.name == "message" and value:
                value = json.dumps(shown_message(value), ensure_ascii=False)
            shown[capfirst(str(field.verbose_name))] = both(value, now) if hasattr(value, "tzinfo") else _word(value)
    if progress is not None:
        shown[_("Progress")] = f"{progress.done} / {'?' if progress.total is None else progress.total}"
    width = max(map(len, shown))
    for label, text in shown.items():
        yield f"  {label:<{width}}  {clean(text)}"


def _word(value: Any) -> str:
    if value is None or value == "":
        return NONE
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    return duration(value.total_seconds()) if hasattr(value, "total_seconds") else str(value)


def _json(value: Any) -> str:
    if value in (None, {}, [], ""):
        return ""
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, default=plain)


def _text(screen: Screen, title: str, text: str) -> None:
    if text:
        screen.say()
        screen.say(title, screen.style.MIGRATE_HEADING)
        for line in clean_lines(text):
            screen.say(f"  {line}")


def _log_columns() -> list[Column]:
    return [
        Column(_("time")),
        Column(_("event")),
        Column(_("attempt"), right=True),
        Column(_("node"), least=6, extra=2),
        Column(_("waited"), right=True, extra=4),
        Column(_("ran"), right=True, extra=3),
        Column(_("exception"), least=16, extra=1),
    ]


def _log_cells(entry: JobLog, style: Any) -> list[Cell | str]:
    colours = {LogState.FAILED: style.ERROR, LogState.SUCCESSFUL: style.SUCCESS}
    return [
        absolute(entry.timestamp),
        Cell(str(entry.get_state_display()), colours.get(LogState(entry.state), str)),
        str(entry.attempt) if entry.node else NONE,
        entry.node or NONE,
        duration(entry.wait),
        duration(entry.duration),
        entry.exception_message or NONE,
    ]
