"""The commands look at jobs of workers outside, and change them, by id and by key."""

from datetime import UTC, datetime, timedelta

import pytest

from jobexec.models import DeadLetterJob, ExternalWorkerJob, SuspendedJob
from jobexec.operations import suspend
from tests.support.factories import make_job, reload, table_of
from tests.support.jobs_command import jobs, objects
from tests.support.outside import fetch, held_by_worker, make_external, seen

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
pytestmark = pytest.mark.usefixtures("engines", "frozen")


class TestLooking:
    def test_list(self, alias):
        free, held = make_external(alias), held_by_worker(alias, type="mail", worker="java-1")
        late = make_external(alias, delay=60)
        code, text = jobs("list", alias=alias)
        lines = {line.split()[0]: line for line in text.splitlines()}
        assert code == 0
        assert "external" in lines[str(free.pk)] and "payment" in lines[str(free.pk)]
        assert "with worker" in lines[str(held.pk)] and "java-1" in lines[str(held.pk)]
        assert "waiting" in lines[str(late.pk)]

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            (["--state", "external_worker"], {"free", "held"}),
            (["--worker", "java-1"], {"held"}),
            (["--locked"], {"held"}),
            (["--handler", "pay*"], {"free"}),
            (["--type", "external worker"], {"free", "held"}),
        ],
    )
    def test_filters(self, alias, options, expected):
        made = {"free": make_external(alias), "held": held_by_worker(alias, type="mail", worker="java-1")}
        make_job(alias)
        _, found = objects("list", *options, alias=alias)
        assert {row["id"] for row in found} == {str(made[name].pk) for name in expected}

    def test_by_key(self, alias):
        job, _other = make_external(alias), make_external(alias)
        _, (found,) = objects("list", "--key", job.job_key, alias=alias)
        assert (found["id"], found["job_key"], found["state"]) == (str(job.pk), job.job_key, "external_worker")

    def test_show(self, alias):
        variables = {"amount": 5, "api_key": "hush"}
        job = held_by_worker(alias, variables=variables, headers={"region": "eu", "password": "hush"})
        ExternalWorkerJob.objects.using(alias).update(lease_token="t0ken")
        code, text = jobs("show", job.job_key, alias=alias)
        assert code == 0
        assert str(job.job_key) in text and "w1" in text and "in 1 min" in text
        assert '"amount": 5' in text and '"region": "eu"' in text
        _, (found,) = objects("show", job.pk, alias=alias)
        assert found["handler_configuration"]["variables"] == {"amount": 5, "api_key": "●●●"}
        assert found["custom_headers"] == {"region": "eu", "password": "●●●"}
        for told in (text, str(found)):
            assert "hush" not in told and "t0ken" not in told

    def test_why(self, alias):
        job = make_external(alias)
        seen(alias, worker="java-1")
        code, text = jobs("why", job.job_key, alias=alias)
        assert code == 0 and "a worker that asks for its type (java-1)" in text

    def test_a_key_that_no_job_has(self, alias):
        for action in (["show"], ["why"], ["cancel", "--yes"]):
            code, text = jobs(*action, 7, alias=alias)
            assert code == 2 and "No job has the key 7" in text

    @pytest.mark.gate
    def test_stats(self, alias):
        assert "with workers" not in jobs("stats", alias=alias)[1]
        make_external(alias)
        held_by_worker(alias, type="mail")
        assert "with workers" in jobs("stats", alias=alias)[1]
        _, (found,) = objects("stats", alias=alias)
        assert (found["counts"]["external"], found["counts"]["with_workers"]) == (1, 1)
        assert "with workers" in jobs("top", "--once", alias=alias)[1]


class TestChanging:
    def test_suspend_and_activate(self, alias):
        job = make_external(alias)
        assert jobs("suspend", job.job_key, alias=alias) == (
            0,
            "1 job suspended. If it is running, it finishes; only its retry is held back.\n",
        )
        assert table_of(alias, job) is SuspendedJob
        assert jobs("activate", job.job_key, alias=alias) == (0, "1 job activated.\n")
        assert [each.id for each in fetch(alias)] == [job.pk]

    def test_bury_and_requeue(self, alias):
        job = make_external(alias)
        assert jobs("bury", job.pk, "--yes", "--reason", "no", alias=alias)[0] == 0
        assert table_of(alias, job) is DeadLetterJob
        assert jobs("requeue", job.job_key, alias=alias) == (0, "1 job requeued with 3 retries.\n")
        assert table_of(alias, job) is ExternalWorkerJob

    @pytest.mark.gate
    def test_reschedule_and_prioritize(self, alias):
        job = make_external(alias)
        assert jobs("reschedule", job.pk, "--to", "+1h", alias=alias)[0] == 0
        assert jobs("prioritize", job.job_key, "--priority", 7, alias=alias)[0] == 0
        row = reload(alias, job)
        assert (row.available_at, row.priority) == (NOW + timedelta(hours=1), 7)
        assert jobs("retry", job.pk, alias=alias) == (0, "1 job is due now.\n")
        assert reload(alias, job).available_at is None

    @pytest.mark.parametrize("verb", ["cancel", "delete"])
    def test_what_waits_is_removed(self, alias, verb):
        make_external(alias)
        held = held_by_worker(alias, type="mail")
        code, (told,) = objects(verb, "--yes", "--all-matching", "--state", "external_worker", alias=alias)
        assert (code, len(told["changed"])) == ((0, 2) if verb == "cancel" else (3, 1))
        assert table_of(alias, held) is ExternalWorkerJob
        assert not ExternalWorkerJob.objects.using(alias).filter(handler_type="payment").exists()

    def test_unlock_only_what_is_meant(self, alias):
        job = held_by_worker(alias)
        assert objects("unlock", "--all-matching", alias=alias)[1][0]["changed"] == []
        assert reload(alias, job).locked, "its worker may be at it"
        _, (told,) = objects("unlock", "--all-matching", "--state", "external_worker", alias=alias)
        assert told["changed"] == [str(job.pk)]
        assert not reload(alias, job).locked

    def test_suspended_ones_are_found_by_key(self, alias):
        job = make_external(alias)
        suspend(job, using=alias)
        assert jobs("delete", job.job_key, "--yes", alias=alias) == (0, "1 job deleted.\n")
