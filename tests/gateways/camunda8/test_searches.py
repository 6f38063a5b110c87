"""Camunda 8 REST: searches, statistics, and the document about it all."""

from datetime import UTC, datetime, timedelta

import pytest

from jobexec import clock, external_job
from jobexec.gateways.rest.camunda8 import contract, openapi, urls
from jobexec.operations.external import complete_external_job, fail_external_job, search, throw_external_error

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def keys(found):
    return [int(item["jobKey"]) for item in found["items"]]


@pytest.fixture
def jobs(alias):
    """Five jobs: new, held, backing off, without retries, ended by an error; each a minute after the one before."""
    with clock.FrozenClock(NOON) as time:
        rows = []
        for number, type in enumerate(("pay", "pay", "pay", "mail", "mail")):
            rows.append(external_job(type, priority=number, tenant_id="north" if number == 1 else "", database=alias))
            time.tick(60)
        fail_external_job(alias, rows[2].job_key, retries=2, message="no luck", back_off=timedelta(hours=1))
        fail_external_job(alias, rows[3].job_key, retries=0, message="never")
        throw_external_error(alias, rows[4].job_key, code="NO_MONEY")
        yield rows


def test_all_jobs_by_their_keys(alias, v2, jobs):
    found = v2.post("/jobs/search")
    assert keys(found) == sorted(row.job_key for row in jobs)
    assert [item["state"] for item in found["items"]] == ["CREATED", "CREATED", "FAILED", "FAILED", "ERROR_THROWN"]
    assert [item["hasFailedWithRetriesLeft"] for item in found["items"]] == [False, False, True, False, False]
    assert set(found["items"][0]) == set(contract.SCHEMAS["JobSearchResult"]["required"])
    page = found["page"]
    assert (page["totalItems"], page["hasMoreTotalItems"]) == (5, False)


@pytest.mark.parametrize(
    ("filter", "places"),
    [
        ({"type": "pay"}, [0, 1, 2]),
        ({"type": {"$neq": "pay"}}, [3, 4]),
        ({"type": {"$like": "p?y"}, "priority": {"$gte": 1, "$lt": 2}}, [1]),
        ({"type": {"$in": ["mail", "x"]}, "state": "FAILED"}, [3]),
        ({"state": {"$notIn": ["CREATED", "FAILED"]}}, [4]),
        ({"tenantId": "north"}, [1]),
        ({"tenantId": "<default>", "type": "pay"}, [0, 2]),
        ({"errorMessage": {"$exists": True}}, [2, 3, 4]),
        ({"errorMessage": {"$like": "no*"}}, [2]),
        ({"creationTime": {"$lte": "2026-05-01T14:01:00+02:00"}}, [0, 1]),
        ({"hasFailedWithRetriesLeft": True}, [2]),
        ({"retries": 0, "type": None}, [3]),
    ],
)
def test_filters(alias, v2, jobs, filter, places):
    found = v2.post("/jobs/search", {"filter": filter})
    assert v2.status == 200, v2.body
    assert keys(found) == [jobs[place].job_key for place in places]


def test_by_key(alias, v2, jobs):
    assert keys(v2.post("/jobs/search", {"filter": {"jobKey": str(jobs[3].job_key)}})) == [jobs[3].job_key]
    assert keys(v2.post("/jobs/search", {"filter": {"jobKey": {"$in": ["9" * 25]}}})) == []


def test_order_and_pages(alias, v2, jobs):
    sort = [{"field": "type"}, {"field": "priority", "order": "desc"}]
    first = v2.post("/jobs/search", {"sort": sort, "page": {"limit": 2}})
    assert keys(first) == [jobs[4].job_key, jobs[3].job_key]
    second = v2.post("/jobs/search", {"sort": sort, "page": {"limit": 2, "after": first["page"]["endCursor"]}})
    assert keys(second) == [jobs[2].job_key, jobs[1].job_key]
    back = v2.post("/jobs/search", {"sort": sort, "page": {"limit": 2, "before": second["page"]["startCursor"]}})
    assert keys(back) == keys(first)
    assert keys(v2.post("/jobs/search", {"sort": sort, "page": {"from": 4}})) == [jobs[0].job_key]
    beyond = v2.post("/jobs/search", {"page": {"from": 50}})
    assert (beyond["items"], beyond["page"]["startCursor"], beyond["page"]["totalItems"]) == ([], None, 5)


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"filter": {"color": "red"}}, "filter.color"),
        ({"filter": {"type": 5}}, "filter.type"),
        ({"filter": {"retries": True}}, "filter.retries"),
        ({"filter": {"retries": {"$around": 3}}}, "$around"),
        ({"filter": {"jobKey": "abc"}}, "filter.jobKey"),
        ({"filter": {"creationTime": "2026-05-01T12:00:00"}}, "filter.creationTime"),
        ({"filter": {"type": {"$in": "pay"}}}, "filter.type.$in"),
        ({"filter": []}, "filter"),
        ({"sort": [{"field": "color"}]}, "sort[0].field"),
        ({"sort": [{"field": "type", "order": "up"}]}, "sort[0].order"),
        ({"filter": {"type": {"$in": ["pay"] * 1001}}}, "filter.type.$in: expected at most 1,000 values, got 1,001"),
        ({"filter": {"jobKey": {"$notIn": [1] * 1001}}}, "filter.jobKey.$notIn: expected at most 1,000"),
        ({"sort": [{"field": "type"}] * 80_000}, "sort: expected at most 23 values, got 80,000"),
        ({"page": {"limit": -1}}, "page.limit"),
        ({"page": {"after": "?"}}, "page.after"),
    ],
)
def test_what_is_wrong_in_a_search_is_named(alias, v2, body, word):
    v2.post("/jobs/search", body)
    v2.refused(400, "INVALID_ARGUMENT", word)


