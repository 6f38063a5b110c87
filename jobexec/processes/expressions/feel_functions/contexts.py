"""Functions of contexts."""

from __future__ import annotations

from ..comparison import check_level
from ..functions import Functions
from ..values import Value

FUNCTIONS = Functions()
register = FUNCTIONS.register


@register("get value", "context: context, key: string")
def get_value(context: dict[str, Value], key: str) -> Value:
    return context.get(key)


@register("get value", "context: context, keys: list")
def get_nested_value(context: dict[str, Value], keys: list[Value]) -> Value:
    value: Value = context
    for key in keys:
        value = value.get(key) if type(value) is dict and type(key) is str else None
    return value


@register("get entries", "context: context")
def get_entries(context: dict[str, Value]) -> list[Value]:
    return [{"key": key, "value": value} for key, value in context.items()]


@register("context put", "context: context, key: string, value: any")
def context_put(context: dict[str, Value], key: str, value: Value) -> dict[str, Value]:
    return {**context, key: value}


@register("context put", "context: context, keys: list, value: any")
def context_put_nested(context: dict[str, Value], keys: list[Value], value: Value) -> dict[str, Value] | None:
    if not keys or not all(type(key) is str for key in keys):
        return None
    check_level(len(keys))
    inner: Value = value
    for at in range(len(keys) - 1, -1, -1):
        around = get_nested_value(context, keys[:at])
        inner = {**around, keys[at]: inner} if type(around) is dict else {keys[at]: inner}
    result: dict[str, Value] = inner
    return result


@register("context merge", "contexts: list", variadic=True)
def context_merge(contexts: list[Value]) -> dict[str, Value] | None:
    if not all(type(context) is dict for context in contexts):
        return None
    return {key: value for context in contexts for key, value in context.items()}


@register("context", "entries: list")
def context_of(entries: list[Value]) -> dict[str, Value] | None:
    made: dict[str, Value] = {}
    for entry in entries:
        if type(entry) is not dict or not {"key", "value"} <= entry.keys() or type(entry["key"]) is not str:
            return None
        if entry["key"] in made:
            return None
        made[entry["key"]] = entry["value"]
    return made
