"""Converts the raw JOBEXEC dict to Settings, and collects every problem."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from django.conf import settings as django_settings

from jobexec.conf.schema import EngineSettings, Settings, parsers
from jobexec.conf.values import MAX_NAME_LENGTH, Parser, is_name, names
from jobexec.exceptions import InvalidSettings

GLOBAL = parsers(Settings)
PER_ENGINE = parsers(EngineSettings)
PER_ACQUISITION = {"CATEGORIES": names, **parsers(EngineSettings, named=True)}
#: Keys whose values contain settings.
NESTED = ("ENGINES", "ACQUISITIONS")
#: Settings whose values appear in no message.
SECRET = frozenset(item.name.upper() for item in fields(Settings) if not item.repr)
DEFAULT_ENGINES: Mapping[str, Any] = {"default": {}}


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of JOBEXEC: where (``setting``), what (``message``), and the system check that reports it."""

    setting: str
    message: str
    check_id: str = "jobexec.E001"

    def __str__(self) -> str:
        return f"{self.setting} {self.message}"


def build(raw: Any) -> tuple[Settings | None, list[Problem]]:
    """Settings made from the raw dict, and all problems; the settings are None if there is any problem."""
    if not isinstance(raw, Mapping):
        # Without its content: a list of pairs contains secrets, too.
        return None, [Problem("JOBEXEC", f"must be a dict; got a value of type {type(raw).__name__!r}.")]
    problems: list[Problem] = []
    engine_keys = {key: value for key, value in raw.items() if key in PER_ENGINE}
    global_keys = {key: value for key, value in raw.items() if key not in PER_ENGINE and key not in NESTED}
    shared = _parse("JOBEXEC", engine_keys, PER_ENGINE, problems)
    values = _parse("JOBEXEC", global_keys, GLOBAL, problems, also=[*PER_ENGINE, *NESTED])
    named = _acquisitions(raw.get("ACQUISITIONS", {}), values.get("categories", {"default": 1}), problems)
    engines = _engines(raw.get("ENGINES", DEFAULT_ENGINES), shared, named, problems)
    values.setdefault("node_name", GLOBAL["NODE_NAME"](None))
    weights = values.pop("categories", {"default": 1})
    values |= {"categories": tuple(weights), "category_weights": MappingProxyType(weights)}
    settings = Settings(engines=MappingProxyType(engines), source=MappingProxyType(dict(raw)), **values)
    problems.extend(_between_globals(settings))
    return (None if problems else settings), problems


def replaced(settings: Settings, overrides: Mapping[str, Any]) -> Settings:
    """See Settings.replace()."""
    raw = dict(settings.source)
    given = {key.upper(): value for key, value in overrides.items() if value is not None}
    problems = [_unknown("JOBEXEC", key, [*GLOBAL, *PER_ENGINE]) for key in given if key not in _overridable()]
    if "ENGINES" in given:
        problems += _keep_engines(raw, given.pop("ENGINES"))
    if "CATEGORIES" in given:
        problems += _known_categories(settings, given["CATEGORIES"])
        problems += _keep_acquisitions(raw, given["CATEGORIES"])
        raw.pop("BATCH_CATEGORY", None)  # it names one of all categories, and these are those that one node serves
        if isinstance(raw.get("CATEGORIES"), Mapping):  # the chosen ones keep their weights
            given["CATEGORIES"] = {name: settings.category_weights.get(name, 1) for name in given["CATEGORIES"]}
    _override_engines(raw, given)
    raw.update(given)
    result, found = build(raw)
    return checked(result, _distinct([*problems, *found]))


def checked(settings: Settings | None, problems: Collection[Problem]) -> Settings:
    """Return the settings if there is no problem. Raises InvalidSettings, which lists all problems."""
    if settings is None or problems:
        lines = ["The JOBEXEC setting is not valid:", *(f"- {item}" for item in problems)]
        raise InvalidSettings("\n".join(lines), problems=problems)
    return settings


def _parse(
    path: str,
    raw: Mapping[Any, Any],
    known: Mapping[str, Parser],
    problems: list[Problem],
    also: Iterable[str] = (),
) -> dict[str, Any]:
    parsed = {}
    for key, value in raw.items():
        parser = known.get(key) if isinstance(key, str) else None
        if parser is None:
            problems.append(_unknown(path, key, [*known, *also]))
            continue
        try:
            parsed[key.lower()] = parser(value)
        except ValueError as error:
            got = "a value that is not shown, since it is a secret" if key in SECRET else f"{value!r}"
            problems.append(Problem(f"{path}[{key!r}]", f"must be {error}; got {got}."))
    return parsed


