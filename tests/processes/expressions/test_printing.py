"""Trees are printed as the text that they are parsed from: by tables, and by Hypothesis with random trees."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobexec.processes.expressions import EvaluationError, ExpressionError, parse, tree
from jobexec.processes.expressions.limits import MAX_DEPTH
from tests.processes.expressions.test_feel import TABLES
from tests.processes.expressions.test_juel import CASES
from tests.processes.support.printer import print_feel, print_juel

# What Hypothesis would print of a large tree is of no use, and no failure.
pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")

NAMES = st.sampled_from(["a", "order", "x1", "größe", "_b"])
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NUMBERS = st.integers(0, 10**12)


def literals(texts):
    return st.builds(tree.Literal, st.one_of(texts, NUMBERS, st.booleans(), st.none()))


def binaries(operators, inner):
    return st.builds(tree.Binary, st.sampled_from(operators), inner, inner)


def junctions(inner):
    """`and` within `and` is one node, so the operands are of another kind."""
    operands = inner.filter(lambda node: not isinstance(node, tree.And | tree.Or))
    several = st.lists(operands, min_size=2, max_size=4).map(tuple)
    return st.one_of(st.builds(tree.And, several), st.builds(tree.Or, several))


def juel_inner(inner):
    arguments = st.lists(inner, max_size=3).map(tuple)
    return st.one_of(
        binaries(["+", "-", "*", "/", "%", "=", "!=", "<", "<=", ">", ">="], inner),
        junctions(inner),
        st.builds(tree.Unary, st.sampled_from(["-", "not", "empty"]), inner),
        st.builds(tree.Conditional, inner, inner, inner),
        st.builds(tree.Property, inner, NAMES),
        st.builds(tree.Index, inner, inner),
        st.builds(tree.Call, st.sampled_from(["f", "shop.price"]), arguments),
        st.builds(tree.ObjectProperty, st.just("execution"), st.just("businessKey")),
    )


def feel_inner(inner):
    items = st.lists(inner, max_size=3).map(tuple)
    iterators = st.lists(st.tuples(NAMES, inner), min_size=1, max_size=2).map(tuple)
    ranges = st.builds(tree.RangeOf, inner, inner, st.booleans(), st.booleans())
    tests = st.one_of(inner, ranges, st.builds(tree.Test, st.sampled_from(["<", "<=", ">", ">=", "=", "!="]), inner))
    entries = st.lists(st.tuples(TEXTS, inner), max_size=3, unique_by=lambda entry: entry[0]).map(tuple)
    return st.one_of(
        binaries(["+", "-", "*", "/", "**", "=", "!=", "<", "<=", ">", ">="], inner),
        junctions(inner),
        ranges,
        st.builds(tree.Unary, st.just("-"), inner),
        st.builds(tree.Conditional, inner, inner, inner),
        st.builds(tree.Property, inner, st.one_of(NAMES, st.sampled_from(["time offset", "and", "a b"]))),
        st.builds(tree.Filter, inner, inner),
        st.builds(tree.Call, st.sampled_from(["f", "shop.price", "concatenate", "date and time"]), items.filter(bool)),
        st.builds(tree.ListOf, items),
        st.builds(tree.ContextOf, entries),
        st.builds(tree.In, inner, st.lists(tests, min_size=1, max_size=3).map(tuple)),
        st.builds(tree.Between, inner, inner, inner),
        st.builds(tree.InstanceOf, inner, st.sampled_from(["number", "date and time", "Any"])),
        st.builds(tree.For, iterators, inner),
        st.builds(tree.Quantified, st.sampled_from(["some", "every"]), iterators, inner),
    )


def names():
    return st.builds(tree.Name, NAMES)


JUEL = st.recursive(st.one_of(names(), literals(TEXTS)), juel_inner, max_leaves=12)
FEEL = st.recursive(st.one_of(names(), literals(TEXTS)), feel_inner, max_leaves=12)


def kinds(node):
    """What equality of literals does not tell: 1 is True."""
    return [type(each.value) for each, _ in tree.walk(node) if isinstance(each, tree.Literal)]


def printable(node):
    return len(print_juel(node)) <= 400 and max(level for _, level in tree.walk(node)) <= MAX_DEPTH


@pytest.mark.gate
@given(JUEL.filter(printable))
def test_juel_round_trip(node):
    parsed = parse(print_juel(node), "juel").tree
    if not isinstance(node, tree.Literal):  # one that is the whole text becomes text
        assert parsed == node
        assert kinds(parsed) == kinds(node)


@pytest.mark.gate
@given(st.lists(st.one_of(JUEL, literals(TEXTS)), min_size=2, max_size=4).filter(lambda parts: len(str(parts)) < 2000))
def test_text_round_trip(parts):
    printed = print_juel(tree.Text(tuple(parts)))
    again = print_juel(parse(printed, "juel").tree)
    assert again == printed or parse(again, "juel").tree == parse(printed, "juel").tree


@pytest.mark.gate
@given(FEEL.filter(lambda node: len(print_feel(node)) <= 400))
def test_feel_round_trip(node):
    try:
        parsed = parse(print_feel(node), "feel").tree
    except ExpressionError as error:  # functions of the language have arities
        assert "cannot be called with these arguments" in error.reason
        return
    assert parsed == node
    assert kinds(parsed) == kinds(node)


@pytest.mark.parametrize("source", [case[0] for case in CASES])
def test_cases_of_juel(source):
    node = parse(source, "juel").tree
    assert parse(print_juel(node), "juel").tree == node


@pytest.mark.parametrize(
    "source", [line.rsplit("|", 1)[0].strip() for text in TABLES.values() for line in text.strip().splitlines()]
)
def test_cases_of_feel(source):
    node = parse(source, "feel").tree
    assert parse(print_feel(node), "feel").tree == node


def test_what_a_builder_makes():
    condition = tree.Binary(">", tree.Index(tree.Name("charged"), tree.Literal("amount")), tree.Literal(1000))
    assert print_juel(condition) == "${charged['amount'] > 1000}"


def test_languages_write_only_their_own_nodes():
    with pytest.raises(ExpressionError, match="a Filter cannot be written"):
        print_juel(tree.Filter(tree.Name("a"), tree.Literal(1)))


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=10,
)


@pytest.mark.gate
@given(FEEL.filter(lambda node: len(print_feel(node)) <= 400), st.dictionaries(NAMES, VALUES))
def test_feel_has_a_value_or_an_error_of_its_own(node, variables):
    with suppress(ExpressionError):
        parse(print_feel(node), "feel").evaluate(variables)


@pytest.mark.gate
@given(JUEL.filter(printable), st.dictionaries(NAMES, VALUES))
def test_juel_has_a_value_or_an_error_of_its_own(node, variables):
    with suppress(ExpressionError):
        parse(print_juel(node), "juel").evaluate(variables)


@pytest.mark.gate
@given(VALUES)
def test_text_of_json(value):
    """What a variable becomes in a text is JSON again."""
    if isinstance(value, list | dict):
        assert json.loads(parse("${''}${a}", "juel").evaluate({"a": value})) == value


@given(st.text(max_size=60))
def test_any_text_is_parsed_or_refused(text):
    for language in ("juel", "feel"):
        try:
            parse(text, language)
        except ExpressionError as error:
            assert 0 <= error.position <= len(text)


@given(
    st.lists(
        st.sampled_from(["${", "}", "a", ".", "(", ")", "[", "]", "+", "'", '"', "1", " in ", " for ", "..", ","]),
        max_size=30,
    )
)
def test_any_tokens_are_parsed_or_refused(pieces):
    test_any_text_is_parsed_or_refused.hypothesis.inner_test("".join(pieces))
    try:
        parse("".join(pieces), "feel").evaluate({"a": [1, {"a": 2}]})
    except EvaluationError:
        raise AssertionError("no limit is reached by so few tokens") from None
    except ExpressionError:
        pass
