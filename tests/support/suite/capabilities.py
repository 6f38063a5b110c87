"""The capabilities that rows of the conformance page wait for, and whether the code has them by now."""

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from django.apps import apps

import jobexec
from jobexec.conf.validation import GLOBAL, PER_ENGINE
from jobexec.handlers.options import JobOptions

PACKAGE = Path(jobexec.__file__).parent

#: Each capability with names that would show that it has been implemented; one of them is enough. They are written as
#: ``jobexec.chain`` (a public name or a module), ``jobexec.models.Job`` (a model), ``JOBEXEC.ENGINES`` (a setting) and
#: ``@job(unique)`` (an option); ``*`` matches any text.
WAITED_FOR = {
    "archive": (
        "JOBEXEC.*ARCHIVE*",
        "jobexec.*archive*",
        "jobexec.models.*Archive*",
    ),
    "job endpoints": (
        "jobexec.gateways.rest.camunda7.job",
        "jobexec.gateways.rest.camunda7.jobs",
        "jobexec.gateways.rest.flowable*",
        "jobexec.gateways.rest.management*",
    ),
}

_NEEDS = re.compile(r"\*\*Later \(([^)]+)\):\*\*")


def needed(answer: str) -> str | None:
    """Return the capability that a row with this answer waits for: the one named by Later."""
    found = _NEEDS.match(answer)
    return found and found[1]


def names_of_the_code() -> Iterator[str]:
    """Yield every name in the code that can show a capability, written as in WAITED_FOR."""
    yield from (f"jobexec.{name}" for name in jobexec.__all__)
    for path in PACKAGE.rglob("*.py"):
        yield ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    for model in apps.get_models():
        if model.__module__.startswith("jobexec."):
            yield f"jobexec.models.{model.__name__}"
    yield from (f"JOBEXEC.{name}" for name in (*GLOBAL, *PER_ENGINE))
    yield from (f"@job({name})" for name in JobOptions.__annotations__)


def overtaken(answers: Iterable[str], waited_for: Mapping[str, tuple[str, ...]] = WAITED_FOR) -> dict[str, set[str]]:
    """Return the answers that wait for a capability that the code has, with the names that show it."""
    names = set(names_of_the_code())
    built = {
        capability: {name for name in names for pattern in patterns if fnmatchcase(name, pattern)}
        for capability, patterns in waited_for.items()
    }
    return {answer: built[need] for answer in answers if (need := needed(answer)) and built.get(need)}
