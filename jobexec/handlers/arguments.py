"""The arguments of a job's function: checked when it is enqueued, stored as JSON, and read again when it runs."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder

from jobexec.conf import get_settings
from jobexec.conf.values import SMALLEST_LIMIT
from jobexec.exceptions import InvalidJob, UnreadableJob
from jobexec.json_values import TooDeep, check_json, encode_json
from jobexec.sensitive import HIDDEN, is_sensitive, may_be_within, values_below

from .options import misplaced_option
from .signatures import checked_names, names_by_position, positions

_SHAPES = 1000  # a function with **kwargs may be called in any number of ways

_decode = json.JSONDecoder().raw_decode


class Arguments:
    """The arguments of one function. ``name`` is its handler's, for messages; ``sensitive`` names some of them."""

    def __init__(self, function: Callable[..., Any], name: str, takes_context: bool, sensitive: Sequence[str]) -> None:
        self.name = name
        signature = inspect.signature(function)
        parameters = list(signature.parameters.values())
        #: Without the context, which callers of ``enqueue`` do not pass.
        self.signature = signature.replace(parameters=parameters[1:] if takes_context else parameters)
        self.sensitive = checked_names(name, sensitive, self.signature)
        #: Numbers of positional arguments that fit without a closer check.
        self._least, self._most = positions(self.signature)
        #: Numbers of positional arguments and names of keyword arguments that fit the signature.
        self.fitting: set[tuple[int, tuple[str, ...]]] = set()

    def encode(self, args: Sequence[Any], kwargs: Mapping[str, Any], *, secret: bool = False) -> str:
        """The JSON of these arguments for a row. Raises InvalidJob if they do not fit or are not JSON.

        ``secret``: no error quotes a value.
        """
        try:
            self._bind(args, kwargs)
        except TypeError as error:
            strange = [name for name in kwargs if name not in self.signature.parameters]
            raise InvalidJob(f"{self.name}: {error}.{misplaced_option(strange)}") from None
        configuration = {"args": args, "kwargs": dict(kwargs)}
        encoded = encode_json(configuration)
        if encoded is None:
            self._check(args, kwargs, secret)
            encoded = json.dumps(configuration, cls=DjangoJSONEncoder)
        if len(encoded) > SMALLEST_LIMIT:
            self._check_size(len(encoded))
        return encoded

    def read(self, configuration: str) -> tuple[list[Any], dict[str, Any]]:
        """The arguments in a row's JSON; raises UnreadableJob if :meth:`encode` could not have made it."""
        try:
            value, end = _decode(configuration)
            if end != len(configuration):
                value = json.loads(configuration)  # white space, or an error that names the position
            args, kwargs = value["args"], value["kwargs"]
            if not isinstance(args, list) or not isinstance(kwargs, dict):
                raise TypeError("args is not a list or kwargs is not an object")
            if kwargs or not self._least <= len(args) <= self._most:
                self.signature.bind(*args, **kwargs)
        except (ValueError, TypeError, KeyError) as error:
            hidden = self.sensitive_names() or may_be_within(configuration)
            got = HIDDEN if hidden else configuration[:200]
            message = f"The arguments in the row cannot be read for {self.name}: {error!r}. Got: {got}"
            raise UnreadableJob(message) from error
        return args, kwargs

    def sensitive_names(self) -> list[str]:
        """The arguments declared sensitive, and those whose names match SENSITIVE_ARGUMENTS."""
        return [
            *self.sensitive,
            *(name for name in self.signature.parameters if is_sensitive(name) and name not in self.sensitive),
        ]

    def names_of(self, count: int) -> list[str]:
        """The names of ``count`` positional arguments; those taken by ``*args`` have its name."""
        return names_by_position(self.signature, count)

    def _bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raise TypeError if the arguments do not fit the function. Their values do not matter for that."""
        shape = len(args), tuple(kwargs)
        if shape not in self.fitting:
            self.signature.bind(*args, **kwargs)
            if len(self.fitting) < _SHAPES:
                self.fitting.add(shape)

    def _check_size(self, size: int) -> None:
        limit = get_settings().arguments_max_size
        if size > limit:
            raise InvalidJob(
                f"{self.name}: expected arguments of at most {limit:,} bytes of JSON (setting ARGUMENTS_MAX_SIZE), got "
                f"{size:,}; store large data in a model or a file, and pass its key."
            )

    def _check(self, args: Sequence[Any], kwargs: Mapping[str, Any], secret: bool) -> None:
        for name, value in self.signature.bind(*args, **kwargs).arguments.items():
            try:
                check_json(f"{self.name}: argument {name!r}", value)
            except InvalidJob as error:
                if isinstance(error, TooDeep) or not (secret or self._is_secret(name, value)):
                    raise
                # Without the reason, which quotes the value.
                raise InvalidJob(f"{self.name}: argument {name!r}: expected JSON, got {HIDDEN}.") from None

    def _is_secret(self, name: str, value: Any) -> bool:
        try:
            return is_sensitive(name, self.sensitive) or any(True for _ in values_below(value, self.sensitive))
        except RecursionError:  # a circular value, of which an error quotes the beginning
            return bool(self.sensitive)
