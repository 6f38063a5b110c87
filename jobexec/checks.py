"""Django system checks of jobexec. ``docs/reference/checks.md`` explains each id.

The checks read settings only and open no connection, so that ``manage.py check`` works without a database.
Nothing runs at import; the app's ``ready()`` calls :func:`register_checks`.
"""

from __future__ import annotations

import builtins
import pkgutil
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any

from django.apps import apps
from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.utils.module_loading import import_string

from jobexec import conf, encryption
from jobexec.broker.connection import BrokerMissing, kombu
from jobexec.conf import EngineSettings, Settings
from jobexec.conf.values import decoded_key
from jobexec.exceptions import InvalidRetryPlan
from jobexec.handlers.base import JobHandler
from jobexec.handlers.function import JobFunction
from jobexec.handlers.middleware import middleware_problems
from jobexec.handlers.registry import OWN, all_handlers, has_async_handlers
from jobexec.handlers.schedules import databases
from jobexec.operations.sql.dialect import dialect_of, is_supported, supported
from jobexec.retry import RetryPlan
from jobexec.runtime.connection_count import ordinary_connections, pool_size

TAG = "jobexec"
_NEAR = ("", "localhost", "127.0.0.1", "::1")


def register_checks() -> None:
    """Register all checks with Django, under the tag ``jobexec``. May be called more than once."""
    for check in (check_settings, check_project, check_engines, check_handlers, check_schedules, check_hooks):
        register(check, TAG)
    register(check_middleware, TAG)
    register(check_breakers, TAG)
    register(check_alerts, TAG)
    register(check_broker, TAG)
    register(check_encryption, TAG)
    register(check_authorization, TAG)
    register(check_gateways, TAG)
    register(check_deployment, TAG, deploy=True)


def check_settings(**kwargs: Any) -> list[CheckMessage]:
    """E001 and E003 (each problem of JOBEXEC), E006 (the default retry plan)."""
    problems = conf.problems(conf.raw_settings())
    hint = "See the settings reference of jobexec for the keys and their values."
    found: list[CheckMessage] = [Error(str(problem), hint=hint, id=problem.check_id) for problem in problems]
    if not problems:
        found.extend(_default_retry_plan(conf.get_settings()))
    return found


def check_project(**kwargs: Any) -> list[CheckMessage]:
    """E002 (USE_TZ), E005 (django-admin-rangefilter), W018 (JOBEXEC under another name)."""
    found: list[CheckMessage] = []
    if not django_settings.USE_TZ:
        found.append(Error("jobexec requires USE_TZ = True; got False.", hint=_HINT_USE_TZ, id="jobexec.E002"))
    if apps.is_installed("django.contrib.admin") and not apps.is_installed("rangefilter"):
        found.append(
            Error(
                "The admin pages of jobexec need the app 'rangefilter', which is not in INSTALLED_APPS.",
                hint="Add 'rangefilter' to INSTALLED_APPS; it is installed with jobexec (django-admin-rangefilter).",
                id="jobexec.E005",
            )
        )
    for name in dir(django_settings):
        if _is_like_ours(name) and isinstance(getattr(django_settings, name), dict):
            message = f"The setting {name} is not read: the settings of jobexec are in JOBEXEC."
            found.append(Warning(message, hint=f"Rename {name}, if it is meant for jobexec.", id="jobexec.W018"))
    return found


def _is_like_ours(name: str) -> bool:
    plain = name.replace("_", "")
    return name != "JOBEXEC" and (
        plain.startswith("JOBEXEC") or bool(get_close_matches(plain, ["JOBEXEC"], cutoff=0.8))
    )


def check_handlers(**kwargs: Any) -> list[CheckMessage]:
    """W006, W023: every job's default category and resource are in the settings CATEGORIES and RESOURCES."""
    if conf.problems(conf.raw_settings()):
        return []  # reported by check_settings
    known = conf.get_settings().categories
    # jobexec's own jobs get their category when they are created.
    handlers = [handler for handler in all_handlers() if not handler.name.startswith(OWN)]
    definitions = [handler.definition() for handler in handlers]
    return [*_without_resource(handlers), *_without_category(definitions, known)]


