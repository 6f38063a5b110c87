"""``manage.py processes``: deploy files, and inspect running instances."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.core.serializers.json import DjangoJSONEncoder
from django.db import router
from django.db.models import Count

from jobexec import clock
from jobexec.management.jobs.arguments.meant import MOST, question
from jobexec.management.jobs.arguments.parser import Parser, suggesting
from jobexec.management.jobs.arguments.values import count, json_object
from jobexec.management.jobs.output.failures import engine_named, told
from jobexec.management.jobs.output.outcome import operator
from jobexec.management.jobs.output.screen import Exit
from jobexec.management.jobs.output.text import clean
from jobexec.operations.audit import acting
from jobexec.operations.values.humanize import absolute
from jobexec.processes.definition import InvalidProcess
from jobexec.processes.engine.exceptions import StepError
from jobexec.processes.exceptions import UnknownProcess
from jobexec.processes.models import ProcessDefinition, ProcessInstance
from jobexec.processes.operations.check import check
from jobexec.processes.operations.deploy import deploy, files_of_apps
from jobexec.processes.operations.query import Listed, listed, view_of
from jobexec.processes.operations.start import start
from jobexec.processes.operations.why import shortened, why
from jobexec.processes.store import definitions
from jobexec.sensitive import HIDDEN, hide, is_sensitive

from .. import changes

_JOBS_SHOWN = 50


class Command(BaseCommand):
    help = "Deploy BPMN files; list, start, show, change and check process instances."

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        return suggesting(super().create_parser(prog_name, subcommand, **kwargs))

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--database", metavar="ALIAS", help="default: the database of the models")
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=Parser)
        deploy = actions.add_parser("deploy", help="deploy files; without names, processes/*.bpmn of all apps")
        deploy.add_argument("files", nargs="*", metavar="FILE")
        deploy.add_argument("--tenant", default="", help="the tenant of the processes")
        listed = actions.add_parser(
            "list",
            help="list the processes with the number of their running instances; with KEY or an option: instances",
        )
        listed.add_argument("key", nargs="?", help="the key of a process: list its running instances, the newest first")
        listed.add_argument("--instances", action="store_true", help="list the running instances of all processes")
        listed.add_argument("--business-key", help="only instances with this business key")
        listed.add_argument("--ended", action="store_true", help="also instances that have ended")
        listed.add_argument(
            "--limit", type=count, metavar="N", default=50, help="at most so many instances (default 50)"
        )
        listed.add_argument("--json", action="store_true", help="write JSON; one object per line for each instance")
        started = actions.add_parser("start", help="start an instance")
        started.add_argument("key", help="the key of the process")
        started.add_argument("--business-key", default="")
        started.add_argument(
            "--variables", type=json_object, default={}, help="a JSON object: the variables of the instance"
        )
        started.add_argument("--tenant", default="")
        shown = actions.add_parser("show", help="show the active elements of an instance, its variables and jobs")
        shown.add_argument("instance", type=changes.instance, help=changes.ITS_ID)
        changes.add_arguments(actions)
        actions.add_parser("check", help="look for inconsistent rows; exits with 1 if there are any")

    def handle(self, *args: Any, **options: Any) -> None:
        default = router.db_for_write(ProcessInstance)
        with told(self.stdout, options["database"] or default, app="jobexec_processes"):
            using = engine_named(options["database"], default)
            with acting(operator("processes", options["action"])):
                self._act(using, options)

    def _act(self, using: str, options: dict[str, Any]) -> None:
        change = changes.CHANGES.get(options["action"])
        try:
            if change is not None:
                self.stdout.write(change(using, options))
            else:
                getattr(self, f"_{options['action']}")(using, options)
        except UnknownProcess as error:
            keys = ProcessDefinition.objects.using(using).order_by("key").values_list("key", flat=True)
            named = next((options[name] for name in ("key", "process", "target") if options.get(name)), "")
            asked = question(named, keys.distinct()[:MOST])
            raise CommandError(f"{error}{asked}", returncode=Exit.ERROR) from error
        except (InvalidProcess, StepError, ProcessInstance.DoesNotExist) as error:
            raise CommandError(str(error), returncode=Exit.ERROR) from error

    def _deploy(self, using: str, options: dict[str, Any]) -> None:
        files = [Path(name) for name in options["files"]] or files_of_apps()
        for file in files:
            if not file.is_file():
                raise CommandError(f"{file}: there is no such file.", returncode=2)
        made = deploy(*files, tenant_id=options["tenant"], source="manage.py processes deploy", using=using)
        for each in made:
            self.stdout.write(f"{each.key}: version {each.version}")
        if not made:
            self.stdout.write("Nothing has changed." if files else "There are no files to deploy.")

    def _list(self, using: str, options: dict[str, Any]) -> None:
        if (
            options["key"] is not None
            or options["instances"]
            or options["business_key"] is not None
            or options["ended"]
        ):
            self._list_instances(using, options)
        else:
            self._list_processes(using, options)

    def _list_instances(self, using: str, options: dict[str, Any]) -> None:
        rows = ProcessInstance.objects.using(using).defer("final_variables")
        filters = {"definition_key": options["key"], "business_key": options["business_key"]}
        rows = rows.filter(**{name: value for name, value in filters.items() if value is not None})
        rows = rows if options["ended"] else rows.active()
        limit = options["limit"]
        found = list(rows.order_by("-start_time", "-pk")[: limit + 1])
        for each in listed(using, found[:limit]):
            self.stdout.write(json.dumps(each.as_json()) if options["json"] else _line(each))
        if len(found) > limit and not options["json"]:
            self.stdout.write(f"More than {limit} instances: --limit N shows more of them.")
        if not found and not options["json"]:
            key = options["key"]
            if key is not None and not ProcessDefinition.objects.using(using).filter(key=key).exists():
                raise definitions.unknown(key)
            self.stdout.write("There are none.")

    def _list_processes(self, using: str, options: dict[str, Any]) -> None:
        active = ProcessInstance.objects.using(using).active().order_by()
        running = dict(active.values_list("definition_id").annotate(Count("pk")))
        rows = ProcessDefinition.objects.using(using).order_by("version", "deploy_time")
        latest: dict[tuple[str, str], dict[str, Any]] = {}
        for id, key, version, tenant in rows.values_list("pk", "key", "version", "tenant_id"):
            count = running.get(id, 0) + latest.get((key, tenant), {"running": 0})["running"]
            latest[key, tenant] = {"key": key, "version": version, "tenant": tenant, "running": count}
        found = [latest[each] for each in sorted(latest)]
        if options["json"]:
            self.stdout.write(json.dumps(found, indent=2))
            return
        for each in found:
            what = f"version {each['version']}" if each["version"] else "a flow"
            tenant = f" of {clean(each['tenant'])}" if each["tenant"] else ""
            self.stdout.write(f"{each['key']}{tenant}: {what}, {each['running']} running")

    def _start(self, using: str, options: dict[str, Any]) -> None:
        started = start(
            options["key"],
            business_key=options["business_key"],
            variables=options["variables"],
            tenant_id=options["tenant"],
            using=using,
        )
        self.stdout.write(f"{started.pk} {started.state}")

    def _show(self, using: str, options: dict[str, Any]) -> None:
        view = view_of(using, changes.instance_in(options, using))
        shown = view.instance
        self.stdout.write(
            f"{shown.definition_key} {clean(shown.business_key)} {shown.state}, started {absolute(shown.start_time)}"
        )
        if shown.delete_reason:
            self.stdout.write(f"  reason: {clean(shown.delete_reason)}")
        for execution in view.executions:
            self.stdout.write(f"  at {execution.element_id}: {execution.state}")
        for task in view.tasks:
            self.stdout.write(f"  task {clean(task.name or task.element_id)}: {clean(task.assignee or 'unassigned')}")
        for job in view.jobs[:_JOBS_SHOWN]:
            message = clean(job.exception_message)
            self.stdout.write(f"  job {job.pk} at {job.failed_activity_id}: {job._meta.verbose_name} {message}")
        if len(view.jobs) > _JOBS_SHOWN:
            self.stdout.write(f"  and {len(view.jobs) - _JOBS_SHOWN} more jobs")
        for name, value, element in view.values:
            where = f" (at {element})" if element else ""
            value = HIDDEN if is_sensitive(name) else hide(value)
            self.stdout.write(f"  {clean(name)}{where} = {json.dumps(value, cls=DjangoJSONEncoder)[:200]}")
        process = definitions.process(using, shown.definition_id) if view.definition is not None else None
        for reason in shortened(why(view, process, clock.now(using))):
            self.stdout.write(f"  {clean(reason.text)}")

    def _check(self, using: str, options: dict[str, Any]) -> None:
        found = check(using=using)
        for each in found:
            self.stdout.write(f"{each.instance}: {each.message}")
        if found:
            raise SystemExit(1)
        self.stdout.write("No problems.")


def _line(each: Listed) -> str:
    """An instance in a list, as text."""
    row = each.instance
    parts = [f"{row.pk}  {row.definition_key}", clean(row.business_key), row.state, absolute(row.start_time)]
    parts += [f"at {', '.join(each.waits_at)}"] if each.waits_at else []
    parts += [f"incidents: {each.incidents}"] if each.incidents else []
    return "  ".join(part for part in parts if part)
