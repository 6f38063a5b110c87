"""Which dead letters a target is told of, in which message, and what it says."""

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from django.db import transaction

from jobexec import jobs
from jobexec.conf.alerts import FORMATS
from jobexec.exceptions import AlertFailed, DoNotRetry
from jobexec.models import AlertedGroup, DeadLetterJob, FailureGroup, Incident, Job
from jobexec.operations import fail_jobs, move_to_dead_letter, requeue, send_test_alert
from jobexec.operations.external import fail_external_job
from jobexec.operations.history.incidents import open_breaker_incident
from jobexec.operations.maintenance import alert_delivery, dead_letter_alerts
from jobexec.operations.maintenance.dead_letter_alerts import ALERT, alert_dead_letters
from jobexec.retry import RetryPlan
from jobexec.runtime.threads import spawn
from jobexec.testing import ManualExecutor
from tests.support.factories import a_failure, a_run, in_hands, make_row, work

pytestmark = pytest.mark.every_database
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
TEAM = {"mail": "team@shop.example", "interval": "PT1H"}


@pytest.fixture(autouse=True)
def mailer(settings):
    """Django since 6.1 warns of mails without MAILERS."""
    settings.MAILERS = {"default": {"BACKEND": "django.core.mail.backends.locmem.EmailBackend"}}


@pytest.fixture
def targets(alias, configure):
    """A function that sets DEAD_LETTER_ALERTS, and begins: what is dead by then is told to nobody."""

    def change(settings=None, **named):
        configure(DEAD_LETTER_ALERTS=named, **(settings or {}))
        assert alert_dead_letters(alias) == 0

    return change


def die(alias, handler="shop.pay", message="ValueError: no", **columns):
    job = work(alias, "here:1", handler_type=handler, retries=1, **columns)
    fail_jobs(alias, [(job, a_failure(message, stack=""), a_run(alias))])
    return job.id


def told(alias):
    """The messages that wait, as (target, [(handler, count), …]); they are then gone."""
    rows = Job.objects.using(alias).filter(handler_type=ALERT).order_by("pk")
    found = [(row.handler_configuration["args"][0], row.handler_configuration["kwargs"]["groups"], row) for row in rows]
    rows.delete()
    return [(name, sorted((each["handler"], each["dead_letters"]) for each in groups)) for name, groups, _ in found]


def test_without_the_setting_nothing_is_read(alias, django_assert_num_queries):
    with django_assert_num_queries(0, using=alias):
        assert alert_dead_letters(alias) == 0


def test_what_is_dead_already_is_told_to_nobody(alias, targets, frozen):
    die(alias)
    frozen.tick(1)
    targets(team=TEAM)
    assert (alert_dead_letters(alias), told(alias)) == (0, [])


def test_one_message_for_many(alias, targets, frozen):
    targets(team=TEAM)
    frozen.tick(1)
    for _ in range(5):
        die(alias, "shop.pay", "ValueError: no")
    die(alias, "shop.ship", "LookupError: no stock")
    assert alert_dead_letters(alias) == 1
    assert told(alias) == [("team", [("shop.pay", 5), ("shop.ship", 1)])]
    assert (alert_dead_letters(alias), told(alias)) == (0, [])


def test_again_only_after_the_interval_and_only_what_is_new(alias, targets, frozen):
    targets(team=TEAM)
    frozen.tick(1)
    die(alias)
    assert alert_dead_letters(alias) == 1
    for _ in range(3):
        frozen.tick(600)
        die(alias)
        assert alert_dead_letters(alias) == 0
    assert told(alias) == [("team", [("shop.pay", 1)])]
    frozen.tick(1801)
    assert alert_dead_letters(alias) == 1
    assert told(alias) == [("team", [("shop.pay", 3)])]
    frozen.tick(86_400)
    assert alert_dead_letters(alias) == 0, "nothing is new"


def test_another_group_does_not_wait_for_the_interval_but_for_a_minute(alias, targets, frozen):
    targets(team=TEAM)
    frozen.tick(1)
    die(alias)
    assert alert_dead_letters(alias) == 1
    frozen.tick(10)
    die(alias, "shop.ship")
    assert alert_dead_letters(alias) == 0
    frozen.tick(51)
    assert alert_dead_letters(alias) == 1
    assert told(alias) == [("team", [("shop.pay", 1)]), ("team", [("shop.ship", 1)])]


def test_a_late_commit_is_told(alias, targets, frozen):
    targets(team=TEAM)
    frozen.tick(100)
    die(alias, "shop.pay")
    assert alert_dead_letters(alias) == 1
    Incident.objects.using(alias).filter(job_id=die(alias, "shop.late")).update(timestamp=NOW + timedelta(seconds=50))
    frozen.tick(61)
    assert alert_dead_letters(alias) == 1
    assert told(alias)[-1] == ("team", [("shop.late", 1)])


