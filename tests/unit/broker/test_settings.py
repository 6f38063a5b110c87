"""The settings of the broker, and what the system checks say about them."""

import sys

import pytest
from django.test import override_settings

from jobexec.checks import check_broker, check_settings
from jobexec.conf import get_settings
from jobexec.exceptions import InvalidSettings, JobExecError
from jobexec.executor.process.preflight import check_broker as preflight

URL = "amqp://jobs:hush@localhost:5672//"


def test_without_a_word_there_is_no_broker():
    with override_settings(JOBEXEC={}):
        settings = get_settings()
        assert (settings.dispatch, settings.broker_url, settings.broker_queue_prefix) == ("database", None, "jobexec")
        assert settings.broker_poll_interval.total_seconds() == 60
        with pytest.raises(JobExecError, match="'DISPATCH'"):
            preflight(settings)


def test_the_password_is_not_shown():
    with override_settings(JOBEXEC={"DISPATCH": "broker", "BROKER_URL": URL}):
        assert "hush" not in repr(get_settings())
        preflight(get_settings())


@pytest.mark.parametrize(
    "keys, named",
    [
        ({"DISPATCH": "broker"}, "BROKER_URL"),
        ({"DISPATCH": "kafka"}, "DISPATCH"),
        ({"BROKER_URL": "localhost"}, "BROKER_URL"),
        ({"BROKER_URL": 5}, "BROKER_URL"),
        ({"BROKER_QUEUE_PREFIX": ""}, "BROKER_QUEUE_PREFIX"),
        ({"BROKER_QUEUE_PREFIX": "a b"}, "BROKER_QUEUE_PREFIX"),
        ({"BROKER_POLL_INTERVAL": 0}, "BROKER_POLL_INTERVAL"),
    ],
)
def test_what_cannot_be_is_named(keys, named):
    with override_settings(JOBEXEC=keys):
        (problem,) = check_settings()
        assert named in problem.msg and problem.id == "jobexec.E001"
        assert check_broker() == []  # said already
        with pytest.raises(InvalidSettings, match=named):
            get_settings()


def test_a_broker_needs_kombu(monkeypatch):
    with override_settings(JOBEXEC={"DISPATCH": "broker", "BROKER_URL": URL}):
        assert check_broker() == []
        monkeypatch.setitem(sys.modules, "kombu", None)
        (problem,) = check_broker()
        assert problem.id == "jobexec.E013" and "the extra 'broker'" in problem.hint
        with pytest.raises(JobExecError, match="the extra 'broker'"):
            preflight(get_settings())
    with override_settings(JOBEXEC={}):
        assert check_broker() == []  # nobody needs it


def test_messages_cannot_be_divided_by_priority():
    keys = {"DISPATCH": "broker", "BROKER_URL": URL, "PRIORITY_RANGE": (1, None)}
    with override_settings(JOBEXEC=keys), pytest.raises(JobExecError, match="PRIORITY_RANGE"):
        preflight(get_settings())
