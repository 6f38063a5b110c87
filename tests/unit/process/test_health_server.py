"""The health port: paths, codes and bodies, over real sockets."""

import http.client
import json
import socket
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from jobexec.exceptions import NodeRefused
from jobexec.executor.process.health_server import HealthServer
from jobexec.executor.process.report import Report
from jobexec.runtime import side_port
from tests.support.waiting import TIMEOUT, threads

REPORT = Report(startup=[], ready=["no lease", "draining"], live=[], status="Not ready", details={"node": "hier ü"})


@pytest.fixture
def serve():
    """A function that starts a server and returns its address."""
    made = []

    def start(report=lambda: REPORT, host="127.0.0.1", port=0):
        made.append(HealthServer(host, port, report))
        made[-1].start()
        return made[-1].url

    yield start
    for server in made:
        assert server.stop(TIMEOUT)
        assert server.stop(TIMEOUT), "twice is no harm"
    assert threads("jobexec-health") == []


def ask(url, path, method="GET"):
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=TIMEOUT)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read(), answer
    finally:
        connection.close()


def test_yes_and_no(serve):
    url = serve()
    status, body, answer = ask(url, "/live")
    assert (status, json.loads(body)) == (
        200,
        {"ok": True, "reasons": [], "status": "Not ready", "node": "hier ü"},
    )
    assert answer.getheader("Content-Type") == "application/json"
    assert answer.getheader("Cache-Control") == "no-store"
    status, body, _ = ask(url, "/ready/?verbose=1")
    assert (status, json.loads(body)["ok"], json.loads(body)["reasons"]) == (503, False, ["no lease", "draining"])
    assert ask(url, "/startup")[0] == 200
    assert ask(url, "/ready", "HEAD")[:2] == (503, b"")


@pytest.mark.parametrize("path", ["/", "/metrics", "/live/x", "/draining", "/details"])
def test_other_paths_are_told_which_there_are(serve, path):
    status, body, _ = ask(serve(), path)
    assert (status, json.loads(body)) == (404, {"error": "expected one of /startup, /ready, /live"})


def test_nothing_but_questions(serve):
    assert ask(serve(), "/live", "POST")[0] == 501


def test_a_client_that_says_nothing_or_nonsense_ends_nothing(serve, monkeypatch):
    monkeypatch.setattr(side_port.BoundedServer, "deadline", 0.05)
    url = serve()
    address = urlsplit(url).hostname, urlsplit(url).port
    with socket.create_connection(address, TIMEOUT) as silent:
        assert silent.recv(100) == b"", "it has been given up"
    monkeypatch.undo()  # a slow machine may need longer than that to send two lines
    with socket.create_connection(address, TIMEOUT) as rude:
        rude.sendall(b"\x16\x03\x01\x02\x00\n\n")
        assert b"400" in rude.recv(1000)
    assert ask(url, "/live")[0] == 200


def test_who_sends_a_byte_now_and_then_keeps_nobody_waiting(serve, monkeypatch):
    monkeypatch.setattr(side_port.BoundedServer, "deadline", 60.0)
    monkeypatch.setattr(side_port.BoundedServer, "most", 3)
    url = serve()
    address = urlsplit(url).hostname, urlsplit(url).port
    with ExitStack() as stack:
        slow = [stack.enter_context(socket.create_connection(address, TIMEOUT)) for _ in range(5)]
        for each in slow[2:]:
            each.sendall(b"GET /li")
        assert ask(url, "/live")[0] == 200
        assert [each.recv(100) for each in slow[:2]] == [b"", b""], "the oldest have made room"
        slow[4].sendall(b"ve HTTP/1.0\r\n\r\n")
        assert slow[4].recv(12) == b"HTTP/1.0 200"


def test_an_error_in_a_report_costs_one_answer_only(serve):
    reports = [None, REPORT]
    url = serve(lambda: reports.pop(0))
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        ask(url, "/live")
    assert ask(url, "/live")[0] == 200


def test_ipv6(serve):
    try:
        url = serve(host="::1")
    except NodeRefused as error:
        pytest.skip(f"no IPv6 here: {error}")
    assert url.startswith("http://[::1]:")
    assert ask(url, "/live")[0] == 200


@pytest.mark.parametrize("host", ["203.0.113.1", "no.such.host.invalid", "127.0.0.256"])
def test_an_address_that_is_not_ours(host):
    with pytest.raises(NodeRefused, match=rf"^--health-port 0: cannot listen on '{host}': \S"):
        HealthServer(host, 0, lambda: REPORT)


def test_a_port_has_one_server(serve):
    port = urlsplit(serve()).port
    with pytest.raises(NodeRefused, match=f"^--health-port {port}: .* Address already in use"):
        HealthServer("127.0.0.1", port, lambda: REPORT)
