"""Encryption at rest: an envelope in place of arguments and results, made and opened with the keys in ENCRYPTION_KEYS.

Only this module imports the package ``cryptography``, and only when the first envelope is made or opened.
``docs/explanation/decisions.md`` has the reasons for the format.
"""

from __future__ import annotations

import base64
import hmac
import importlib.util
import json
import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cache
from typing import Any
from uuid import UUID

from django.core.serializers.json import DjangoJSONEncoder
from django.utils.module_loading import import_string

from jobexec.conf import Settings, get_settings
from jobexec.conf.values import decoded_key
from jobexec.exceptions import DecryptionFailed, InvalidJob, NotDecryptableYet

#: The key of the envelope, beside the clear parts of ``handler_configuration``, or alone in a result.
FIELD = "encrypted"
#: The version of envelopes that this release makes, and the highest that it opens. 0 marks a result that is as it is.
VERSION = 1
#: When a job is tried again whose envelope this process cannot open yet.
AGAIN = timedelta(seconds=30)
#: In place of the text of a failure, which could contain what the job was given.
NOT_RECORDED = "its text is not recorded, because the job is encrypted"

_MARK = f'"{FIELD}"'
#: What searches, counters, statements and moves need in a row; everything else in it is encrypted.
_CLEAR = frozenset(
    {
        *("queue_name", "business_key", "element_id", "tags", "failures", "max_deliveries"),
        *("keep_result", "lease_token"),
    }
)
_NONCE = 12


class Hidden:
    """Values whose ``repr()`` shows nothing: error reports show the variables of each frame."""

    __slots__ = ("values",)

    def __init__(self, *values: Any) -> None:
        self.values = values


@cache
def is_installed() -> bool:
    """Whether the package ``cryptography`` can be imported."""
    return importlib.util.find_spec("cryptography") is not None


def may_be_sealed(text: str) -> bool:
    """Whether the JSON text of a row may have an envelope. Takes almost no time for one that has none."""
    return _MARK in text


def envelope_of(value: Any) -> Mapping[str, Any] | None:
    """The envelope in a configuration or in a result; None if it has none."""
    found = value.get(FIELD) if isinstance(value, dict) else None
    return found if isinstance(found, dict) and _is_version(found.get("version")) else None


def key_of(value: Any) -> str | None:
    """The id of the key with which a configuration or a result is encrypted; None if it is not encrypted."""
    envelope = envelope_of(value)
    return str(envelope.get("key", "")) if envelope is not None and envelope["version"] else None


def shown_envelope(value: Any) -> dict[str, Any]:
    """A configuration or result with an envelope, for display: its clear parts, and the id of the key."""
    clear = {name: each for name, each in value.items() if name != FIELD and name in _CLEAR}
    return {**clear, FIELD: {"key": key_of(value)}}


def newest_key() -> str:
    """The id of the key that encrypts. Raises :class:`~jobexec.exceptions.InvalidJob` if there is none."""
    for id in get_settings().encryption_keys or ():
        return id
    raise InvalidJob("encrypted: expected a key in JOBEXEC['ENCRYPTION_KEYS'], got none.")


def needs_renewal(value: Any, plain: bool = False) -> bool:
    """Whether a configuration is encrypted with an old key, or with ``plain`` not at all."""
    key = key_of(value)
    return plain if key is None else key != newest_key()


# Arguments: bound to the job and its handler.


def seal(configuration: Mapping[str, Any], handler_type: str, id: UUID) -> dict[str, Any]:
    """``handler_configuration`` with an envelope in place of all that a project or a worker gave.

    Raises :class:`~jobexec.exceptions.InvalidJob` without a usable key.
    """
    clear = {name: value for name, value in configuration.items() if name in _CLEAR}
    hidden = {name: value for name, value in configuration.items() if name not in _CLEAR}
    if "local" in hidden:
        clear["local"] = {}  # statements look for it
    for name in ("on_complete", "on_error"):
        if hidden.get(name):
            clear[name] = _outline(hidden[name])
    return {**clear, FIELD: encrypt(_dump(hidden), "arguments", handler_type, id.hex)}


def seal_text(text: str, handler_type: str, id: UUID) -> str:
    """:func:`seal` for the JSON of a row."""
    return _dump(seal(json.loads(text), handler_type, id))


def unseal(configuration: Any, handler_type: str, id: UUID) -> Any:
    """``handler_configuration`` as it was before :func:`seal`; one without an envelope is returned unchanged.

    Raises :class:`~jobexec.exceptions.DecryptionFailed`, which names the key, and
    :class:`~jobexec.exceptions.NotDecryptableYet`.
    """
    envelope = envelope_of(configuration)
    if envelope is None:
        return configuration
    hidden = json.loads(decrypt(envelope, "arguments", handler_type, id.hex))
    # No more than that: otherwise a user who can write to the row could add a callback, and get the variables.
    return {**{name: value for name, value in configuration.items() if name in _CLEAR}, **hidden}


def unseal_text(text: str, handler_type: str, id: UUID) -> str | None:
    """:func:`unseal` for the JSON of a row; None if it is not encrypted, or no JSON."""
    try:
        configuration = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return None if envelope_of(configuration) is None else _dump(unseal(configuration, handler_type, id))


def renewed(configuration: Any, handler_type: str, id: UUID) -> dict[str, Any]:
    """The same configuration, encrypted with the newest key."""
    return seal(unseal(configuration, handler_type, id), handler_type, id)


def _outline(callback: Any) -> Any:
    """Callbacks of an external job without their arguments."""
    if not isinstance(callback, dict):
        return callback
    if "handler" in callback:
        return {**callback, "kwargs": {}}
    return {code: _outline(each) for code, each in callback.items()}