def _without_resource(handlers: Iterable[JobHandler]) -> Iterator[CheckMessage]:
    known = conf.get_settings().resources
    for handler in handlers:
        resource = handler.options.get("resource") if isinstance(handler, JobFunction) else None
        if isinstance(resource, str) and not known.covering(resource):  # a function decides for each call
            entries = ", ".join(map(repr, known)) or "nothing"
            yield Warning(
                f"The job {handler.name!r} uses the resource {resource!r}, which no entry covers.",
                hint=f"Add it to JOBEXEC['RESOURCES'], which names {entries}.",
                id="jobexec.W023",
            )


def _without_category(definitions: Iterable[dict[str, Any]], known: Sequence[str]) -> list[CheckMessage]:
    return [
        Warning(
            f"The job {definition['id']!r} is in the category {definition['category']!r}, which does not exist.",
            hint=f"Add it to JOBEXEC['CATEGORIES'], which names {', '.join(map(repr, known))}.",
            id="jobexec.W006",
        )
        for definition in definitions
        if definition["category"] not in known
    ]


def check_schedules(**kwargs: Any) -> list[CheckMessage]:
    """W013: every schedule in the code belongs to an engine, whose executors fire it."""
    if conf.problems(conf.raw_settings()):
        return []  # reported by check_settings
    engines = conf.get_settings().engines
    return [
        Warning(
            f"The schedule of the job {name!r} is never fired: its database {database!r} is not an engine.",
            hint=f"JOBEXEC['ENGINES'] names {', '.join(map(repr, engines))}; the job's option database is another.",
            id="jobexec.W013",
        )
        for name, database in databases().items()
        if database not in engines
    ]


def check_hooks(**kwargs: Any) -> list[CheckMessage]:
    """E008: the function that ADMIN_TENANTS names can be imported and is callable."""
    if conf.problems(conf.raw_settings()):
        return []  # reported by check_settings
    path = conf.get_settings().admin_tenants
    if path is None:
        return []
    problem = _problem_of(path)
    if not problem:
        return []
    return [Error(f"JOBEXEC['ADMIN_TENANTS']: {path!r} {problem}.", hint=_HINT_HOOK, id="jobexec.E008")]


def check_middleware(**kwargs: Any) -> list[CheckMessage]:
    """E016: each middleware can be imported, and serves all handlers."""
    if conf.problems(conf.raw_settings()):
        return []  # reported by check_settings
    settings = conf.get_settings()
    is_async = settings.async_jobs > 0 and has_async_handlers()
    return [
        Error(f"JOBEXEC['MIDDLEWARE']: {problem}.", hint=_HINT_MIDDLEWARE, id="jobexec.E016")
        for problem in middleware_problems(settings.middleware, is_async=is_async)
    ]


def check_breakers(**kwargs: Any) -> list[CheckMessage]:
    """W021: the exceptions that circuit breakers count or ignore exist, under these names."""
    if conf.problems(conf.raw_settings()):
        return []  # reported by check_settings
    return [
        Warning(
            f"JOBEXEC['RESOURCES'][{entry!r}]: the breaker names {name!r}, {problem}.",
            hint=_HINT_BREAKER,
            id="jobexec.W021",
        )
        for entry, limits in conf.get_settings().resources.items()
        if limits.breaker is not None
        for name in (*limits.breaker.counts, *limits.breaker.ignores)
        if (problem := _problem_of_exception(name))
    ]


def _problem_of_exception(name: str) -> str:
    """What is wrong with the path of an exception; empty for the code of an error, which has no dot."""
    try:
        found = pkgutil.resolve_name(name) if "." in name else getattr(builtins, name, None)
    except (ImportError, AttributeError, ValueError) as error:
        return f"which cannot be imported: {error}"
    if found is None:
        return ""
    if not (isinstance(found, type) and issubclass(found, BaseException)):
        return "which is not an exception" if "." in name else ""
    path = f"{found.__module__}.{found.__qualname__}"
    return "" if path == name else f"which is {path}"


def check_alerts(**kwargs: Any) -> list[CheckMessage]:
    """W017: the categories that DEAD_LETTER_ALERTS names exist."""
    if conf.problems(conf.raw_settings()):
        return []  # reported by check_settings
    settings = conf.get_settings()
    return [
        Warning(
            f"JOBEXEC['DEAD_LETTER_ALERTS'][{name!r}]: there is no category {category!r}.",
            hint="Name one of the setting CATEGORIES, or leave 'categories' out.",
            id="jobexec.W017",
        )
        for name, target in (settings.dead_letter_alerts or {}).items()
        for category in target.categories
        if category not in settings.categories
    ]


