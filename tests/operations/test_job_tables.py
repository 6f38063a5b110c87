"""What the code asks about a state has an answer for every job table, also for one that is added later."""

from dataclasses import fields
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.core.management.color import no_style

from jobexec.admin.common.job_columns import state_badge
from jobexec.admin.dashboard.tiles import tiles
from jobexec.exceptions import JobStateError
from jobexec.executor.execute_now import execute_by_hand
from jobexec.management.jobs.output.rows import standing
from jobexec.models import EXTERNAL_TABLES, HANDLER_TABLES, JOB_TABLES, AbstractJob, ExternalWorkerJob, HistoryJob
from jobexec.operations import activate, start_batch
from jobexec.operations.batches.work import seed
from jobexec.operations.external.search import external_jobs_by_key
from jobexec.operations.overview import overview
from jobexec.operations.targets.lookup import find_states
from jobexec.operations.why.explain import why
from tests.admin.conftest import TABLES as ADMIN_TABLES
from tests.support.factories import make_row

TABLES = (*JOB_TABLES, HistoryJob)
each_table = pytest.mark.parametrize("table", TABLES)


def test_none_is_missing():
    models = apps.get_app_config("jobexec").get_models()
    assert {model for model in models if issubclass(model, AbstractJob)} == set(TABLES)
    assert (*HANDLER_TABLES, ExternalWorkerJob) == JOB_TABLES


@each_table
def test_it_says_what_its_jobs_are(table):
    assert (table.runnable, table.dead) in [(True, False), (False, False), (False, True)]


@each_table
def test_why_its_jobs_do_not_run(alias, table):
    assert why(make_row(table, alias).pk, using=alias).reasons


@each_table
def test_its_jobs_are_counted_once(alias, table):
    make_row(table, alias)
    seen = overview(alias, parts={"counts"})
    everything = SimpleNamespace(may=lambda table: True, list=lambda table, **query: "")
    counts = {each.name: getattr(seen.counts, each.name) for each in fields(seen.counts) if each.name != "oldest_due"}
    assert sum(counts.values()) == 1, "operations/reports/counts.py: job_counts()"
    assert sum(tile.count for tile in tiles(seen, everything)) == 1, "admin/dashboard/tiles.py"


@pytest.mark.parametrize("table", [table for table in JOB_TABLES if not table.runnable])
def test_jobs_that_are_held_back_are_not_executed_by_hand(alias, table):
    with pytest.raises(JobStateError):
        execute_by_hand(make_row(table, alias).pk, using=alias)


@pytest.mark.parametrize("table", JOB_TABLES)
def test_a_batch_finds_its_jobs(alias, table):
    make_row(table, alias)
    batch = start_batch("set_priority", table.objects.using(alias).all(), arguments={"priority": 1}, using=alias)
    seed(alias, batch.pk)
    batch.refresh_from_db(using=alias)
    assert batch.total == 1


@pytest.mark.parametrize("table", EXTERNAL_TABLES)
def test_external_jobs_are_found_by_their_key(alias, table):
    assert ["job_key"] in [list(each.fields) for each in (*table._meta.indexes, *table._meta.constraints)]
    make_row(table, alias, job_key=7)
    assert external_jobs_by_key(alias, [7])[7].state in ("CREATED", "FAILED")


@pytest.mark.parametrize("table", [table for table in JOB_TABLES if not table.runnable and not table.dead])
def test_what_is_activated_may_run_or_is_refused(alias, table):
    row = make_row(table, alias)
    done = activate(row, using=alias)
    (now,) = find_states([row.pk], alias).values()
    assert now.runnable if done.changed else done.skipped, "operations/manage/suspend.py: move it, or refuse"


@pytest.mark.parametrize("table", JOB_TABLES)
def test_lists_show_it(alias, table):
    row = make_row(table, alias)
    assert state_badge(row)
    assert standing(row, no_style())[0]


def test_tests_of_the_admin_know_every_table():
    assert set(TABLES) <= set(ADMIN_TABLES)
