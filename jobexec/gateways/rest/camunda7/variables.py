"""Convert variables between Camunda 7's typed form (``{"value": 5, "type": "Integer", "valueInfo": {}}``) and JSON.

Variables are stored as plain JSON, so that Django and clients of other protocols can read them. Types that JSON cannot
express are stored in a note: the variable ``due`` of type Date is stored as the text that was sent, and ``due$type`` as
``{"type": "Date"}``. Only these types have notes: Date, File, Bytes, Xml, Object, Short and small Long numbers, Json
that is neither an object nor a list, and a null of another type than Null. Notes written in Django work too:
``variables={"due": "2026-01-02T03:04:05.000+0000", "due$type": {"type": "Date"}}``.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from .errors import EngineError, invalid

#: The suffix of a note's name.
NOTE = "$type"

_INT, _LONG = 2**31, 2**63
_RANGES = {"short": 2**15, "integer": _INT, "long": _LONG}
_FORMAT = "serializationDataFormat"
_JSON = "application/json"


def to_json(variables: Mapping[str, Any], path: str = "variables") -> dict[str, Any]:
    """Convert a client's variables to their stored form, with notes where needed. Raises EngineError for bad values.

    Type names are case-insensitive; without a type, the type of the JSON value applies.
    """
    stored: dict[str, Any] = {}
    for name, given in variables.items():
        if not isinstance(given, Mapping):
            raise invalid(f"{path}.{name}: expected an object with a value, got {json.dumps(given)}.")
        type_, value = given.get("type"), given.get("value")
        if type_ is None:
            stored[name] = value
            continue
        info = given.get("valueInfo") or {}
        read = _READERS.get(str(type_).lower())
        if read is None:
            raise EngineError(400, "RestException", f"Unsupported value type '{type_}'")
        if not isinstance(info, Mapping):
            raise invalid(f"{path}.{name}.valueInfo: expected an object, got {json.dumps(info)}.")
        try:
            stored[name] = None if value is None else read(value, info)
        except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
            raise invalid(
                f"Cannot convert value '{_short(value)}' of type '{type_}' of variable '{name}': {error}"
            ) from None
        note = _note(str(type_), stored[name], info)
        if note:
            stored[f"{name}{NOTE}"] = note
    return stored


def to_typed(stored: Mapping[str, Any], *, deserialize: bool = False) -> dict[str, Any]:
    """Convert stored variables for a client. File contents are left out; a separate call returns them.

    With ``deserialize`` objects and lists are returned as values of type Object, otherwise as JSON text of type Json.
    """
    typed = {}
    for name, value in stored.items():
        if _is_note(name, value):
            continue
        note = stored.get(f"{name}{NOTE}")
        fitting = _is_note(f"{name}{NOTE}", note) and note is not None and _fits(note, value)
        typed[name] = _noted(note, value, deserialize) if fitting and note else _inferred(value, deserialize)
    return typed


def with_notes(names: Iterable[str]) -> list[str]:
    """The names of variables together with those of their notes."""
    return [each for name in names for each in (name, f"{name}{NOTE}")]


def file_of(stored: Mapping[str, Any], name: str) -> tuple[bytes, Mapping[str, Any]] | None:
    """The content and the valueInfo of a File or Bytes variable; None if there is no such variable."""
    note, value = stored.get(f"{name}{NOTE}"), stored.get(name)
    if not isinstance(note, Mapping) or note.get("type") not in ("File", "Bytes") or not isinstance(value, str):
        return None
    try:
        content = base64.b64decode(value)
    except binascii.Error:
        return None
    info = note.get("valueInfo")
    return content, info if isinstance(info, Mapping) else {}


def _text(value: Any, info: Mapping[str, Any]) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, (str, int, float)):
        raise TypeError("expected a string")
    return str(value)


def _boolean(value: Any, info: Mapping[str, Any]) -> bool:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise TypeError("expected true or false")
    return value


def _integer(kind: str) -> Callable[[Any, Mapping[str, Any]], int]:
    def read(value: Any, info: Mapping[str, Any]) -> int:
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise TypeError("expected an integer")
        number = int(value)
        if isinstance(value, float) and number != value:
            raise ValueError("expected an integer")
        if not -_RANGES[kind] <= number < _RANGES[kind]:
            raise ValueError("out of range")
        return number

    return read


def _double(value: Any, info: Mapping[str, Any]) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise TypeError("expected a number")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("expected a finite number")
    return number


def _null(value: Any, info: Mapping[str, Any]) -> None:
    return None


def _json(value: Any, info: Mapping[str, Any]) -> Any:
    if isinstance(value, (dict, list)):
        return value  # as returned to a client that asked for deserialised values; Camunda would reject it
    if not isinstance(value, str):
        raise TypeError("expected JSON in a string")
    return json.loads(value, parse_constant=_refuse_constant)


def _object(value: Any, info: Mapping[str, Any]) -> Any:
    if _is_json(info):
        return _json(value, info)
    if not isinstance(value, str):
        raise TypeError("expected a serialized object in a string")
    return value


def _is_json(info: Mapping[str, Any]) -> bool:
    """Return whether the object is serialised as JSON."""
    return bool(info.get(_FORMAT, _JSON) == _JSON)


def _date(value: Any, info: Mapping[str, Any]) -> str:
    text = _text(value, info)
    if datetime.fromisoformat(text).utcoffset() is None:
        raise ValueError("expected a date like 2015-10-06T16:34:42.000+0200")
    return text


def _binary(value: Any, info: Mapping[str, Any]) -> str:
    text = _text(value, info)
    base64.b64decode(text, validate=True)
    return text


def _file(value: Any, info: Mapping[str, Any]) -> str:
    if not isinstance(info.get("filename"), str):
        raise ValueError("expected a filename in valueInfo")
    return _binary(value, info)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_READERS: dict[str, Callable[[Any, Mapping[str, Any]], Any]] = {
    "string": _text,
    "boolean": _boolean,
    "short": _integer("short"),
    "integer": _integer("integer"),
    "long": _integer("long"),
    "double": _double,
    "number": _double,
    "null": _null,
    "json": _json,
    "object": _object,
    "xml": _text,
    "date": _date,
    "bytes": _binary,
    "file": _file,
}

#: Types that JSON cannot express, whatever the value.
_ALWAYS_NOTED = frozenset({"date", "file", "bytes", "xml", "object", "short"})


def _note(type_: str, value: Any, info: Mapping[str, Any]) -> dict[str, Any] | None:
    kind = type_.lower()
    told = _inferred(value, False)["type"].lower()
    if kind == "object" and _inferred(value, True)["valueInfo"] == info:
        return None
    if kind not in _ALWAYS_NOTED and (kind == told or (kind, told) == ("number", "double")):
        return None
    note: dict[str, Any] = {"type": type_[:1].upper() + type_[1:]}
    kept = {name: each for name, each in info.items() if name != "transient"}
    return {**note, "valueInfo": kept} if kept else note


def _is_note(name: str, value: Any) -> bool:
    return name.endswith(NOTE) and isinstance(value, Mapping) and isinstance(value.get("type"), str)


def _fits(note: Mapping[str, Any], value: Any) -> bool:
    """Return whether the note matches this value; it may belong to an earlier one."""
    kind = note["type"].lower()
    if value is None or kind not in _READERS:
        return kind in _READERS
    if kind in ("json", "object"):
        return True
    if kind in ("short", "integer", "long"):
        return isinstance(value, int) and not isinstance(value, bool) and -_RANGES[kind] <= value < _RANGES[kind]
    try:
        return bool(_READERS[kind](value, _info(note)) == value) and isinstance(value, str)
    except (TypeError, ValueError, ArithmeticError):
        return False


def _info(note: Mapping[str, Any]) -> dict[str, Any]:
    info = note.get("valueInfo")
    return dict(info) if isinstance(info, Mapping) else {}


def _noted(note: Mapping[str, Any], value: Any, deserialize: bool) -> dict[str, Any]:
    kind, info = note["type"].lower(), _info(note)
    if kind == "file":
        value = None
    elif value is not None and (kind == "json" or (kind == "object" and not deserialize and _is_json(info))):
        value = _dumped(value)
    return {"type": note["type"], "value": value, "valueInfo": info}


def _inferred(value: Any, deserialize: bool) -> dict[str, Any]:
    if isinstance(value, (list, dict)):
        if not deserialize:
            return {"type": "Json", "value": _dumped(value), "valueInfo": {}}
        java = "java.util.ArrayList" if isinstance(value, list) else "java.util.LinkedHashMap"
        return {"type": "Object", "value": value, "valueInfo": {"objectTypeName": java, _FORMAT: _JSON}}
    if isinstance(value, int) and not isinstance(value, bool) and not -_LONG <= value < _LONG:
        return {"type": "Json", "value": _dumped(value), "valueInfo": {}}
    return {"type": _scalar(value), "value": value, "valueInfo": {}}


def _scalar(value: Any) -> str:
    if value is None:
        return "Null"
    if isinstance(value, bool):
        return "Boolean"
    if isinstance(value, int):
        return "Integer" if -_INT <= value < _INT else "Long"
    return "Double" if isinstance(value, float) else "String"


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
