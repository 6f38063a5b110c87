"""Strangers at the gateways are written down, but not each of a thousand."""

import logging

import pytest
from django.test import RequestFactory

from jobexec.gateways import auth
from jobexec.gateways.auth import rejected_log
from jobexec.gateways.auth.rejected_log import RejectionSummary


@pytest.fixture
def time(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(rejected_log.clock, "monotonic", lambda: now[0])
    return now


def test_the_first_at_once_and_the_others_together(time, caplog):
    caplog.set_level(logging.WARNING, "jobexec.gateway")
    teller = RejectionSummary()
    for _ in range(5):
        teller.tell("10.0.0.7", "no good")
    assert [record.getMessage() for record in caplog.records] == ["Rejected a request from '10.0.0.7': no good"]
    time[0] += 10
    teller.tell("a\nb" + "x" * 500, "no good")
    line = caplog.records[-1].getMessage()
    assert "(4 more since the last message)" in line and "\n" not in line and len(line) < 300


@pytest.mark.databases("sqlite")
def test_a_view_tells_of_them(alias, monkeypatch, caplog, settings):
    caplog.set_level(logging.WARNING, "jobexec.gateway")
    monkeypatch.setattr(auth.views, "rejections", RejectionSummary())
    request = RequestFactory().get("/v2/topology", headers={"authorization": "Bearer wrong"}, REMOTE_ADDR="10.0.0.7")
    assert auth.protected()(lambda request: None)(request).status_code == 401
    assert "10.0.0.7" in caplog.text and "wrong" not in caplog.text
