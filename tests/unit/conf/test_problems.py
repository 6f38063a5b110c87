"""What the validation of the JOBEXEC setting says, whatever stands there."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings
from hypothesis import given, settings
from hypothesis import strategies as st

from jobexec import conf
from jobexec.conf import Settings, get_settings
from jobexec.conf.validation import GLOBAL, PER_ENGINE, build
from jobexec.exceptions import InvalidSettings

# Django cannot follow a change of DATABASES and says so; the setting JOBEXEC can.
pytestmark = pytest.mark.filterwarnings("ignore:Overriding setting DATABASES")


@pytest.fixture(autouse=True)
def two_databases(settings):
    # Only the aliases are looked at; Django's connections keep what they were configured with.
    settings.DATABASES = {"default": {}, "other": {}}
    settings.JOBEXEC = {}


def read(raw) -> Settings:
    with override_settings(JOBEXEC=raw):
        return get_settings()


def messages(raw) -> list[str]:
    return [str(problem) for problem in conf.problems(raw)]


BAD: dict[str, list[Any]] = {
    "THREADS": [0, -1, 1.5, "10", True, None, 10**9],
    "LEASE_TIME": [0, -1, "30", "P1M", "P", "", None, True, float("nan"), 1e300, []],
    "GRACE_PERIOD": [-0.1, "-PT1S", timedelta(-1)],
    "NODE_NAME": ["", " a", "a\nb", "n" * 101, 5],
    "CATEGORIES": [
        *([], "default", ["a", "a"], [""], [1], None, [["a"]]),
        *({}, {"a": 0}, {"a": 1001}, {"a": 1.5}, {"a": True}, {"a": None}, {"": 1}, {1: 1}),
    ],
    "CATEGORY_ORDER": ["Rank", "random", None, 1],
    "KEEP_CHANGED_SESSIONS": [1, "no", None],
    "ATOMIC_JOBS": [1, "yes", None],
    "HISTORY_LEVEL": ["all", None, ["full"]],
    "DEPLOYMENT_TIME_TO_LIVE": [0, -1, "x"],
    "DEPLOYMENT": ["shop", "shop:", ":1", "a:b:c", 5, "a :1"],
    "ACQUISITION": ["fast", None],
    "WAIT_INCREASE_FACTOR": [0.5, "2", float("inf"), True, 1001],
    "PRIORITY_AGEING": [0, -1, "x"],
    "PRIORITY_RANGE": [5, (1,), (2, 1), (1.5, 2), (True, None), "ab", None],
    "LISTEN_DATABASE": ["", 5],
    "MAX_CONFLICTS": [-1, None],
    "TENANT_CONCURRENCY": [0, -1, True, "5", 1.5, {}, {"a": 0}, {"": 1}, {"a": True}, {"a": None}, {1: 1}, [("a", 1)]],
    "RESOURCES": [
        *([], "pay", None, {"": {"limit": 1}}, {"a*b": {"limit": 1}}, {" a": {"limit": 1}}, {1: {"limit": 1}}),
        *({"a": value} for value in (None, {}, 5, {"limits": 1}, {"limit": 0}, {"limit": True}, {"burst": 3})),
        *(
            {"a": {"rate": rate}}
            for rate in (None, 5, "", "100", "100/", "0/PT1S", "5/PT0S", "5/P1M", "x/PT1M", "9/-PT1S")
        ),
        *({"a": {"breaker": value}} for value in (None, "slow", 5, {"wait": 0}, {"window": 0}, {"profile": "x"})),
        *({"a": {"breaker": value}} for value in ({"failure_rate": 101}, {"window": 5, "minimum_calls": 6}, {"x": 1})),
        *({"a": {"rate": "5/PT1M", "burst": 6}}, {"a": {"rate": "9999999/PT1S", "burst": 1}}),
    ],
    "PROCESSES": [
        *([], None, {"max_value_size": 5000}, {1: 2}, {"MAX_VALUE_SIZE": 0}, {"MAX_VARIABLES_SIZE": "5"}),
        *({"MAX_VALUE_SIZE": 5000, "MAX_VARIABLES_SIZE": 4000}, {"LOCK_TIMEOUT": 0}, {"SENSITIVE": "iban"}),
        *({"HISTORY_TIME_TO_LIVE": -1}, {"AUTO_DEPLOY": 1}, {"SHARED_TRANSACTIONS": "no"}),
    ],
    "SENSITIVE_ARGUMENTS": ["password", None, [""], ["a", "a"], [1], {"a"}],
    "ADMIN_TENANTS": ["", "tenants_of", "shop..tenants", "shop.the tenants", 5, print],
}


@pytest.mark.parametrize(("key", "bad"), [(key, bad) for key, values in BAD.items() for bad in values])
def test_a_bad_value_names_the_setting_and_what_was_got(key, bad):
    (problem,) = conf.problems({key: bad})
    assert problem.setting == f"JOBEXEC[{key!r}]"
    assert problem.message.startswith("must be ")
    assert problem.message.endswith(f"; got {bad!r}.")
    assert problem.check_id == "jobexec.E001"


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"THRAEDS": 5}, "JOBEXEC['THRAEDS'] is not a setting of jobexec. Did you mean 'THREADS'?"),
        ({"threads": 5}, "JOBEXEC['threads'] is not a setting of jobexec. Did you mean 'THREADS'?"),
        ({"LOCKTIME": 5}, "JOBEXEC['LOCKTIME'] is not a setting of jobexec. Did you mean 'LOCK_TIME'?"),
        ({"ENGINE": {}}, "JOBEXEC['ENGINE'] is not a setting of jobexec. Did you mean 'ENGINES'?"),
        ({"XYZZY": 5}, "JOBEXEC['XYZZY'] is not a setting of jobexec."),
        ({7: 5}, "JOBEXEC[7] is not a setting of jobexec."),
        ({"SOURCE": {}}, "JOBEXEC['SOURCE'] is not a setting of jobexec. Did you mean 'RESOURCES'?"),
        (
            {"PROCESSES": {"SENSITIVES": []}},
            "JOBEXEC['PROCESSES'] must be a dict with keys out of 'MAX_VALUE_SIZE', 'MAX_VARIABLES_SIZE', "
            "'LOCK_TIMEOUT', 'SENSITIVE', 'HISTORY_TIME_TO_LIVE', 'AUTO_DEPLOY', 'SHARED_TRANSACTIONS', "
            "without 'SENSITIVES' (did you mean 'SENSITIVE'?); got {'SENSITIVES': []}.",
        ),
        (
            {"ENGINES": {"default": {"MAX_WAITS": 5}}},
            "JOBEXEC['ENGINES']['default']['MAX_WAITS'] is not a setting of jobexec. Did you mean 'MAX_WAIT'?",
        ),
        (
            {"ENGINES": {"default": {"THREADS": 5}}},
            "JOBEXEC['ENGINES']['default']['THREADS'] is not a setting of an engine; write JOBEXEC['THREADS'].",
        ),
    ],
)
def test_unknown_keys_are_refused_with_a_hint(raw, message):
    assert messages(raw) == [message]


@pytest.mark.parametrize(
    ("named", "message"),
    [
        (None, " must be a dict of names to dicts of settings; got None."),
        (["mail"], " must be a dict of names to dicts of settings; got ['mail']."),
        ({"mail": None}, "['mail'] must be a dict of settings; got None."),
        ({"": {}}, "[''] must have a name of 1 to 100 printable characters."),
        ({"mail": {"CATEGORIES": ["post"]}}, "['mail']['CATEGORIES'] must be among CATEGORIES, 'default'; got 'post'."),
        ({"mail": {"CATEGORIES": "default"}}, "['mail']['CATEGORIES'] must be a list of different names"),
        ({"mail": {"MAX_WAIT": 0}}, "['mail']['MAX_WAIT'] must be a timedelta"),
        (
            {"mail": {"LOCK_TIME": 60}},
            "['mail']['LOCK_TIME'] is not a setting of an acquisition; write JOBEXEC['ENGINES'][alias]['LOCK_TIME'].",
        ),
        (
            {"mail": {"THREADS": 5}},
            "['mail']['THREADS'] is not a setting of an acquisition; write JOBEXEC['THREADS'].",
        ),
        (
            {"mail": {"MAX_WAITS": 5}},
            "['mail']['MAX_WAITS'] is not a setting of jobexec. Did you mean 'MAX_WAIT'?",
        ),
    ],
)
def test_a_named_acquisition_is_refused(named, message):
    (found,) = messages({"ACQUISITIONS": named})
    assert found.startswith(f"JOBEXEC['ACQUISITIONS']{message}")


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (["post"], "must be names in JOBEXEC['ACQUISITIONS'] ('mail'); got 'post'."),
        ("mail", "must be a list of different names"),
        ([], "must be a list of different names, at least one"),
    ],
)
def test_an_engine_names_acquisitions_that_there_are(chosen, message):
    (found,) = messages({"ACQUISITIONS": {"mail": {}}, "ENGINES": {"default": {"ACQUISITIONS": chosen}}})
    assert found.startswith(f"JOBEXEC['ENGINES']['default']['ACQUISITIONS'] {message}")


def test_settings_of_an_acquisition_must_fit_those_of_its_engine():
    engines = {"default": {"ACQUISITIONS": ["mail"], "MAX_WAIT_WHEN_LISTENING": 20}}
    (found,) = messages({"ACQUISITIONS": {"mail": {"MAX_WAIT": 25}}, "ENGINES": engines})
    place = "JOBEXEC['ACQUISITIONS']['mail'] in JOBEXEC['ENGINES']['default']"
    assert found.startswith(f"{place}: MAX_WAIT must be at most MAX_WAIT_WHEN_LISTENING")


@pytest.mark.parametrize("order", [{}, {"CATEGORY_ORDER": "rank"}, {"CATEGORY_ORDER": "strict"}])
def test_weights_that_would_not_count_are_refused(order):
    (message,) = messages({"CATEGORIES": {"mail": 3, "default": 1}, **order})
    assert message.startswith("JOBEXEC['CATEGORIES'] must be a list, since CATEGORY_ORDER is ")
    assert message.endswith("weights count only with 'weighted'; got {'mail': 3, 'default': 1}.")


@pytest.mark.parametrize("bad", [None, [], "default", 5])
def test_jobexec_must_be_a_dict(bad):
    assert messages(bad) == [f"JOBEXEC must be a dict; got a value of type {type(bad).__name__!r}."]


@pytest.mark.parametrize("bad", [{}, ["default"], None, "default"])
def test_engines_must_be_a_dict_with_an_alias(bad):
    (problem,) = conf.problems({"ENGINES": bad})
    assert problem.setting == "JOBEXEC['ENGINES']"
    assert "at least one alias" in problem.message


def test_an_engine_must_be_a_dict():
    assert messages({"ENGINES": {"default": None}}) == [
        "JOBEXEC['ENGINES']['default'] must be a dict of settings; got None."
    ]


@pytest.mark.parametrize(
    ("raw", "setting"),
    [
        ({"ENGINES": {"nowhere": {}}}, "JOBEXEC['ENGINES']['nowhere']"),
        ({"LISTEN_DATABASE": "nowhere"}, "JOBEXEC['ENGINES']['default']: LISTEN_DATABASE"),
    ],
)
def test_an_alias_must_be_a_database(raw, setting):
    (problem,) = conf.problems(raw)
    assert (problem.setting, problem.check_id) == (setting, "jobexec.E003")
    assert "'default'" in problem.message
    assert "'nowhere'" in problem.message


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({"LEASE_TIME": 20, "HEARTBEAT_INTERVAL": 10.1}, ["HEARTBEAT_INTERVAL", "half of LEASE_TIME", "0:00:10"]),
        ({"WAIT_TIME": 6}, ["WAIT_TIME", "at most MAX_WAIT"]),
        ({"MAX_WAIT": 31}, ["MAX_WAIT", "at most MAX_WAIT_WHEN_LISTENING"]),
        ({"BACKOFF_TIME": 1}, ["BACKOFF_TIME", "at most MAX_BACKOFF"]),
    ],
)
def test_settings_must_fit_each_other(raw, words):
    (message,) = messages(raw)
    assert all(word in message for word in words)


def test_at_the_bounds_they_fit():
    assert messages({"LEASE_TIME": 20, "HEARTBEAT_INTERVAL": 10, "WAIT_TIME": 5, "BACKOFF_TIME": 0.5}) == []


def test_all_problems_are_listed_at_once():
    with pytest.raises(InvalidSettings) as raised:
        read({"THREADS": 0, "QUEUE": 5, "ENGINES": {"nowhere": {"NOTIFY": 1}}})
    assert isinstance(raised.value, ImproperlyConfigured)
    for word in ("THREADS", "'QUEUE'", "nowhere", "NOTIFY"):
        assert word in str(raised.value)
    assert len(str(raised.value).splitlines()) == 5


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.timedeltas(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
keys = st.sampled_from([*GLOBAL, *PER_ENGINE, "ENGINES"]) | st.text(max_size=5)


@pytest.mark.gate
@settings(deadline=None)  # a busy machine is no failure
@given(st.dictionaries(keys, values, max_size=6))
def test_no_value_whatever_makes_the_validation_fail(raw):
    found, problems = build(raw)
    assert (found is None) == bool(problems)
