"""Which arguments are hidden, and how their values are taken out of texts."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobexec.exceptions import InvalidJob
from jobexec.handlers.decorator import job
from jobexec.handlers.registry import isolated
from jobexec.json_values import MAX_DEPTH, check_json, encode_json, is_too_deep
from jobexec.redaction import redact, secrets_of
from jobexec.sensitive import HIDDEN, MOST_SECRETS, hide, is_sensitive, redact_text, values_below


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "old_password",
        "PASSWORD",
        "accessToken",
        "api_key",
        "apiKey",
        "X-Api-Key",
        "client_secret",
        "Authorization",
    ],
)
def test_names_that_are_hidden_whatever_the_handler_says(name):
    assert is_sensitive(name)


@pytest.mark.parametrize("name", ["amount", "key", "pass_through", "api", "card_number", ""])
def test_names_that_are_not(name):
    assert not is_sensitive(name)


def test_the_setting_replaces_the_words(settings):
    settings.JOBEXEC = {"SENSITIVE_ARGUMENTS": ["iban", "a.b"]}
    assert is_sensitive("customer_IBAN")
    assert not is_sensitive("password")
    assert not is_sensitive("axb"), "a word is no regular expression"
    settings.JOBEXEC = {"SENSITIVE_ARGUMENTS": []}
    assert not is_sensitive("password")


def test_words_of_processes_come_in_addition(settings):
    settings.JOBEXEC = {"PROCESSES": {"SENSITIVE": ["iban"]}}
    assert is_sensitive("customerIBAN")
    assert is_sensitive("password")
    assert hide({"iban": 5, "amount": 1}) == {"iban": HIDDEN, "amount": 1}


def test_values_are_hidden_however_deep_and_nothing_is_changed():
    before = {"a": [{"password": {"x": 1}, "b": 2}], "card": 3}
    assert hide(before, ["card"]) == {"a": [{"password": HIDDEN, "b": 2}], "card": HIDDEN}
    assert before == {"a": [{"password": {"x": 1}, "b": 2}], "card": 3}


@pytest.fixture
def handler():
    with isolated():

        @job(name="tests.pay", sensitive=("card_number", "rest"))
        def pay(context, order, card_number, pin_token=None, *rest, **more):
            pass

        yield pay


def test_positional_arguments_go_by_the_names_of_the_function(handler):
    shown = redact("tests.pay", {"args": [1, "4111", "t", "r1", "r2"], "kwargs": {"password": "p", "x": 2}})
    assert shown == {"args": [1, HIDDEN, HIDDEN, HIDDEN, HIDDEN], "kwargs": {"password": HIDDEN, "x": 2}}
    assert redact("tests.pay", {"args": [], "kwargs": {"card_number": "4", "order": 1}})["kwargs"] == {
        "card_number": HIDDEN,
        "order": 1,
    }


@pytest.mark.parametrize(
    "configuration", [None, 7, "text", [], {}, {"args": 1}, {"args": [1], "kwargs": 2}, [{"token": 1}]]
)
def test_what_is_not_what_enqueue_writes_is_shown_all_the_same(handler, configuration):
    shown = redact("tests.pay", configuration)
    assert shown == ([{"token": HIDDEN}] if configuration == [{"token": 1}] else configuration)


def test_the_definition_names_what_is_hidden(handler):
    assert handler.definition()["sensitive"] == ["card_number", "rest", "pin_token"]


def test_a_name_that_is_no_argument_is_an_error():
    with isolated(), pytest.raises(InvalidJob, match=r"sensitive: 'card' is not an argument .* \(it has card_number\)"):
        job(name="tests.typo", sensitive=("card",))(lambda card_number: None)
    with isolated(), pytest.raises(InvalidJob, match="expected a tuple of names"):
        job(name="tests.typo", sensitive="card_number")(lambda card_number: None)


def test_the_error_at_enqueue_does_not_quote_the_value(handler):
    with pytest.raises(InvalidJob) as caught:
        handler.enqueue(1, card_number={"4111-1111"})
    assert "4111" not in str(caught.value)
    assert "argument 'card_number': expected JSON, got ●●●" in str(caught.value)
    with pytest.raises(InvalidJob) as caught:
        handler.enqueue(1, "4", password={"hunter22"})
    assert "hunter22" not in str(caught.value)
    with pytest.raises(InvalidJob, match="5555"):
        handler.enqueue({"5555"}, "4")


def test_the_secrets_of_a_job(handler):
    text = '{"args": [77777, "4111", "tok"], "kwargs": {"x": [{"api-key": ["k1", 2]}]}}'
    assert secrets_of(handler, text) == ["4111", "tok", ["k1", 2]]
    assert secrets_of(handler, "{broken") == secrets_of(handler, None) == []
    assert secrets_of(None, '{"kwargs": {"password": "p"}}') == ["p"]


def test_texts_lose_the_values_in_every_spelling():
    secret = 'it\'s "5"\n ü'
    text = f"{secret} and {secret!r} and {{'a': {[secret]}}}"
    assert redact_text(text, [secret]) == "●●● and '●●●' and {'a': ['●●●']}"


def test_numbers_stand_alone():
    assert redact_text("4111 14111 4111.5 x4111 (4111) 4111.", [4111]) == "●●● 14111 4111.5 x4111 (●●●) ●●●."


def test_what_is_short_says_nothing_and_what_is_within_counts():
    assert (
        redact_text("abc 123 True None long", ["abc", 123, True, None, {"a": ["long", {}]}]) == "abc 123 True None ●●●"
    )


def nested(depth, inner):
    for _ in range(depth):
        inner = [inner]
    return inner


def test_what_is_nested_deeper_than_any_door_lets_in_is_hidden():
    deep = nested(3000, {"password": "hunter22", "plain": "also"})
    shown = hide({"a": deep, "b": 1})
    assert shown["b"] == 1
    assert "hunter22" not in str(shown)
    assert "hunter22" not in redact_text("it was hunter22", values_below({"a": deep}))
    with pytest.raises(RecursionError):
        secrets_of(None, '{"password":' + "[" * 200_000 + "]" * 200_000 + "}")


def test_what_every_door_lets_in_is_shown():
    value = {"args": [nested(MAX_DEPTH - 1, {"password": "p", "plain": "seen"})], "kwargs": {}}
    assert "seen" in str(hide(value))
    assert f"'password': '{HIDDEN}'" in str(hide(value))


@pytest.mark.parametrize(
    ("text", "too_deep"),
    [
        ("[" * MAX_DEPTH + "]" * MAX_DEPTH, False),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), True),
        ('{"a":' * 300 + "1" + "}" * 300, True),
        ("[" + ",".join(['{"a": [1, {}]}'] * 1000) + "]", False),
        (json.dumps(["[" * 500, '\\"[' * 500]), False),
        (json.dumps(["]" * 500, nested(300, 1)]), True),
    ],
)
def test_how_deep_json_is(text, too_deep):
    assert is_too_deep(text) is too_deep


def test_arguments_nested_too_deep_are_refused():
    with pytest.raises(InvalidJob, match="order: expected JSON that is nested at most 200 deep, and does"):
        check_json("order", nested(MAX_DEPTH + 1, 1))
    assert encode_json(nested(MAX_DEPTH + 1, 1)) is None
    check_json("order", nested(MAX_DEPTH - 1, 1))


def test_with_too_many_secrets_nothing_is_left_of_a_text():
    secrets = [f"secret-{number}" for number in range(MOST_SECRETS + 1)]
    assert redact_text("nobody knows", secrets) == HIDDEN
    assert redact_text("secret-7 and more", secrets[: MOST_SECRETS // 2]) == "●●● and more"


def test_a_long_text_is_cut_before_it_is_searched_and_no_part_of_a_secret_is_left_at_the_cut():
    secret = "0123456789abcdef"
    text = secret * 100
    for most in range(100, 140):
        found = redact_text(f"begin {text} end", [secret], most)
        assert len(found) <= most + 50
        assert "characters left out" in found
        assert "0123" not in found.replace(HIDDEN, "")
        assert found.startswith("begin ")
    overlapping = ["abcabc", "bcabca", "cabcab"]
    assert redact_text("abc" * 500, overlapping, 300) == "\n... 1500 characters left out ...\n"


def test_the_longest_value_goes_first():
    assert redact_text("4111-1111", ["4111", "4111-1111"]) == HIDDEN


@given(st.text(min_size=4), st.text(), st.text())
def test_no_value_survives(secret, before, after):
    if len(secret.strip()) >= 4 and not set(secret) & set(HIDDEN):
        for spelled in (secret, repr(secret)):
            assert secret not in redact_text(before + spelled + after, [secret])