def check_broker(**kwargs: Any) -> list[CheckMessage]:
    """E013: with DISPATCH "broker", kombu is installed."""
    if conf.problems(conf.raw_settings()) or conf.get_settings().dispatch != "broker":
        return []
    try:
        kombu()
    except BrokerMissing:
        text = "JOBEXEC['DISPATCH'] is 'broker', and kombu is not installed."
        return [Error(text, hint=_HINT_BROKER, id="jobexec.E013")]
    return []


def check_encryption(**kwargs: Any) -> list[CheckMessage]:
    """E020: there is a key if jobs are encrypted. E021: cryptography is installed. E022: functions of keys exist."""
    if conf.problems(conf.raw_settings()):
        return []  # reported by check_settings
    settings, found = conf.get_settings(), list[CheckMessage]()
    keys = settings.encryption_keys or {}
    encrypted = [handler.name for handler in all_handlers() if getattr(handler, "encrypted", False)]
    if not keys and (settings.encrypt_arguments or encrypted):
        why = "JOBEXEC['ENCRYPT_ARGUMENTS'] is True" if settings.encrypt_arguments else f"{encrypted[0]!r} is encrypted"
        text = f"{why}, and JOBEXEC['ENCRYPTION_KEYS'] has no key: such jobs cannot be enqueued."
        found.append(Error(text, hint=_HINT_KEYS, id="jobexec.E020"))
    if keys and not encryption.is_installed():
        text = "JOBEXEC['ENCRYPTION_KEYS'] has keys, and the package cryptography is not installed."
        found.append(Error(text, hint="Install jobexec with the extra 'encryption'.", id="jobexec.E021"))
    for id, key in keys.items():
        if isinstance(key, str) and decoded_key(key) is None and (problem := _problem_of(key)):
            text = f"JOBEXEC['ENCRYPTION_KEYS'][{id!r}]: {key!r} {problem}."
            found.append(Error(text, hint="Name a function that returns the key.", id="jobexec.E022"))
    return found


def check_authorization(**kwargs: Any) -> list[CheckMessage]:
    """E023: the policy in AUTHORIZATION can be imported and is callable."""
    if conf.problems(conf.raw_settings()):
        return []  # reported by check_settings
    path = conf.get_settings().authorization
    problem = _problem_of(path) if path else ""
    text = f"JOBEXEC['AUTHORIZATION']: {path!r} {problem}."
    return [Error(text, hint=_HINT_POLICY, id="jobexec.E023")] if problem else []


def _problem_of(path: str) -> str:
    try:
        return "" if callable(import_string(path)) else "is not callable"
    except ImportError as error:
        return f"cannot be imported: {error}"


def check_gateways(**kwargs: Any) -> list[CheckMessage]:
    """W015: no authentication. E014: users may log in, but there are none. E015: GATEWAY_DATABASE is not an engine."""
    if conf.problems(conf.raw_settings()):
        return []  # reported by check_settings
    settings = conf.get_settings()
    found: list[CheckMessage] = []
    if settings.gateway_auth == "none":
        text = "JOBEXEC['GATEWAY_AUTH'] is 'none': every client that reaches a gateway may fetch and finish every job."
        if not django_settings.DEBUG:
            text += " DEBUG IS OFF: THIS LOOKS LIKE PRODUCTION."
        found.append(Warning(text, hint=_HINT_AUTH, id="jobexec.W015"))
    alias = settings.gateway_database
    if "GATEWAY_DATABASE" in settings.source and alias not in settings.engines:
        known = ", ".join(map(repr, settings.engines))
        text = f"JOBEXEC['GATEWAY_DATABASE'] is {alias!r}, which is not an engine: expected one of {known}."
        found.append(Error(text, hint="Add it to ENGINES.", id="jobexec.E015"))
    if settings.gateway_users and not apps.is_installed("django.contrib.auth"):
        text = "JOBEXEC['GATEWAY_USERS'] is True, but 'django.contrib.auth' is not in INSTALLED_APPS."
        found.append(Error(text, hint="Set it to False: gateway clients have secrets.", id="jobexec.E014"))
    return found


