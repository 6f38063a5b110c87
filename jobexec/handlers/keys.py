"""The unique key of a call."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from django.core.serializers.json import DjangoJSONEncoder
from django.utils.crypto import salted_hmac

from jobexec.conf import messages
from jobexec.conf.resources import MAX_LENGTH, is_name
from jobexec.exceptions import InvalidJob
from jobexec.json_values import check_storable, shown
from jobexec.sensitive import hide

if TYPE_CHECKING:
    from .arguments import Arguments

LONGEST = 255
_SALT = "jobexec.unique"
_ENCODER = DjangoJSONEncoder()


def key_of(
    unique: Any, arguments: Arguments, args: Sequence[Any], kwargs: Mapping[str, Any], *, secret: bool = False
) -> str:
    """The key of a call whose arguments fit and are JSON; ``unique`` is the option.

    ``secret``: a key that is made of the arguments is a digest, which needs SECRET_KEY, and no error quotes it.

    Raises :class:`~jobexec.exceptions.InvalidJob` if a callable does not return a key.
    """
    if unique is True:
        return by_arguments(arguments, args, kwargs, secret=secret)
    if isinstance(unique, str):
        return unique
    key = unique(*args, **kwargs)
    try:
        check_key(f"{arguments.name}: unique: what {unique!r} returned", key)
    except InvalidJob:
        if not secret:
            raise
        raise InvalidJob(f"{arguments.name}: unique: {unique!r} returned no key; it is not shown.") from None
    return _digest(str(key)) if secret else str(key)


def _digest(text: str) -> str:
    return salted_hmac(_SALT, text, algorithm="sha256").hexdigest()


def check_key(name: str, key: Any) -> None:
    """Raise :class:`~jobexec.exceptions.InvalidJob` for an invalid key."""
    if not isinstance(key, str) or not 0 < len(key) <= LONGEST:
        raise InvalidJob(f"{name}: expected a string of 1 to {LONGEST} characters, got {shown(key)}.")
    check_storable(name, key)
    if key.endswith(" "):  # MySQL and MariaDB ignore trailing spaces in comparisons
        raise InvalidJob(f"{name}: expected a string that does not end with a space, got {shown(key)}.")


def resource_of(resource: Any, arguments: Arguments, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
    """The resource of a call, if the option is a function of its arguments; None if the call has none.

    Raises :class:`~jobexec.exceptions.InvalidJob` if the function does not return a name.
    """
    name = resource(*args, **kwargs)
    if name is None:
        return None
    check_resource_name(f"{arguments.name}: resource: what {resource!r} returned", name)
    return str(name)


def wait_of(
    wait: Any, arguments: Arguments, args: Sequence[Any], kwargs: Mapping[str, Any], *, secret: bool = False
) -> tuple[str, str] | None:
    """The message for which a call waits, if the option is a function of its arguments; None if it does not wait.

    ``secret``: no error quotes what it returned. Raises :class:`~jobexec.exceptions.InvalidJob` if the function does
    not return a name and a key.
    """
    made = wait(*args, **kwargs)
    try:
        return None if made is None else check_wait(f"{arguments.name}: wait_for: what {wait!r} returned", made)
    except InvalidJob:
        if not secret:
            raise
        raise InvalidJob(f"{arguments.name}: wait_for: {wait!r} returned no name and key; it is not shown.") from None


def check_wait(name: str, value: Any) -> tuple[str, str]:
    """The name and the key of a message. Raises :class:`~jobexec.exceptions.InvalidJob`."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        expected = 'the name and the key of a message, such as ("approved", 4711)'
        raise InvalidJob(f"{name}: expected {expected}, got {shown(value)}.")
    return messages.check_name(f"{name}: name", value[0]), messages.check_key(f"{name}: key", value[1])


def check_resource_name(name: str, value: Any) -> None:
    """Raise :class:`~jobexec.exceptions.InvalidJob` for a value that cannot name a resource."""
    if not is_name(value) or value.endswith("*"):
        expected = f"a string of 1 to {MAX_LENGTH} printable characters, without '*' at its end"
        raise InvalidJob(f"{name}: expected {expected}, got {shown(value)}.")


def by_arguments(arguments: Arguments, args: Sequence[Any], kwargs: Mapping[str, Any], *, secret: bool = False) -> str:
    """A digest of the arguments as the function gets them: by name, with its defaults, as JSON.

    It does not depend on how a call passes them. If sensitive values are among them, or all are ``secret``, the digest
    needs SECRET_KEY, so that a reader of keys cannot try out values.
    """
    bound = arguments.signature.bind(*args, **kwargs).arguments
    try:
        given = json.loads(_ENCODER.encode(_with_defaults(arguments, bound)))
        text = json.dumps(given, sort_keys=True, separators=(",", ":"))
        secret = secret or hide(given, arguments.sensitive_names()) != given
    except RecursionError:
        raise InvalidJob(f"{arguments.name}: unique: the arguments are nested too deep for a key.") from None
    return _digest(text) if secret else sha256(text.encode()).hexdigest()


def _with_defaults(arguments: Arguments, bound: Mapping[str, Any]) -> dict[str, Any]:
    parameters = arguments.signature.parameters.values()
    defaults = {each.name: each.default for each in parameters if each.default is not each.empty}
    # A default that is not JSON cannot be passed by a call, so it is the same for all.
    return {name: value for name, value in defaults.items() if _is_json(value)} | dict(bound)


def _is_json(value: Any) -> bool:
    try:
        _ENCODER.encode(value)
    except (TypeError, ValueError):
        return False
    return True
