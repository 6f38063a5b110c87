"""Every line about a job says which job, where and how it ended, in fields and not only in words."""

import ast
import logging
import re
from pathlib import Path

import pytest

from jobexec.exceptions import JobCancelled
from jobexec.executor.execute_now import execute_now
from jobexec.operations import acquire_jobs
from jobexec.operations.sql.errors import one_line
from jobexec.operations.values.acquired_job import ServedJobs
from tests.support.executor import Host, run_one
from tests.support.factories import LOCK_TIME, make_job

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "reference" / "logging.md"
ALWAYS = ["job_id", "handler_type", "category", "attempt", "node", "engine", "process_instance_id", "tenant_id"]

pytestmark = pytest.mark.transactional


def fields(record):
    return {name: getattr(record, name) for name in [*ALWAYS, "duration", "outcome"] if hasattr(record, name)}


def fail():
    raise ValueError("no")


def cancel():
    raise JobCancelled("enough")


@pytest.mark.parametrize(
    ("function", "outcome"), [(lambda: None, "successful"), (fail, "failed"), (cancel, "cancelled")]
)
def test_the_line_about_a_run(alias, handle, caplog, function, outcome):
    caplog.set_level(logging.INFO, "jobexec.execution")
    handle(function, name="tests.run")
    row = make_job(alias, handler_type="tests.run", process_instance_id="order-1", exclusive=False, attempts=2)
    run_one(alias)
    (record,) = [record for record in caplog.records if record.name == "jobexec.execution"]
    found = fields(record)
    assert found.pop("duration") >= 0
    assert found == {
        "job_id": str(row.pk),
        "handler_type": "tests.run",
        "category": "default",
        "attempt": 3,
        "node": "",
        "engine": alias,
        "process_instance_id": "order-1",
        "tenant_id": "",
        "outcome": outcome,
    }


def test_what_others_have_chosen_makes_no_line_of_its_own(alias, handle, caplog):
    def fail():
        raise ValueError("no\nCRITICAL root: nothing")

    caplog.set_level(logging.INFO, "jobexec.execution")
    handle(fail, name="tests.a\nb")
    make_job(alias, handler_type="tests.a\nb", exclusive=False)
    run_one(alias)
    (record,) = [record for record in caplog.records if record.name == "jobexec.execution"]
    assert record.getMessage().startswith("tests.a\\nb ")
    assert record.getMessage().endswith("ValueError: no\\nCRITICAL root: nothing")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("payment ä", "payment ä"),
        ("a\r\nb\x1b[2J\u2028c\x00", "a\\r\\nb\\x1b[2J\\u2028c\\x00"),
        ("\ud800", "\\ud800"),
        ("x" * 600, "x" * 500 + "…"),
    ],
)
def test_a_text_for_a_line(text, line):
    assert one_line(text) == line


@pytest.mark.gate
def test_no_line_has_a_type_or_an_address_as_it_came():
    raw = {"request.path", "type", "self._fetch.type", "self.handler_type", "work.handler_type", "row.handler_type"}
    for file in (ROOT / "jobexec").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("logger."):
                assert raw.isdisjoint(map(ast.unparse, node.args)), f"{file}:{node.lineno}"


def test_the_handlers_own_lines_have_them_too(alias, handle, caplog):
    caplog.set_level(logging.INFO, "jobexec.job")
    handle(lambda context: context.logger.info("hello"), name="tests.says", takes_context=True)
    row = make_job(alias, handler_type="tests.says", tenant_id="acme")
    execute_now(row.pk, using=alias)
    (record,) = [record for record in caplog.records if record.name == "jobexec.job"]
    found = fields(record)
    assert list(found) == ALWAYS
    assert (found["job_id"], found["tenant_id"], found["node"]) == (str(row.pk), "acme", "execute now")


def test_the_tenant_is_known_where_pages_bring_it(alias, handle, caplog):
    from jobexec.executor.run.execution import execute_batch
    from jobexec.runtime.threads import call_in_thread

    caplog.set_level(logging.INFO, "jobexec.execution")
    handle(lambda: None, name="tests.run")
    make_job(alias, handler_type="tests.run", tenant_id="acme")
    jobs = acquire_jobs(alias, "here:1", 9, ServedJobs(wide=True), lock_time=LOCK_TIME).jobs
    call_in_thread("jobexec-one", lambda: execute_batch(jobs, Host()), 60)
    assert [(record.tenant_id, record.node) for record in caplog.records] == [("acme", "here")]


def _loggers():
    for path in (ROOT / "jobexec").rglob("*.py"):
        yield from re.findall(r'getLogger\("([\w.]+)"\)', path.read_text())


def test_the_page_names_every_logger_and_every_field():
    text = PAGE.read_text()
    assert [name for name in sorted(set(_loggers())) if f"`{name}`" not in text] == []
    assert [name for name in [*ALWAYS, "duration", "outcome"] if f"`{name}`" not in text] == []


def test_no_line_about_one_job_is_without_its_fields():
    """A call whose text begins with a job says `extra=`."""
    lacking = []
    for path in sorted((ROOT / "jobexec" / "executor").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("logger."):
                text = ast.unparse(node)
                about_one = "work.id" in text or "row.pk" in text
                if about_one and not any(keyword.arg == "extra" for keyword in node.keywords):
                    lacking.append(f"{path.name}:{node.lineno}")
    assert lacking == []
