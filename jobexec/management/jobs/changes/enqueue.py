"""``jobs enqueue`` and ``jobs rerun``: new jobs."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from jobexec import by_hand
from jobexec.exceptions import HandlerNotFound, InvalidJob, JobNotFound
from jobexec.models import AbstractJob
from jobexec.operations.targets.lookup import find_job

from ..arguments import named, values
from ..arguments.meant import question
from ..output.screen import Exit, Screen, usage
from ..output.text import clean


class Enqueue:
    """Insert a job of a registered function, or of a type of external workers."""

    name = "enqueue"
    help = "Enqueue a job of a registered handler, or with --external of a type of external workers."
    positionals = " HANDLER"

    def add_options(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("handler", metavar="HANDLER", help="the name of the handler, or the type")
        by_name = "by name: an object; or by position: a list. For an external job its variables: an object"
        add("--arguments", type=values.json_object_or_list, default={}, metavar="JSON", help=by_name)
        add("--external", action="store_true", help="HANDLER is a type of external workers")
        add("--delay", metavar="DURATION", help="when it is due from now: seconds, or ISO 8601 like PT5M")
        add("--priority", type=int, metavar="N", help="higher values run sooner")
        add("--category", metavar="TEXT", help="the category; not for an external job")
        add("--tenant", dest="tenant_id", metavar="TEXT", help="the tenant")
        add("--process-instance", dest="process_instance_id", metavar="TEXT", help="the process instance")
        more = "other options, as for using() or external_job(): an object"
        add("--options", type=values.json_object, default={}, metavar="JSON", help=more)

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        names = ("delay", "priority", "category", "tenant_id", "process_instance_id")
        given = {name: options[name] for name in names if options[name] is not None}
        if "delay" in given:
            given["delay"] = _delay(given["delay"])
        if twice := given.keys() & options["options"].keys():
            raise usage(f"--options: {min(twice)} has an option of its own.")
        handler, arguments = options["handler"], options["arguments"]
        if options["external"]:
            if not isinstance(arguments, dict):
                raise usage("--arguments: expected the variables of an external job, a JSON object.")
        else:
            arguments = by_hand.named_arguments(_function(handler), arguments)
        more = {**given, **options["options"]}
        made = by_hand.enqueue(handler, arguments, more, using=screen.using, external=options["external"])
        return _tell(self.name, made, screen)


class Rerun:
    """Insert a job like another one."""

    name = "rerun"
    help = "Enqueue a new job like this one, with other arguments; the old one stays as it is."
    positionals = " ID"

    def add_options(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("id", type=named.job, help="the id or key of the job, which is in any state")
        by_name = "the arguments, or the variables, that are different, by name: an object"
        add("--arguments", type=values.json_object, default={}, metavar="JSON", help=by_name)

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        try:
            job = find_job(named.id_of(options["id"], screen.using), screen.using)
        except JobNotFound:
            if not screen.json:
                screen.say(_("There is no such job."), screen.style.WARNING)
            return Exit.LEFT_ALONE
        made = by_hand.rerun(job, options["arguments"], using=screen.using)
        return _tell(self.name, made, screen)


def _delay(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def _function(name: str) -> Any:
    try:
        return by_hand.function_named(name)
    except HandlerNotFound as error:
        raise InvalidJob(f"{error}{question(name, by_hand.function_names())}") from None


def _tell(operation: str, job: AbstractJob, screen: Screen) -> int:
    if screen.json:
        screen.tell({"operation": operation, "changed": [job.pk], "skipped": {}})
    else:
        text = _("Job %(id)s of %(handler)s has been enqueued.")
        screen.say(text % {"id": job.pk, "handler": clean(job.handler_type)}, screen.style.SUCCESS)
    return Exit.DONE