def check_engines(**kwargs: Any) -> list[CheckMessage]:
    """E004, E007 and the warnings about engines: does each engine's database suit its settings?"""
    if conf.problems(conf.raw_settings()):
        return []  # reported by check_settings
    settings = conf.get_settings()
    found: list[CheckMessage] = [*_acquisitions(settings)]
    for engine in settings.engines.values():
        unsupported = list(_unsupported(engine))
        found.extend(unsupported)
        if not unsupported:
            found.extend(_single_writer(settings, engine))
            found.extend(_missing_options(engine))
            found.extend(_pool_size(settings, engine))
            found.extend(_pooler(engine))
            found.extend(_listen_database(engine))
    return found


def check_deployment(**kwargs: Any) -> list[CheckMessage]:
    """W007, for ``check --deploy``: do connections to other hosts time out when the network dies silently?"""
    if conf.problems(conf.raw_settings()):
        return []  # reported by check_settings
    engines = conf.get_settings().engines
    return [message for alias in engines if not list(_unsupported(engines[alias])) for message in _patience(alias)]


_HINT_AUTH = "Leave GATEWAY_AUTH at 'required', and create clients with manage.py gatewayclient or in the admin."
_HINT_BROKER = "Install jobexec with the extra 'broker', or leave DISPATCH at 'database'."
_HINT_MIDDLEWARE = (
    "Expected a function that takes the next callable and returns one that takes a JobContext; "
    "for async handlers, decorate it with django.utils.decorators.sync_and_async_middleware."
)
_HINT_BREAKER = (
    "Name the class by the module that defines it, such as 'requests.exceptions.Timeout' or 'builtins.OSError'. "
    "If it is the code of an error that external workers throw, silence this check."
)
_HINT_KEYS = (
    "Make a key with: python -c 'import base64, os; print(base64.urlsafe_b64encode(os.urandom(32)).decode())'. "
    "Keep it out of the database and of the repository."
)
_HINT_POLICY = "Name a function or a class whose instances take an AuthorizationRequest and return True to permit."
_HINT_HOOK = "Name a function that takes the request and returns tenant ids, or None for all."
_HINT_USE_TZ = "With naive datetimes, a due date would be a different moment on a node in another time zone."


def _acquisitions(settings: Settings) -> Iterator[CheckMessage]:
    """W016: every acquisition in ACQUISITIONS is used, and together they serve every category."""
    engines = settings.engines.values()
    used = {each.name for engine in engines for each in engine.acquisitions}
    for name in settings.source.get("ACQUISITIONS", {}):
        if name not in used:
            text = f"The acquisition {name!r} in JOBEXEC['ACQUISITIONS'] is not used by any engine."
            yield Warning(text, hint="Name it in ACQUISITIONS of an engine.", id="jobexec.W016")
    for engine in engines:
        for category in settings.categories:
            if not any(each.serves(category) for each in engine.acquirers):
                text = f"No acquisition of the engine {engine.alias!r} serves the category {category!r}: its jobs wait."
                hint = "Name the category in CATEGORIES of one of them, or give one of them no CATEGORIES."
                yield Warning(text, hint=hint, id="jobexec.W016")


def _default_retry_plan(settings: Settings) -> Iterator[CheckMessage]:
    try:
        RetryPlan.parse(settings.default_retry_plan)
    except InvalidRetryPlan as error:
        yield Error(f"JOBEXEC['DEFAULT_RETRY_PLAN']: {error}", id="jobexec.E006")


def _unsupported(engine: EngineSettings) -> Iterator[CheckMessage]:
    where = f"The job engine {engine.alias!r} (DATABASES[{engine.alias!r}])"
    try:
        connection = connections[engine.alias]
    except ImproperlyConfigured as error:
        yield Error(f"{where} has a database backend that cannot be loaded: {error}", id="jobexec.E004")
        return
    if not is_supported(connection):
        yield Error(f"{where} must be {supported()}; got the vendor {connection.vendor!r}.", id="jobexec.E004")


