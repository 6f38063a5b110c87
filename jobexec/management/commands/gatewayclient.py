"""``manage.py gatewayclient``: create and change clients of the gateways."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connections
from django.utils.translation import gettext as _

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.exceptions import ClientNotFound, InvalidClient
from jobexec.management.jobs.arguments.values import count, moment
from jobexec.management.jobs.output.failures import told
from jobexec.management.jobs.output.outcome import operator
from jobexec.management.jobs.output.screen import Exit, Screen, usage
from jobexec.management.jobs.output.table import Cell, Column
from jobexec.models import GatewayClient
from jobexec.operations.audit import acting
from jobexec.operations.manage import gateway_clients
from jobexec.operations.values.humanize import NONE, distance

NO_TENANT = "<default>"
_COLUMNS = ("name", "enabled", "types", "tenants", "permissions", "max_requests_per_second", "expiration_time")
_CHANGES = {
    "rotate": "give a client a new secret, and print it once",
    "retire": "retire the old secret of a client",
    "enable": "enable a client",
    "disable": "disable a client",
    "delete": "delete a client",
}


class Command(BaseCommand):
    help = "Manage gateway clients: add, list, rotate, retire, enable, disable, delete. A secret is printed only once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        groups = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        add = groups.add_parser("add", help="create a client, and print its secret once")
        many: dict[str, Any] = {"action": "append", "default": []}
        add.add_argument("--type", **many, metavar="TYPE", help="type of jobs it may execute, like mail.*; repeatable")
        add.add_argument("--tenant", **many, metavar="ID", help=f"tenant that it may see, or {NO_TENANT}; repeatable")
        permissions = ", ".join(gateway_clients.PERMISSIONS)
        add.add_argument("--permission", **many, metavar="NAME", help=f"one of {permissions}; default work; repeatable")
        add.add_argument("--rate", type=count, metavar="N", help="requests per second; 0: no limit")
        add.add_argument("--expires", type=moment, metavar="TIME", help="such as 2027-01-01 or +90d; default never")
        add.add_argument("--disabled", action="store_true", help="create the client disabled")
        for name, text in _CHANGES.items():
            groups.add_parser(name, help=text)
        old = groups.choices["rotate"].add_mutually_exclusive_group()
        old.add_argument("--keep-old", action="store_true", help="the old secret stays valid until it is retired")
        old.add_argument("--old-until", type=moment, metavar="TIME", help="... until then, such as 2027-01-01 or +7d")
        groups.add_parser("list", help="list all clients")
        for name, group in groups.choices.items():
            if name != "list":
                group.add_argument("name", type=_text, help="name of the client")
            group.add_argument("--database", metavar="ALIAS", help="the engine; default: setting GATEWAY_DATABASE")
            group.add_argument("--json", action="store_true", help="write JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        using = options["database"] or get_settings().gateway_database
        if using not in connections:
            raise usage(_("--database: there is no database %(using)r in DATABASES.") % {"using": using})
        with told(self.stdout, using), acting(operator("gatewayclient", options["action"])):
            self._act(Screen.of(self.stdout, self.style, using, json=options["json"]), options)

    def _act(self, screen: Screen, options: dict[str, Any]) -> None:
        try:
            _ACTIONS[options["action"]](screen, options)
        except InvalidClient as error:
            raise usage(str(error)) from error
        except ClientNotFound as error:
            raise CommandError(str(error), returncode=Exit.LEFT_ALONE) from error


def _text(text: str) -> str:
    if "\0" in text:
        raise ArgumentTypeError("expected a name without NUL")
    return text


def _add(screen: Screen, options: dict[str, Any]) -> None:
    if options["expires"] is not None and options["expires"] <= clock.now(screen.using):
        raise InvalidClient(f"--expires: expected a time in the future, got {options['expires']}.")
    row, secret = gateway_clients.create_client(
        screen.using,
        name=options["name"],
        types=options["type"],
        tenants=["" if tenant == NO_TENANT else tenant for tenant in options["tenant"]],
        permissions=options["permission"] or ["work"],
        max_requests_per_second=options["rate"],
        expiration_time=options["expires"],
        enabled=not options["disabled"],
    )
    _tell_secret(screen, row.name, secret)


def _rotate(screen: Screen, options: dict[str, Any]) -> None:
    until = options["old_until"]
    old = {"keep_old": options["keep_old"] or until is not None, "old_until": until}
    _tell_secret(screen, options["name"], gateway_clients.rotate_secret(screen.using, options["name"], **old))


def _retire(screen: Screen, options: dict[str, Any]) -> None:
    gateway_clients.retire_secret(screen.using, options["name"])
    _tell(screen, options["name"], _("The old secret of %(name)s is retired."))


def _tell_secret(screen: Screen, name: str, secret: str) -> None:
    if screen.json:
        screen.tell({"name": name, "secret": secret})
    else:
        screen.say(_("The secret of %(name)s; it is shown only once and cannot be retrieved later:") % {"name": name})
        screen.say(secret)


def _enable(screen: Screen, options: dict[str, Any]) -> None:
    gateway_clients.set_client_enabled(screen.using, options["name"], True)
    _tell(screen, options["name"], _("%(name)s is enabled."))


def _disable(screen: Screen, options: dict[str, Any]) -> None:
    gateway_clients.set_client_enabled(screen.using, options["name"], False)
    _tell(screen, options["name"], _("%(name)s is disabled; gateways may still accept it for a few seconds."))


def _delete(screen: Screen, options: dict[str, Any]) -> None:
    gateway_clients.delete_client(screen.using, options["name"])
    _tell(screen, options["name"], _("%(name)s is deleted."))


def _tell(screen: Screen, name: str, text: str) -> None:
    if screen.json:
        screen.tell({"name": name})
    else:
        screen.say(text % {"name": name})


def _list(screen: Screen, options: dict[str, Any]) -> None:
    rows = list(GatewayClient.objects.using(screen.using).order_by("name"))
    if screen.json:
        for row in rows:
            names = (*_COLUMNS, "create_time", "last_use")
            screen.tell({**{name: getattr(row, name) for name in names}, **_ends(row, clock.now(screen.using))})
        return
    titles = [_("name"), _("state"), _("types"), _("tenants"), _("permissions"), _("expires"), _("old secret")]
    titles += [_("last use")]
    columns = [Column(title, least=8 if at in (2, 3) else 0) for at, title in enumerate(titles)]
    if rows:
        screen.table(columns, [_cells(screen, row) for row in rows])
    else:
        screen.say(_("There are no clients."))


def _cells(screen: Screen, row: GatewayClient) -> list[Cell | str]:
    now = clock.now(screen.using)
    expired = row.expiration_time is not None and row.expiration_time <= now
    soon = gateway_clients.expires_soon(row, now)
    state: Cell | str = _("disabled") if not row.enabled else _("expired") if expired else _("enabled")
    if row.enabled and soon and not expired:
        state = Cell(_("expires soon"), screen.style.WARNING)
    tenants = [tenant or NO_TENANT for tenant in row.tenants]
    expires, used = [distance(time, now) if time else NONE for time in (row.expiration_time, row.last_use)]
    old = _ends(row, now)
    until = old["old_secret_until"]
    kept = NONE if not old["old_secret"] else distance(until, now) if until else _("until it is retired")
    return [
        *(row.name, state),
        *(", ".join(values) or _("all") for values in (row.types, tenants)),
        *(", ".join(row.permissions), expires, kept, used),
    ]


def _ends(row: GatewayClient, now: datetime) -> dict[str, Any]:
    kept = gateway_clients.has_old_secret(row, now)
    until = row.previous_expiration_time if kept else None
    return {"old_secret": kept, "old_secret_until": until, "expires_soon": gateway_clients.expires_soon(row, now)}


_ACTIONS: dict[str, Callable[[Screen, dict[str, Any]], None]] = {
    "add": _add,
    "list": _list,
    "rotate": _rotate,
    "retire": _retire,
    "enable": _enable,
    "disable": _disable,
    "delete": _delete,
}
