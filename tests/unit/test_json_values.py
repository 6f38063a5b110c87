"""Where a value is no JSON."""

import json
from datetime import date
from types import MappingProxyType

import pytest

from jobexec.exceptions import InvalidJob
from jobexec.json_values import check_json, first_fault

NAN = float("nan")
CIRCLE: list = []
CIRCLE.append([CIRCLE, CIRCLE])


class Lines(list):
    pass


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (NAN, ""),
        ({1, 2}, ""),
        ({"lines": [date(2026, 1, 1), {1}, NAN]}, "['lines'][1]"),
        ({"a": [], "b": ({"c": Lines([0, NAN])},)}, "['b'][0]['c'][1]"),
        ({"a": {(1, 2): 3}}, "['a']"),
        ({"a": {(1, 2): NAN}}, "['a'][(1, 2)]"),
        ([MappingProxyType({"a": 1})], "[0]"),
        (CIRCLE, ""),
    ],
)
def test_it_is_named(value, place):
    with pytest.raises(InvalidJob, match="expected JSON, got") as caught:
        check_json("args", value)
    assert str(caught.value).startswith(f"args{place}: expected JSON")


def test_it_is_found_in_one_pass():
    """Clients send numbers that are no JSON, such as 1e999, deep in much that is."""
    value = json.loads("1e999")
    for _ in range(150):
        value = [0, "text", None, value]
    seen = []

    def encode(part):
        seen.append(part)
        return json.dumps(part, allow_nan=False)

    assert first_fault(value, encode) == ("[3]" * 150, float("inf"))
    assert not any(isinstance(part, list) for part in seen)