def test_each_target_is_told_of_its_own(alias, targets, frozen):
    targets(
        all=TEAM,
        mail={**TEAM, "categories": ["mail"]},
        shop={**TEAM, "handlers": ["shop.*", "exact"]},
        big={**TEAM, "tenants": ["big"]},
        none={**TEAM, "tenants": [""]},
    )
    frozen.tick(1)
    die(alias, "shop.pay", tenant_id="big")
    move_to_dead_letter(make_row(Job, alias, handler_type="exact", category="mail").pk, "no", using=alias)
    die(alias, "exactly")
    assert alert_dead_letters(alias) == 5
    assert dict(told(alias)) == {
        "all": [("exact", 1), ("exactly", 1), ("shop.pay", 1)],
        "mail": [("exact", 1)],
        "shop": [("exact", 1), ("shop.pay", 1)],
        "big": [("shop.pay", 1)],
        "none": [("exact", 1), ("exactly", 1)],
    }


def test_whatever_makes_a_dead_letter_is_told(alias, targets, frozen):
    targets(team=TEAM)
    frozen.tick(1)
    move_to_dead_letter(make_row(Job, alias, handler_type="by hand").pk, "nobody wants it", using=alias)
    fail_external_job(alias, in_hands(alias, "outside").key, retries=0, message="no money")
    assert alert_dead_letters(alias) == 1
    assert told(alias) == [("team", [("by hand", 1), ("outside", 1)])]


def test_what_is_requeued_by_then_is_not_told_and_what_dies_again_is(alias, targets, frozen):
    targets(team={**TEAM, "interval": 0})
    frozen.tick(1)
    pk = die(alias)
    requeue(pk, using=alias)
    assert (alert_dead_letters(alias), told(alias)) == (0, [])
    Job.objects.using(alias).all().delete()
    frozen.tick(1)
    die(alias)
    assert alert_dead_letters(alias) == 1


def test_an_open_breaker_is_no_dead_letter(alias, targets, frozen):
    targets(team=TEAM)
    frozen.tick(1)
    open_breaker_incident(alias, "pay.example", "12 of 20 calls failed")
    assert alert_dead_letters(alias) == 0


def test_its_own_dead_letters_are_told_to_nobody(alias, targets, frozen):
    targets(team=TEAM)
    frozen.tick(1)
    die(alias, ALERT)
    assert (alert_dead_letters(alias), told(alias)) == (0, [])


@pytest.mark.gate
def test_a_storm_of_groups_is_one_message_of_a_bounded_size(alias, targets, frozen):
    targets(team=TEAM)
    frozen.tick(1)
    for number in range(25):
        die(alias, f"shop.job{number}", "ValueError: " + "x" * 5000)
    assert alert_dead_letters(alias) == 1
    row = Job.objects.using(alias).get(handler_type=ALERT)
    told = row.handler_configuration["kwargs"]
    assert (len(told["groups"]), told["others"]) == (20, 5)
    assert all(len(each["message"]) == 1000 for each in told["groups"])
    assert "arguments" not in str(told) and "args" not in str(told)
    assert (row.retries, row.exclusive, row.atomic) == (8, False, False)
    frozen.tick(61)
    assert alert_dead_letters(alias) == 0


def test_what_concerns_others_is_passed_once(alias, targets, frozen, django_assert_num_queries):
    targets(team={**TEAM, "handlers": ["billing.*"]})
    own = AlertedGroup.objects.using(alias).filter(target="team")
    frozen.tick(100)
    die(alias)
    assert alert_dead_letters(alias) == 0
    assert own.get().told_until == NOW, "not at each look"
    frozen.tick(300)
    assert alert_dead_letters(alias) == 0
    assert own.get().told_until == frozen.now - timedelta(minutes=1)
    with django_assert_num_queries(2, using=alias):
        assert alert_dead_letters(alias) == 0
    die(alias, "billing.charge")
    assert alert_dead_letters(alias) == 1


def test_what_was_told_long_ago_is_forgotten(alias, targets, frozen):
    targets(team=TEAM)
    frozen.tick(1)
    die(alias)
    alert_dead_letters(alias)
    frozen.tick(3 * 86_400)
    die(alias, "shop.ship")
    alert_dead_letters(alias)
    assert AlertedGroup.objects.using(alias).filter(target="team").count() == 2, "of all, and of the new one"


def test_a_node_that_looks_at_the_same_time_tells_nothing(alias, targets, frozen, monkeypatch):
    targets(team=TEAM)
    frozen.tick(1)
    die(alias)
    found = dead_letter_alerts._look
    looks = []

    def look(*args):
        looks.append(found(*args))
        if len(looks) == 1:  # between the look without a lock and that under it, another node tells
            assert alert_dead_letters(alias) == 1
        return looks[-1]

    monkeypatch.setattr(dead_letter_alerts, "_look", look)
    assert alert_dead_letters(alias) == 0
    assert told(alias) == [("team", [("shop.pay", 1)])]


