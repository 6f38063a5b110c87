"""The text of a stack trace is Python's own, however often it is asked for."""

import traceback

import pytest

from jobexec.executor.run import stack
from jobexec.executor.run.stack import stack_of, stack_without_texts


def deep(depth, error):
    if depth:
        deep(depth - 1, error)
    raise error


def plain():
    raise ValueError("no")


def without_message():
    raise KeyError


def chained():
    try:
        plain()
    except ValueError as error:
        raise RuntimeError("worse") from error


def in_passing():
    try:
        plain()
    except ValueError:
        len(3)


def noted():
    error = ValueError("no")
    error.add_note("at noon")
    raise error


def grouped():
    raise ExceptionGroup("several", [ValueError("one"), KeyError("two")])


def broken_source():
    compile("a b", "<text>", "exec")


@pytest.mark.parametrize(
    "fail",
    [plain, without_message, chained, in_passing, noted, grouped, broken_source, lambda: deep(20, OSError(2, "gone"))],
)
def test_it_is_what_python_says(fail):
    for _ in range(2):  # the second time from memory
        with pytest.raises(Exception) as caught:
            fail()
        assert stack_of(caught.value) == "".join(traceback.format_exception(caught.value))


def test_the_same_place_with_another_message():
    for message in ("first", "second"):
        with pytest.raises(ValueError) as caught:
            deep(1, ValueError(message))
        assert stack_of(caught.value).endswith(f"ValueError: {message}\n")


def test_an_exception_that_was_never_raised():
    assert stack_of(ValueError("no")) == "".join(traceback.format_exception(ValueError("no")))


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr(stack, "_MOST", 3)
    for number in range(10):
        scope = {}
        exec(f"def fail():\n    raise ValueError({number})", scope)
        with pytest.raises(ValueError) as caught:
            scope["fail"]()
        assert f"ValueError: {number}" in stack_of(caught.value)
        assert len(stack._known) <= 3


@pytest.mark.parametrize("function", [stack_of, stack_without_texts])
def test_a_parser_that_another_thread_disturbs_is_asked_again(monkeypatch, function):
    """By Python before 3.11.9 and 3.12.3."""
    failures = [SystemError("AST constructor recursion depth mismatch (before=81, after=138)")] * 3
    format_tb = traceback.format_tb

    def disturbed(*args):
        if failures:
            raise failures.pop()
        return format_tb(*args)

    with pytest.raises(ValueError) as caught:
        raise ValueError("told")
    expected = function(caught.value)
    monkeypatch.setattr(stack, "_known", {})
    monkeypatch.setattr(traceback, "format_tb", disturbed)
    assert function(caught.value) == expected
    assert not failures