# Payloads of messages: bound to the number of the message.


def stored_payload(payload: Any, number: int) -> Any:
    """A payload for storage: in an envelope if ENCRYPTION_KEYS has a key, otherwise as it is.

    One that looks like an envelope is marked as none. Raises :class:`~jobexec.exceptions.InvalidJob` without a usable
    key.
    """
    if payload is not None and get_settings().encryption_keys:
        return {FIELD: encrypt(_dump(payload), "message", str(number))}
    return payload if envelope_of(payload) is None else {FIELD: {"version": 0, "value": payload}}


def unseal_payload(value: Any, number: int) -> Any:
    """A payload as it was published. Raises as :func:`unseal`."""
    return _unseal_value(value, "message", str(number))


# Results: bound to the job.


def stored_result(text: str, id: UUID, *, secret: bool) -> str:
    """The JSON of a return value for storage: in an envelope if it is ``secret``, otherwise as it is.

    One that looks like an envelope is marked as none. Raises :class:`~jobexec.exceptions.InvalidJob` without a usable
    key.
    """
    if secret:
        return _dump({FIELD: encrypt(text, "result", id.hex)})
    if not may_be_sealed(text) or envelope_of(json.loads(text)) is None:
        return text
    return f'{{"{FIELD}": {{"version": 0, "value": {text}}}}}'


def unseal_result(value: Any, id: UUID) -> Any:
    """A return value as the function returned it. Raises as :func:`unseal`."""
    return _unseal_value(value, "result", id.hex)


def renewed_result(value: Any, id: UUID) -> Any:
    """The same return value, encrypted with the newest key."""
    return {FIELD: encrypt(_dump(unseal_result(value, id)), "result", id.hex)}


def _unseal_value(value: Any, *bound_to: str) -> Any:
    envelope = envelope_of(value)
    if envelope is None:
        return value
    return envelope.get("value") if envelope["version"] == 0 else json.loads(decrypt(envelope, *bound_to))


# Envelopes.


def encrypt(text: str, *bound_to: str) -> dict[str, Any]:
    """An envelope of a text that can only be opened for the same purpose and owner.

    ``bound_to`` is the purpose, and what identifies the owner: a ciphertext that is moved to another row does not open.
    Raises :class:`~jobexec.exceptions.InvalidJob` without a usable key.
    """
    key = newest_key()
    if not is_installed():
        raise InvalidJob("encrypted: expected the package cryptography; install jobexec with the extra 'encryption'.")
    try:
        secret = _secret(key)
    except NotDecryptableYet as error:
        raise InvalidJob(f"encrypted: {error}") from None
    context, nonce = _context(VERSION, bound_to), os.urandom(_NONCE)
    data = nonce + _cipher(secret, context).encrypt(nonce, text.encode(), context)
    return {"version": VERSION, "key": key, "data": base64.b64encode(data).decode()}


def decrypt(envelope: Mapping[str, Any], *bound_to: str) -> str:
    """The text in an envelope. Raises as :func:`unseal`."""
    version, key = envelope["version"], str(envelope.get("key", ""))
    if version > VERSION:
        raise NotDecryptableYet(f"Its envelope has version {version}; this release reads up to {VERSION}.", key)
    if key not in (get_settings().encryption_keys or ()):
        raise DecryptionFailed(f"It is encrypted with the key {key!r}, which is not in ENCRYPTION_KEYS.", key)
    if not is_installed():
        raise NotDecryptableYet("It is encrypted, and the package cryptography is not installed.", key)
    secret, context = _secret(key), _context(version, bound_to)
    from cryptography.exceptions import InvalidTag

    try:
        data = base64.b64decode(envelope.get("data", ""), validate=True)
        found: bytes = _cipher(secret, context).decrypt(data[:_NONCE], data[_NONCE:], context)
        return found.decode()
    except (InvalidTag, ValueError, TypeError):
        text = f"It cannot be decrypted with the key {key!r}: it was changed or moved from another row, or a different"
        raise DecryptionFailed(f"{text} key has this id now.", key) from None


def _context(version: int, bound_to: tuple[str, ...]) -> bytes:
    return json.dumps(["jobexec", version, *bound_to]).encode()


def _cipher(secret: bytes, context: bytes) -> Any:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    # A key of its own for each owner: random nonces repeat only after 2**32 texts of one key.
    return AESGCM(hmac.digest(secret, context, "sha256"))


# Keys.

_loaded: tuple[Settings | None, dict[str, bytes]] = (None, {})


def _secret(id: str) -> bytes:
    """The bytes of a key, loaded once for these settings. Raises NotDecryptableYet if it cannot be loaded."""
    global _loaded
    settings = get_settings()
    if _loaded[0] is not settings:
        _loaded = (settings, {})
    known = _loaded[1]
    if id not in known:
        known[id] = _load(id, (settings.encryption_keys or {})[id])
    return known[id]


def _load(id: str, given: str | Callable[[], Any]) -> bytes:
    # Without the text and the traceback of an error, which may quote the key.
    try:
        found = decoded_key(given)
        if found is None:
            source: Any = import_string(given) if isinstance(given, str) else given
            found = _as_key(source())
    except Exception as error:
        raise NotDecryptableYet(f"The key {id!r} cannot be loaded ({type(error).__name__}).", id) from None
    if found is None:
        raise NotDecryptableYet(f"The key {id!r} is not valid: expected 32 bytes, or these in URL-safe base64.", id)
    return found


def _as_key(value: Any) -> bytes | None:
    return value if isinstance(value, bytes) and len(value) == 32 else decoded_key(value)


def _is_version(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _dump(value: Any) -> str:
    return json.dumps(value, cls=DjangoJSONEncoder, allow_nan=False)
