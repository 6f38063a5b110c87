"""Calls of jobs: as arguments for ``enqueue_many``, and as values (``job.s(...)``)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from django.utils.duration import duration_iso_string

from jobexec.conf import get_settings
from jobexec.conf.messages import check_duration
from jobexec.encryption import seal_text
from jobexec.exceptions import InvalidJob
from jobexec.identifiers import uuid7
from jobexec.json_values import shown

from . import unique
from .options import JobOptions

if TYPE_CHECKING:
    from jobexec.operations.enqueue.create import Pattern
    from jobexec.operations.values.inserted_rows import AnyJob, Own

    from .function import JobFunction

#: Positional arguments, or keyword arguments.
Call: TypeAlias = Sequence[Any] | Mapping[str, Any]


def split(call: Call) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """The positional and the keyword arguments of a call. Raises InvalidJob if it is not a call."""
    if isinstance(call, Mapping):
        return (), call
    if isinstance(call, tuple | list):
        return call, {}
    raise InvalidJob(f"expected tuples of arguments or mappings of keyword arguments, got {call!r}.")


@dataclass(frozen=True, slots=True)
class JobCall:
    """A call as a value: a job function with its options and arguments. ``job.s(...)`` makes one and checks them.

    It is immutable: it holds the arguments as JSON, as they were at ``job.s(...)``.
    """

    job: JobFunction[..., Any]
    #: The arguments as stored in rows.
    encoded: str
    #: What options make of the arguments, and the unique key; None without such an option.
    own: Own | None
    key: str | None

    @classmethod
    def of(cls, job: JobFunction[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> JobCall:
        """Check these arguments. Raises InvalidJob."""
        encoded = job._encode(args, kwargs)
        key = unique.key_for(job, args, kwargs) if job.options.get("unique") else None
        return cls(job, encoded, job.made_of(args, kwargs) if job.makes_options else None, key)

    def __repr__(self) -> str:
        return f"<call of {self.job.name}>"  # without the arguments, which may be secret

    @property
    def arguments(self) -> dict[str, Any]:
        """``args`` and ``kwargs``, as the job will read them."""
        return json.loads(self.encoded)  # type: ignore[no-any-return]

    def using(self, **options: Unpack[JobOptions]) -> JobCall:
        """The same call with other options, see :meth:`JobFunction.using`."""
        given, job = self.arguments, self.job.using(**options)
        return JobCall.of(job, given["args"], given["kwargs"]) if job.makes_from_arguments else self._of(job)

    def _of(self, job: JobFunction[..., Any]) -> JobCall:
        return JobCall(job, self.encoded, None, None)

    def enqueue(self) -> AnyJob:
        """Insert the job in the current transaction, see :meth:`JobFunction.enqueue`."""
        return self.insert(self.job._pattern())

    def insert(self, pattern: Pattern) -> AnyJob:
        """Insert the job with these columns, and what its options make of the arguments."""
        pattern = self._of_call(pattern)
        pattern.authorize()
        create = pattern.create if self.key is None else unique.creating(self.job, pattern, self.key)
        if not self.job.encrypted:
            return create(self.arguments, self.encoded, due_date=self.job._due_date())
        id = uuid7()
        text = seal_text(self.encoded, self.job.name, id)
        return create(json.loads(text), text, due_date=self.job._due_date(), id=id)

    def stored(self, name: str, using: str) -> dict[str, Any]:
        """The call as JSON, for ``create_stored`` on any node, whether it knows the function or not.

        ``name`` is for errors. ``using`` is the database in which it will be inserted. Raises InvalidJob for options
        that cannot wait, and NotAuthorized. Of an encrypted job, it may be inserted once.
        """
        job, options = self.job, self.job.options
        if self.key is not None:
            raise InvalidJob(f"{name}: expected a call without the option unique, got {job.name}.")
        if job._database() != using:
            raise InvalidJob(f"{name}: expected a job of the database {using!r}, got one of {job._database()!r}.")
        self._of_call(job._pattern()).authorize()  # it also checks category, priority and resource
        columns = stored_columns(job) | self._made_columns()
        columns.setdefault("deployment_id", get_settings().deployment or "")
        found: dict[str, Any] = {"handler": job.name, "columns": columns} | self._kept()
        for option, stored in (("delay", "due"), ("run_after", "due"), ("expires", "expires")):
            if option in options:
                found[stored] = _moment(option, options[option])  # type: ignore[literal-required]
        if "waits_for" in columns and options.get("wait_timeout") is not None:
            found["wait"] = check_duration("wait_timeout", options["wait_timeout"]).total_seconds()
        return found

    def _kept(self) -> dict[str, Any]:
        """The arguments; encrypted for the one job that is made of them, whose id is then known."""
        if not self.job.encrypted:
            return {"configuration": self.arguments}
        id = uuid7()
        return {"configuration": json.loads(seal_text(self.encoded, self.job.name, id)), "id": id.hex}

    def _of_call(self, pattern: Pattern) -> Pattern:
        return pattern if self.own is None else pattern.of_call(self.own)

    def _made_columns(self) -> dict[str, Any]:
        resource, wait = self.own or (None, None)
        columns: dict[str, Any] = {} if resource is None else {"resource": resource}
        return columns if wait is None else columns | {"waits_for": wait[0], "waits_for_key": wait[1]}


def stored_columns(job: JobFunction[..., Any]) -> dict[str, Any]:
    """The columns of a function's jobs as JSON."""
    columns = job._columns(get_settings())
    del columns["handler_type"]
    if "resource" in job.options:
        columns.setdefault("resource", None)  # no resource is said, and not left to the tenant
    if columns.get("timeout") is not None:
        columns["timeout"] = duration_iso_string(columns["timeout"])
    return columns


def _moment(option: str, value: Any) -> str | float:
    # A delay counts from a moment that is not known yet, and must not go past the year 9999 then.
    return value.isoformat() if isinstance(value, datetime) else check_duration(option, value).total_seconds()


def check_call(name: str, value: Any) -> JobCall:
    """Raise InvalidJob unless the value is a call."""
    if not isinstance(value, JobCall):
        raise InvalidJob(f"{name}: expected a call such as charge.s(5), got {shown(value)}.")
    return value