def test_it_is_all_or_nothing(alias, targets, frozen, monkeypatch):
    """Killed before the commit: nothing is noted, and the next check tells."""
    targets(team=TEAM)
    frozen.tick(1)
    die(alias)
    enqueue = dead_letter_alerts._enqueue

    def killed(*args):
        enqueue(*args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt), transaction.atomic(using=alias):
        patch.setattr(dead_letter_alerts, "_enqueue", killed)
        alert_dead_letters(alias)
    assert told(alias) == []
    assert alert_dead_letters(alias) == 1


# -- the message -----------------------------------------------------------------------------------------------------

GROUP = {
    "fingerprint": "636e93d1d99c52cc",
    "handler": "shop.jobs.pay",
    "exception": "ValueError",
    "message": "ValueError: no",
    "dead_letters": 3,
    "first_time": "2026-03-01T12:00:00Z",
    "last_time": "2026-03-01T12:05:00Z",
    "job_id": "01a200b7-cceb-7489-b61b-4096ce0aac17",
    "category": "default",
    "tenant_id": "big",
}


def test_a_mail(alias, configure, mailoutbox, frozen, targets):
    targets(team=TEAM, settings={"SITE_URL": "https://shop.example"})
    frozen.tick(1)
    job = die(alias, "shop.jobs.pay", "ValueError: no money", tenant_id="big")
    assert alert_dead_letters(alias) == 1
    (result,) = ManualExecutor(alias).run_due()
    assert result.successful
    (mail,) = mailoutbox
    assert (mail.subject, mail.to) == ("1 new dead letter: shop.jobs.pay", ["team@shop.example"])
    for text in ("shop.jobs.pay: 1 dead letter\nValueError: no money", str(job), "Tenant: big", f"Database: {alias}"):
        assert text in mail.body
    alike = DeadLetterJob.objects.using(alias).get(pk=job).fingerprint
    assert f"https://shop.example/admin/jobexec/deadletterjob/?fingerprint={alike}" in mail.body


def test_a_subject_is_one_line(configure, mailoutbox):
    configure(DEAD_LETTER_ALERTS={"team": TEAM})
    alert_delivery.deliver("default", "1", "team", [{**GROUP, "handler": "a\nBcc: b@c.example"}], 2)
    assert mailoutbox[0].subject == "3 new dead letters: a\\nBcc: b@c.example, …"
    assert "2 more groups of failures." in mailoutbox[0].body
    assert "http" not in mailoutbox[0].body, "without SITE_URL there is no link"


def test_a_target_that_is_gone(configure):
    configure(DEAD_LETTER_ALERTS={})
    with pytest.raises(DoNotRetry, match="DEAD_LETTER_ALERTS no longer has 'team'"):
        alert_delivery.deliver("default", "1", "team", [GROUP], 0)


@pytest.fixture
def hook(configure):
    """A web server that answers what `hook.answer` says, and keeps what it was sent."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            server.heard.append((dict(self.headers), body))
            status, headers = server.answer
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()

        do_GET = do_POST

        def log_message(self, *args):
            """Be quiet."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.heard, server.answer = [], (204, {})
    server.url = f"http://127.0.0.1:{server.server_port}/T0p/secret"
    thread = spawn("hook", server.serve_forever)
    secret = "whsec_" + base64.b64encode(b"a key of the hook").decode()
    configure(DEAD_LETTER_ALERTS={"hook": {"url": server.url, "secret": secret}})
    yield server
    server.shutdown()
    thread.join(5)
    server.server_close()


@pytest.mark.gate
def test_a_webhook_is_signed_and_says_the_same_id_each_time(hook, frozen):
    for _ in range(2):
        alert_delivery.deliver("default", "job-1", "hook", [GROUP], 0)
    for headers, body in hook.heard:
        headers = {name.lower(): value for name, value in headers.items()}
        assert (headers["webhook-id"], headers["content-type"]) == ("job-1", "application/json")
        signed = f"job-1.{headers['webhook-timestamp']}.".encode() + body
        expected = base64.b64encode(hmac.new(b"a key of the hook", signed, hashlib.sha256).digest()).decode()
        assert headers["webhook-signature"] == f"v1,{expected}"
        told = json.loads(body)
        assert (told["type"], told["target"], told["database"]) == ("jobexec.dead_letters", "hook", "default")
        assert (told["groups"][0]["dead_letters"], told["other_groups"]) == (3, 0)
        assert told["text"].startswith("3 new dead letters: shop.jobs.pay\n")


