"""The settings of the how-to guide about alerts: a mail server receives the mail about a dead letter."""

import re
from email import message_from_bytes
from socketserver import StreamRequestHandler, ThreadingTCPServer

import django
import pytest
from django.core import mail

from jobexec.models import DeadLetterJob
from jobexec.operations import alert_dead_letters, fail_jobs
from jobexec.runtime.threads import spawn
from jobexec.testing import ManualExecutor
from tests.support.factories import a_failure, a_run, work
from tests.support.suite.databases import ROOT

pytestmark = pytest.mark.transactional
PAGE = ROOT / "docs" / "how-to" / "operate" / "alert-on-dead-letters.md"


@pytest.fixture
def given():
    """The settings of the page."""
    (code,) = re.findall(r"```python\n(# settings.py\nDEFAULT_FROM_EMAIL.*?)```", PAGE.read_text(), re.DOTALL)
    found = {}
    exec(code, found)
    return found


@pytest.fixture
def server():
    """A mail server; `mails` are those that it has received."""

    class Handler(StreamRequestHandler):
        def say(self, line):
            self.wfile.write(f"{line}\r\n".encode())

        def handle(self):
            self.say("220 here")
            for line in self.rfile:
                command = line[:4].upper()
                if command == b"DATA":
                    self.say("354 go on")
                    server.mails.append(message_from_bytes(b"".join(iter(self.rfile.readline, b".\r\n"))))
                self.say("221 bye" if command == b"QUIT" else "250 fine")

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.mails = []
        thread = spawn("mail", server.serve_forever)
        yield server
        server.shutdown()
        thread.join(5)


@pytest.mark.gate
def test_the_mail_arrives(alias, settings, given, server):
    options = given["MAILERS"]["default"]["OPTIONS"]
    options |= {"host": "127.0.0.1", "port": server.server_address[1], "use_tls": False}
    if django.VERSION >= (6, 1):
        settings.MAILERS = given["MAILERS"]
    else:
        settings.EMAIL_BACKEND = given["MAILERS"]["default"]["BACKEND"]
        settings.EMAIL_HOST, settings.EMAIL_PORT = options["host"], options["port"]
    settings.DEFAULT_FROM_EMAIL = given["DEFAULT_FROM_EMAIL"]
    settings.JOBEXEC = {**given["JOBEXEC"], "ENGINES": {alias: {}}}
    assert alert_dead_letters(alias) == 0
    job = work(alias, "here:1", handler_type="shop.pay", retries=1)
    fail_jobs(alias, [(job, a_failure("ValueError: no money", stack=""), a_run(alias))])
    assert DeadLetterJob.objects.using(alias).get().pk == job.id
    assert alert_dead_letters(alias) == 1
    ManualExecutor(alias).run_due()
    (received,) = server.mails
    assert received["Subject"] == "1 new dead letter: shop.pay"
    assert (received["From"], received["To"]) == ("jobs@shop.example", "on-call@shop.example")
    assert "https://shop.example/admin/jobexec/deadletterjob/?fingerprint=" in received.get_payload()
    assert mail.outbox == []
