"""The operator of a change, and the request that an authorization policy decides about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jobexec.models import OperatorType


@dataclass(frozen=True, slots=True)
class Operator:
    """The author of a change: ``name`` of a ``type``, through ``via``, from ``origin`` (an address or a host).

    ``user`` is the user of the site, if there is one.
    """

    type: OperatorType
    name: str
    via: str = ""
    origin: str = ""
    user: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """A request for the policy in AUTHORIZATION.

    ``action`` is the name of the verb: ``enqueue``, ``cancel``, ``requeue``, ... ``principal`` is the caller: a user, a
    gateway client or a command; None if code calls it. ``target`` is the first argument of the verb: a job, its id,
    several of them, a queryset, the name of a schedule, ...; for ``enqueue``, the name of the handler. ``arguments``
    are all other arguments by name; for ``enqueue``, the columns of the job, without the arguments of the handler.
    ``using`` is the database, None if the verb determines it itself.
    """

    action: str
    target: Any
    principal: Operator | None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    using: str | None = None