def _acquisitions(raw: Any, categories: Collection[str], problems: list[Problem]) -> dict[str, dict[str, Any]]:
    """The settings given by each named acquisition."""
    path = "JOBEXEC['ACQUISITIONS']"
    if not isinstance(raw, Mapping):
        problems.append(_mismatch(path, "a dict of names to dicts of settings", raw))
        return {}
    named = {}
    for name, own in raw.items():
        here = f"{path}[{name!r}]"
        if not is_name(name):
            problems.append(Problem(here, f"must have a name of 1 to {MAX_NAME_LENGTH} printable characters."))
        elif not isinstance(own, Mapping):
            problems.append(_mismatch(here, "a dict of settings", own))
        else:
            named[name] = _keys(here, own, PER_ACQUISITION, problems)
            unknown = [each for each in named[name].get("categories", ()) if each not in categories]
            known = ", ".join(map(repr, categories))
            problems.extend(_mismatch(f"{here}['CATEGORIES']", f"among CATEGORIES, {known}", each) for each in unknown)
    return named


def _engines(
    raw: Any, shared: Mapping[str, Any], named: Mapping[str, dict[str, Any]], problems: list[Problem]
) -> dict[str, EngineSettings]:
    path = "JOBEXEC['ENGINES']"
    if not isinstance(raw, Mapping) or not raw:
        problems.append(_mismatch(path, "a dict of database alias to a dict of settings, with at least one alias", raw))
        return {}
    engines = {}
    for alias, own in raw.items():
        here = f"{path}[{alias!r}]"
        if alias not in django_settings.DATABASES:
            problems.append(_no_database(here, alias))
        if not isinstance(own, Mapping):
            problems.append(_mismatch(here, "a dict of settings", own))
            continue
        keys = {"alias": alias, **shared, **_keys(here, own, {**PER_ENGINE, "ACQUISITIONS": names}, problems)}
        chosen = keys.pop("acquisitions", ())
        unknown = [name for name in chosen if name not in named]
        expected = f"names in JOBEXEC['ACQUISITIONS'] ({', '.join(map(repr, named)) or 'nothing'})"
        problems.extend(_mismatch(f"{here}['ACQUISITIONS']", expected, name) for name in unknown)
        acquirers = [EngineSettings(**{**keys, "name": name, **named[name]}) for name in chosen if name in named]
        engines[alias] = EngineSettings(acquisitions=tuple(acquirers), **keys)
        problems.extend(_between_engine(here, engines[alias]))
        for acquirer in acquirers:
            problems.extend(_between_engine(f"JOBEXEC['ACQUISITIONS'][{acquirer.name!r}] in {here}", acquirer))
    return engines


def _keys(here: str, own: Mapping[Any, Any], known: Mapping[str, Parser], problems: list[Problem]) -> dict[str, Any]:
    """The settings of an engine or of an acquisition; reports keys that belong elsewhere."""
    what = "an engine" if here.startswith("JOBEXEC['ENGINES']") else "an acquisition"
    right = {}
    for key, value in own.items():
        if key in known or key not in {*GLOBAL, *PER_ENGINE}:
            right[key] = value
        else:
            place = "JOBEXEC" if key in GLOBAL else "JOBEXEC['ENGINES'][alias]"
            problems.append(Problem(f"{here}[{key!r}]", f"is not a setting of {what}; write {place}[{key!r}]."))
    return _parse(here, right, known, problems)


def _between_globals(settings: Settings) -> Iterable[Problem]:
    categories = settings.source.get("CATEGORIES")
    weighed = isinstance(categories, Mapping) and categories == settings.category_weights  # and not refused already
    if weighed and settings.category_order != "weighted":
        yield _mismatch(
            "JOBEXEC['CATEGORIES']",
            f"a list, since CATEGORY_ORDER is {settings.category_order!r} and weights count only with 'weighted'",
            categories,
        )
    category = settings.batch_category
    if category is not None and category not in settings.categories:
        known = ", ".join(map(repr, settings.categories))
        yield _mismatch("JOBEXEC['BATCH_CATEGORY']", f"one of CATEGORIES, {known}, or None", category)
    if settings.dispatch == "broker" and settings.broker_url is None:
        yield Problem("JOBEXEC['BROKER_URL']", "must be the address of a broker, since DISPATCH is 'broker'; got None.")
    # Two heartbeats must fit into a lease: one that is late or lost must not cost the node its jobs.
    half = settings.lease_time / 2
    if settings.heartbeat_interval > half:
        yield _mismatch(
            "JOBEXEC['HEARTBEAT_INTERVAL']",
            f"at most half of LEASE_TIME, {half}",
            settings.heartbeat_interval,
        )


