"""Which failures look alike."""

import pytest

from jobexec.operations.values.fingerprint import exception_name, fingerprint

STACK = (
    'Traceback (most recent call last):\n  File "{root}/shop/jobs.py", line {line}, in {function}\n    pay()\n{error}\n'
)


def stack(root="/srv/releases/1", line=7, function="charge", error="ValueError: no"):
    return STACK.format(root=root, line=line, function=function, error=error)


def of(**values):
    return fingerprint("shop.charge", "ValueError: no", stack(**values))


def test_the_same_place_is_alike_whatever_the_message_the_line_or_the_release():
    assert of() == of(line=9) == of(root="/srv/releases/2")
    assert of() == fingerprint("shop.charge", "ValueError: order 17 is gone", stack())


def test_another_place_exception_or_handler_is_not():
    assert of() != of(function="refund")
    assert of() != fingerprint("shop.charge", "KeyError: no", stack())
    assert of() != fingerprint("shop.refund", "ValueError: no", stack())


@pytest.mark.parametrize("other", ["order 18", "order '17'", 'order "x y"', "order 0xff", "order deadbeef-1234-abcd"])
def test_without_a_stack_what_is_particular_in_a_message_does_not_count(other):
    assert fingerprint("h", f"ValueError: {other} is gone") == fingerprint("h", "ValueError: order 17 is gone")


def test_but_the_rest_of_it_does():
    assert fingerprint("h", "ValueError: order 17 is gone") != fingerprint("h", "ValueError: order 17 is late")


@pytest.mark.parametrize(("message", "name"), [("KeyError: 'x'", "KeyError"), ("no such thing", ""), ("", "")])
def test_the_name_of_the_exception(message, name):
    assert exception_name(message) == name
