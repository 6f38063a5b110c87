"""Each function of FEEL with each kind of value: it has a value that is JSON, and changes none of its arguments."""

import copy
import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobexec.processes.expressions import EvaluationContext, ExpressionError, Months, Range, parse
from jobexec.processes.expressions.feel_functions import FEEL_FUNCTIONS
from jobexec.processes.expressions.values import KINDS
from tests.support.suite import tiers

ZONES = st.sampled_from([UTC, *(timezone(timedelta(hours=hours)) for hours in (-14, 14)), ZoneInfo("Europe/Berlin")])
EDGES = st.sampled_from([datetime.min, datetime.max])
TEMPORAL = st.one_of(
    st.dates(),
    st.times(),
    st.times(timezones=ZONES),
    st.datetimes(),
    st.datetimes(timezones=st.timezones()),
    st.builds(lambda edge, zone: edge.replace(tzinfo=zone), EDGES, ZONES),
    st.timedeltas(),
    st.sampled_from([timedelta.min, timedelta.max]),
    st.builds(Months, st.integers(-(10**9), 10**9)),
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-10, 10),
    st.integers(-(2**1100), 2**1100),
    st.floats(),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.sampled_from(
        ["2026-01-31", "10:00:00Z", "2026-01-31T10:00:00@Europe/Berlin", "P1M", "-PT1H", "1.5", ",", "\\s"]
    ),
    TEMPORAL,
)
RANGES = st.builds(Range, st.integers(-5, 5), st.integers(-5, 5), st.booleans(), st.booleans())
VALUES = st.one_of(
    SCALARS,
    RANGES,
    st.lists(SCALARS, max_size=4),
    st.lists(st.booleans(), max_size=4),
    st.lists(st.integers(-5, 5), max_size=4),
    st.lists(st.lists(SCALARS, max_size=2), max_size=3),
    st.dictionaries(st.text(max_size=2), SCALARS, max_size=3),
    st.just([{"key": "a", "value": 1}]),
)
EXAMPLES = tiers.current().examples
CONTEXT = EvaluationContext(now=lambda: datetime(2026, 1, 2, tzinfo=UTC))


def forms():
    """Each function with each number of arguments that it takes."""
    for name in sorted(FEEL_FUNCTIONS.names()):
        counts = {count for function in FEEL_FUNCTIONS.named(name) for count in range(5) if function.accepts(count)}
        yield from (pytest.param(name, count, id=f"{name} {count}") for count in sorted(counts))


@pytest.mark.parametrize(("name", "count"), list(forms()))
@given(data=st.data())
@settings(max_examples=EXAMPLES)
def test_any_arguments(name, count, data):
    arguments = {f"a{at}": data.draw(VALUES) for at in range(count)}
    before = copy.deepcopy(arguments)
    try:
        found = parse(f"{name}({', '.join(arguments)})", "feel").evaluate(arguments, CONTEXT)
    except ExpressionError:
        return
    json.dumps(found)
    assert repr(arguments) == repr(before)


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "**", "=", "!=", "<", "<=", ">", ">=", "in", "and", "or"])
@given(left=VALUES, right=VALUES)
@settings(max_examples=2 * EXAMPLES)
def test_any_operands(operator, left, right):
    try:
        found = parse(f"left {operator} right", "feel").evaluate({"left": left, "right": right})
    except ExpressionError:
        return
    json.dumps(found)


@pytest.mark.parametrize("operator", ["+", "-", "/", "=", "<", ">="])
@given(left=TEMPORAL, right=TEMPORAL)
@settings(max_examples=2 * EXAMPLES)
def test_any_dates_and_times(operator, left, right):
    """No error at all: what has no result is null."""
    for source in (f"left {operator} right", "-left", "left in [right..right]", "string(left)", "[left, right]"):
        json.dumps(parse(source, "feel").evaluate({"left": left, "right": right}))


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||"])
@given(left=VALUES, right=VALUES)
@settings(max_examples=2 * EXAMPLES)
def test_any_operands_of_juel(operator, left, right):
    try:
        found = parse(f"${{left {operator} right}}x", "juel").evaluate({"left": left, "right": right})
    except ExpressionError:
        return
    assert type(found) is str


@pytest.mark.gate
@given(target=VALUES, index=VALUES)
def test_any_index(target, index):
    for source, language in (("=target[index]", "feel"), ("${target[index]}", "juel"), ("=target.days", "feel")):
        with suppress(ExpressionError):
            assert type(parse(source, language).evaluate({"target": target, "index": index})) in KINDS


def test_null_for_an_optional_argument():
    assert parse("floor(1.5, null)", "feel").evaluate({}) == 1
    assert parse("floor(n: 1.5)", "feel").evaluate({}) == 1
    assert parse('substring("abc", 2, null)', "feel").evaluate({}) == "bc"