def _between_engine(here: str, engine: EngineSettings) -> Iterable[Problem]:
    pairs = [
        ("WAIT_TIME", "MAX_WAIT"),
        ("MAX_WAIT", "MAX_WAIT_WHEN_LISTENING"),
        ("BACKOFF_TIME", "MAX_BACKOFF"),
        ("BURST_WAIT", "DEEP_IDLE_WAIT"),
    ]
    for low, high in pairs:
        lower: timedelta = getattr(engine, low.lower())
        upper: timedelta = getattr(engine, high.lower())
        if lower > upper:
            yield _mismatch(f"{here}: {low}", f"at most {high}, {upper}", lower)
    if engine.listen_database is not None and engine.listen_database not in django_settings.DATABASES:
        yield _no_database(f"{here}: LISTEN_DATABASE", engine.listen_database)


def _keep_acquisitions(raw: dict[str, Any], categories: Collection[str]) -> list[Problem]:
    """Restrict named acquisitions to these categories; one without any left is removed."""
    named = {}
    for name, own in raw.get("ACQUISITIONS", {}).items():
        served = [each for each in own.get("CATEGORIES", categories) if each in categories]
        if served:
            named[name] = {**own, "CATEGORIES": served} if "CATEGORIES" in own else own
    engines, problems = {}, []
    for alias, own in raw.get("ENGINES", DEFAULT_ENGINES).items():
        engines[alias] = own
        if "ACQUISITIONS" in own:
            kept = [name for name in own["ACQUISITIONS"] if name in named]
            engines[alias] = {**own, "ACQUISITIONS": kept}
            if not kept:
                del engines[alias]["ACQUISITIONS"]
                expected = f"served by one of the acquisitions of the engine {alias!r}"
                problems.append(_mismatch("category", expected, ", ".join(categories)))
    raw |= {"ACQUISITIONS": named, "ENGINES": engines}
    return problems


def _overridable() -> set[str]:
    return {*GLOBAL, *PER_ENGINE, "ENGINES"}


def _keep_engines(raw: dict[str, Any], aliases: Any) -> list[Problem]:
    engines = raw.get("ENGINES", DEFAULT_ENGINES)
    missing = [alias for alias in aliases if alias not in engines]
    if not missing:
        raw["ENGINES"] = {alias: own for alias, own in engines.items() if alias in aliases}
    return [_mismatch("engine", f"one of {', '.join(map(repr, engines))}", alias) for alias in missing]


def _known_categories(settings: Settings, categories: Any) -> list[Problem]:
    known = ", ".join(map(repr, settings.categories))
    return [_mismatch("category", f"one of {known}", name) for name in categories if name not in settings.categories]


def _override_engines(raw: dict[str, Any], given: Mapping[str, Any]) -> None:
    # A value given now applies to every engine and acquisition, including those with their own value.
    own_keys = {key for key in given if key in PER_ENGINE}
    for nested, default in (("ENGINES", DEFAULT_ENGINES), ("ACQUISITIONS", {})):
        parts = raw.get(nested, default)
        raw[nested] = {
            name: {key: value for key, value in own.items() if key not in own_keys} for name, own in parts.items()
        }


def _distinct(problems: Iterable[Problem]) -> list[Problem]:
    return list(dict.fromkeys(problems))


def _mismatch(setting: str, expected: str, got: object) -> Problem:
    return Problem(setting, f"must be {expected}; got {got!r}.")


def _no_database(setting: str, alias: object) -> Problem:
    known = ", ".join(map(repr, django_settings.DATABASES)) or "nothing"
    return Problem(setting, f"must be an alias of DATABASES ({known}); got {alias!r}.", "jobexec.E003")


def _unknown(path: str, key: object, known: Iterable[str]) -> Problem:
    similar = difflib.get_close_matches(str(key).upper(), list(known), n=1)
    hint = f" Did you mean {similar[0]!r}?" if similar else ""
    return Problem(f"{path}[{key!r}]", f"is not a setting of jobexec.{hint}")