@pytest.mark.gate
def test_slack_gets_its_text_and_nothing_else(hook, configure):
    configure(DEAD_LETTER_ALERTS={"chat": {"url": hook.url, "format": "slack"}}, SITE_URL="https://shop.example")
    message = "ValueError: <!channel> & <https://evil.example|here>"
    alert_delivery.deliver("default", "job-1", "chat", [{**GROUP, "message": message}], 1)
    ((_, body),) = hook.heard
    told = json.loads(body)
    assert set(told) == {"text"}
    first, *rest = told["text"].splitlines()
    assert first == "3 new dead letters: shop.jobs.pay, …"
    assert "ValueError: &lt;!channel&gt; &amp; &lt;https://evil.example|here&gt;" in rest
    assert f"https://shop.example/admin/jobexec/deadletterjob/?fingerprint={GROUP['fingerprint']}" in rest
    assert "1 more group of failures." in rest


def test_every_format_has_a_body():
    assert set(alert_delivery._BODIES) == set(FORMATS)


@pytest.mark.gate
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((500, {}), "127.0.0.1 answered 500."),
        ((302, {"Location": "/elsewhere"}), r"127.0.0.1 answered 302 \(redirects are not followed\)."),
    ],
)
def test_a_webhook_that_does_not_accept_it(hook, answer, said):
    hook.answer = answer
    with pytest.raises(AlertFailed, match=said) as caught:
        alert_delivery.deliver("default", "job-1", "hook", [GROUP], 0)
    assert "T0p" not in str(caught.value)
    assert len(hook.heard) == 1


def test_a_webhook_that_is_not_there(configure):
    configure(DEAD_LETTER_ALERTS={"hook": {"url": "http://127.0.0.1:9/T0p"}})
    with pytest.raises(AlertFailed, match=r"127\.0\.0\.1 cannot be reached: ConnectionRefusedError") as caught:
        alert_delivery.deliver("default", "job-1", "hook", [GROUP], 0)
    assert "T0p" not in str(caught.value)


@pytest.mark.gate
def test_a_message_to_try_it(hook, configure, mailoutbox):
    send_test_alert("hook")
    ((headers, body),) = hook.heard
    assert {name.lower(): value for name, value in headers.items()}["webhook-id"].startswith("test-")
    assert json.loads(body)["groups"][0]["message"] == "This is a test."
    configure(DEAD_LETTER_ALERTS={"team": TEAM})
    send_test_alert("team")
    assert "This is a test." in mailoutbox[0].body
    with pytest.raises(DoNotRetry, match="no longer has 'hook'"):
        send_test_alert("hook")


@pytest.mark.gate
def test_a_failing_webhook_is_retried_and_then_a_dead_letter_that_tells_nobody(alias, targets, frozen, monkeypatch):
    targets(hook={"url": "https://hooks.example/T0p"})
    frozen.tick(1)
    die(alias)
    assert alert_dead_letters(alias) == 1

    def fails(*args):
        raise AlertFailed("hooks.example answered 500.")

    monkeypatch.setattr(alert_delivery, "_post", fails)
    executor = ManualExecutor(alias, reraise=False)
    results = []
    for _ in range(20):
        results += executor.tick()
        frozen.tick(3601)
    assert [result.handler for result in results] == [ALERT] * 8
    assert DeadLetterJob.objects.using(alias).filter(handler_type=ALERT).count() == 1
    assert alert_dead_letters(alias) == 0


def test_the_job_is_known_to_every_executor():
    assert jobs.alert.name == ALERT
    assert str(jobs.alert.retry_plan) == str(RetryPlan.parse(dead_letter_alerts.RETRIES))


@pytest.mark.parametrize(
    "quiet",
    [
        {"acknowledged_at": NOW},
        {"snoozed_until": NOW + timedelta(hours=2, seconds=2)},
        {"snoozed_to_count": 5},
    ],
    ids=["acknowledged", "until a date", "up to a number"],
)
def test_nobody_is_told_of_a_quiet_group(alias, targets, frozen, quiet):
    targets(team=TEAM)
    frozen.tick(1)
    die(alias)
    die(alias, "shop.ship", "LookupError: no stock")
    alike = DeadLetterJob.objects.using(alias).get(handler_type="shop.pay").fingerprint
    times = {"first_time": frozen.now, "last_time": frozen.now}
    group = FailureGroup.objects.using(alias).create(
        fingerprint=alike, handler_type="shop.pay", count=1, **{**times, **quiet}
    )
    assert alert_dead_letters(alias) == 1
    assert told(alias) == [("team", [("shop.ship", 1)])]
    for _ in range(2):  # as the loop does, every few seconds
        frozen.tick(3600)
        assert alert_dead_letters(alias) == 0
    die(alias)
    frozen.tick(2)
    group.count, group.acknowledged_at = 6, None
    group.save(using=alias)
    assert alert_dead_letters(alias) == 1
    assert told(alias) == [("team", [("shop.pay", 1)])], "not of what failed meanwhile"