def _single_writer(settings: Settings, engine: EngineSettings) -> Iterator[CheckMessage]:
    connection = connections[engine.alias]
    if not dialect_of(connection).single_writer:
        return
    name = connection.display_name
    if engine.acquisition == "skip_locked":
        yield Error(
            f"The job engine {engine.alias!r} cannot use ACQUISITION 'skip_locked': {name} has no SKIP LOCKED.",
            hint="Use 'auto' or 'optimistic'.",
            id="jobexec.E007",
        )
    if settings.atomic_jobs:
        yield Warning(
            f"JOBEXEC['ATOMIC_JOBS'] is True and the job engine {engine.alias!r} is on {name}: while one such job "
            "runs, nothing else can write to the database.",
            hint="Leave ATOMIC_JOBS False and give atomic=True to the short jobs that need it.",
            id="jobexec.W003",
        )


def _missing_options(engine: EngineSettings) -> Iterator[CheckMessage]:
    connection = connections[engine.alias]
    missing = dialect_of(connection).missing_options(connection.settings_dict)
    if missing:
        options = {**connection.settings_dict["OPTIONS"], **missing}
        yield Warning(
            f"The {connection.display_name} database of the job engine {engine.alias!r} is not set up for concurrent "
            "writers: threads and views will fail with 'database is locked'.",
            hint=f"Set DATABASES[{engine.alias!r}]['OPTIONS'] = {options!r}",
            id="jobexec.W001",
        )


def _pool_size(settings: Settings, engine: EngineSettings) -> Iterator[CheckMessage]:
    size = pool_size(connections[engine.alias].settings_dict)
    needed = ordinary_connections(settings, engine)
    if size is not None and needed > size:
        yield Warning(
            f"The connection pool of the job engine {engine.alias!r} has at most {size} connections, but "
            f"{settings.threads} threads and the executor's own loops need up to {needed}.",
            hint=f"Set DATABASES[{engine.alias!r}]['OPTIONS']['pool']['max_size'] to at least {needed}, "
            "or lower JOBEXEC['THREADS'].",
            id="jobexec.W002",
        )


def _patience(alias: str) -> Iterator[CheckMessage]:
    connection = connections[alias]
    database = connection.settings_dict
    options = database["OPTIONS"]
    missing = {name: value for name, value in dialect_of(connection).network_options.items() if name not in options}
    host = str(database["HOST"])
    if host in _NEAR or host.startswith("/") or "service" in options or not missing:
        return
    yield Warning(
        f"The database of the job engine {alias!r} is on another host, and its OPTIONS lack {', '.join(missing)}: when "
        "the network dies silently, the executor's threads wait for it for minutes or hours.",
        hint=f"For example DATABASES[{alias!r}]['OPTIONS'] |= {missing!r}",
        id="jobexec.W007",
    )


def _pooler(engine: EngineSettings) -> Iterator[CheckMessage]:
    if not engine.notify or engine.listen_database is not None:
        return
    connection = connections[engine.alias]
    if dialect_of(connection).notify is not None and connection.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS"):
        yield Warning(
            f"The job engine {engine.alias!r} seems to be behind a pooler in transaction mode "
            "(DISABLE_SERVER_SIDE_CURSORS is True), where LISTEN receives nothing: jobs wait for the next poll.",
            hint="Name an alias with a direct connection in LISTEN_DATABASE, or set NOTIFY to False.",
            id="jobexec.W005",
        )


def _listen_database(engine: EngineSettings) -> Iterator[CheckMessage]:
    if engine.listen_database is None:
        return
    reason = _why_not_listening(engine)
    if reason:
        yield Warning(
            f"LISTEN_DATABASE {engine.listen_database!r} of the job engine {engine.alias!r} has no effect: {reason}.",
            hint="Name an alias with a direct connection to the same PostgreSQL database, or leave it out.",
            id="jobexec.W004",
        )


def _why_not_listening(engine: EngineSettings) -> str:
    if not engine.notify:
        return "NOTIFY is False"
    if dialect_of(connections[engine.alias]).notify is None:
        return "the engine is not on PostgreSQL"
    listener = connections[str(engine.listen_database)]
    if dialect_of(listener).notify is None:
        return "it is not a PostgreSQL database"
    if listener.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS"):
        return "it seems to be behind a pooler, too (DISABLE_SERVER_SIDE_CURSORS is True)"
    names = listener.settings_dict["NAME"], connections[engine.alias].settings_dict["NAME"]
    if names[0] != names[1]:
        return f"it is another database ({names[0]!r}, the engine's is {names[1]!r})"
    return ""