def test_only_what_is_shown_is_read(alias, v2, read_json):
    """Whatever is asked for: arguments and headers may be large."""
    for _ in range(20):
        external_job("pay", variables={"large": "x" * 1000}, headers={"kind": "y" * 1000}, database=alias)
    sort, filter = [{"field": "state"}, {"field": "elementId"}], {"hasFailedWithRetriesLeft": False}
    for body in ({}, {"sort": sort}, {"filter": filter}, {"sort": sort, "filter": filter}):
        read_json.clear()
        found = v2.post("/jobs/search", {**body, "page": {"limit": 2}})
        assert (len(found["items"]), found["page"]["totalItems"]) == (2, 20)
        assert found["items"][0]["customHeaders"] == {"kind": "y" * 1000}
        assert read_json == ["custom_headers"] * 2


def test_headers_are_shown_without_what_is_sensitive(alias, v2):
    """Whoever may only search is no worker, which needs them as they are."""
    external_job("pay", headers={"Authorization": "Basic abcdef", "kind": "gold"}, database=alias)
    (found,) = v2.post("/jobs/search")["items"]
    assert found["customHeaders"] == {"Authorization": "●●●", "kind": "gold"}
    (job,) = v2.activate()
    assert job["customHeaders"] == {"Authorization": "Basic abcdef", "kind": "gold"}


def test_more_jobs_than_a_page_of_the_database(alias, v2, jobs, monkeypatch):
    monkeypatch.setattr(search, "_PAGE", 1)
    assert keys(v2.post("/jobs/search")) == [row.job_key for row in jobs]
    monkeypatch.setattr(search, "MOST", 2)
    found = v2.post("/jobs/search", {"filter": {"type": {"$in": ["pay"]}}})
    assert keys(found) == [jobs[0].job_key, jobs[1].job_key]
    assert len(v2.post("/incidents/search")["items"]) == 2


def test_incidents(alias, v2, jobs):
    found = v2.post("/incidents/search", {"filter": {"state": "ACTIVE"}, "sort": [{"field": "jobKey"}]})
    assert keys(found) == [jobs[3].job_key, jobs[4].job_key]
    assert [item["errorType"] for item in found["items"]] == ["JOB_NO_RETRIES", "UNHANDLED_ERROR_EVENT"]
    assert set(found["items"][0]) == set(contract.SCHEMAS["IncidentResult"]["required"])
    one = v2.call("GET", f"/incidents/{found['items'][0]['incidentKey']}")
    assert one == found["items"][0]


def test_statistics(alias, v2, jobs):
    complete_external_job(alias, jobs[0].job_key, worker=None)
    span = {"from": "2026-05-01T12:00:00Z", "to": "2026-05-01T13:00:00Z"}
    query = "&".join(f"{name}={value}" for name, value in span.items())
    all = v2.call("GET", f"/jobs/statistics/global?{query}")
    assert {name: all[name]["count"] for name in ("created", "completed", "failed")} == {
        "created": 5,
        "completed": 1,
        "failed": 3,
    }
    assert all["isIncomplete"] is False
    by_type = v2.post("/jobs/statistics/by-types", {"filter": span})["items"]
    assert [(item["jobType"], item["created"]["count"], item["completed"]["count"]) for item in by_type] == [
        ("mail", 2, 0),
        ("pay", 3, 1),
    ]
    only = v2.post("/jobs/statistics/by-types", {"filter": {**span, "jobType": {"$like": "m*"}}})["items"]
    assert [item["jobType"] for item in only] == ["mail"]
    assert v2.post("/jobs/statistics/by-workers", {"filter": {**span, "jobType": "pay"}})["items"] == []
    before = v2.call("GET", "/jobs/statistics/global?from=2020-01-01T00:00:00Z&to=2020-01-02T00:00:00Z")
    assert before["created"] == {"count": 0, "lastUpdatedAt": None}
    assert before["isIncomplete"] is True


@pytest.mark.databases("sqlite")
def test_statistics_need_a_span(alias, v2):
    v2.post("/jobs/statistics/by-types", {"filter": {"from": "2026-05-01T12:00:00Z"}})
    v2.refused(400, "INVALID_ARGUMENT", "filter.to")
    v2.post("/jobs/statistics/by-types", {})
    v2.refused(400, "INVALID_ARGUMENT", "filter")
    v2.call("GET", "/jobs/statistics/global?from=2026-05-01T12:00:00Z&to=2026-05-01T11:00:00Z")
    v2.refused(400, "INVALID_ARGUMENT", "to")


@pytest.mark.databases("sqlite")
def test_the_document_is_served_with_its_address(alias, v2):
    document = v2.call("GET", "/openapi.json")
    assert document["openapi"] == "3.1.0"
    assert document["servers"] == [{"url": "http://testserver/v2"}]


def test_the_document_has_every_call():
    told = openapi.document_of(urls.CALLS)["paths"]
    assert sum(len(methods) for methods in told.values()) == 35  # 20 of them about processes
    assert set(told["/jobs/{jobKey}"]) == {"patch"}
    assert [each["name"] for each in told["/jobs/statistics/global"]["get"]["parameters"]] == ["from", "to", "jobType"]


def test_the_document_refers_only_to_what_it_has():
    found = set()

    def walk(value):
        if isinstance(value, dict):
            found.update([value["$ref"]] if "$ref" in value else [])
            value = list(value.values())
        if isinstance(value, list):
            for each in value:
                walk(each)

    document = openapi.document_of(urls.CALLS)
    walk(document)
    names = {name.rpartition("/")[2] for name in found}
    assert names <= set(contract.SCHEMAS)
    assert set(contract.SCHEMAS) <= names, "a schema that nothing refers to"
