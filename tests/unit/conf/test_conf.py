"""The JOBEXEC setting: defaults, every kind of value, overrides, caching."""

import dataclasses
import socket
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest
from django.test import override_settings

from jobexec import conf
from jobexec.conf import EngineSettings, Settings, get_settings
from jobexec.conf.validation import GLOBAL, PER_ENGINE
from jobexec.exceptions import InvalidSettings

SECOND = timedelta(seconds=1)
# Django cannot follow a change of DATABASES and says so; the setting JOBEXEC can.
pytestmark = pytest.mark.filterwarnings("ignore:Overriding setting DATABASES")

OTHER: dict[str, Any] = {"ENGINES": {"default": {}, "other": {}}}


@pytest.fixture(autouse=True)
def two_databases(settings):
    # Only the aliases are looked at; Django's connections keep what they were configured with.
    settings.DATABASES = {"default": {}, "other": {}}
    settings.JOBEXEC = {}


def read(raw) -> Settings:
    with override_settings(JOBEXEC=raw):
        return get_settings()


# -- values ----------------------------------------------------------------------------------------------------


def test_the_defaults(settings):
    del settings.JOBEXEC
    found = get_settings()
    assert (found.threads, found.queue_size, found.categories) == (10, 3000, ("default",))
    assert (found.lease_time, found.heartbeat_interval) == (30 * SECOND, 10 * SECOND)
    assert (found.history_level, found.default_retry_plan) == ("activity", "R3/PT10S")
    assert (found.deployment, found.atomic_jobs) == (None, False)
    assert found.engines == {"default": EngineSettings(alias="default")}
    assert found.engine("default").notify
    assert found.node_name == socket.gethostname()


def test_every_default_passes_its_own_parser():
    defaults = {
        item.name.upper(): item.default
        for cls in (Settings, EngineSettings)
        for item in dataclasses.fields(cls)
        if "parser" in item.metadata and item.name != "node_name"
    }
    assert len(defaults) > 25
    assert read(defaults) == read({})


@pytest.mark.parametrize("value", [2, 2.0, "PT2S", 2 * SECOND])
def test_a_duration_is_a_timedelta_seconds_or_a_text(value):
    assert read({"LOCK_TIME": value}).engine("default").lock_time == 2 * SECOND


@pytest.mark.parametrize(
    ("key", "value", "stored"),
    [
        ("THREADS", 1, 1),
        ("NODE_NAME", "node 1", "node 1"),
        ("GRACE_PERIOD", 0, timedelta(0)),
        ("CATEGORIES", ["mail", "pdf"], ("mail", "pdf")),
        ("CATEGORY_ORDER", "strict", "strict"),
        ("ATOMIC_JOBS", True, True),
        ("TENANT_CONCURRENCY", 5, {"*": 5}),
        ("TENANT_CONCURRENCY", {"acme": 20, "*": 5}, {"acme": 20, "*": 5}),
        ("SENSITIVE_ARGUMENTS", [], ()),
        ("HISTORY_LEVEL", "none", "none"),
        ("DEPLOYMENT", "shop:2026.1", "shop:2026.1"),
        ("DEPLOYMENT_TIME_TO_LIVE", None, None),
        ("DEFAULT_RETRY_PLAN", ["PT1M", "PT2M"], ("PT1M", "PT2M")),
        ("MAX_CONFLICTS", 0, 0),
    ],
)
def test_values_of_the_whole(key, value, stored):
    assert getattr(read({key: value}), key.lower()) == stored


@pytest.mark.parametrize(
    ("key", "value", "stored"),
    [
        ("ACQUISITION", "optimistic", "optimistic"),
        ("WAIT_INCREASE_FACTOR", 1, 1.0),
        ("LISTEN_DATABASE", "other", "other"),
        ("PRIORITY_AGEING", "PT1M", 60 * SECOND),
        ("PRIORITY_AGEING", None, None),
        ("PRIORITY_RANGE", [None, -5], (None, -5)),
        ("PRIORITY_RANGE", (7, 7), (7, 7)),
        ("NOTIFY", False, False),
    ],
)
def test_values_of_an_engine_stand_at_the_top_or_in_the_engine(key, value, stored):
    at_top = read({key: value, **OTHER})
    assert [getattr(engine, key.lower()) for engine in at_top.engines.values()] == [stored, stored]
    inside = read({"ENGINES": {"default": {key: value}}})
    assert getattr(inside.engine("default"), key.lower()) == stored


def test_an_engines_own_value_wins_over_the_top():
    found = read({"LOCK_TIME": 60, "ENGINES": {"default": {}, "other": {"LOCK_TIME": 5}}})
    assert found.engine("default").lock_time == 60 * SECOND
    assert found.engine("other").lock_time == 5 * SECOND
    assert found.engine("other").alias == "other"


def test_a_long_host_name_is_cut_and_an_empty_one_replaced(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "h" * 500)
    assert read({}).node_name == "h" * conf.MAX_NAME_LENGTH
    monkeypatch.setattr(socket, "gethostname", lambda: "")
    assert read({}).node_name == "localhost"


# -- access, overrides, cache ----------------------------------------------------------------------------------


def test_asking_for_a_database_that_is_no_engine():
    with pytest.raises(InvalidSettings, match="'other' is not a job engine") as raised:
        get_settings().engine("other")
    assert "'default'" in str(raised.value)


def test_settings_are_frozen():
    found = get_settings()
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.threads = 5
    with pytest.raises(TypeError):
        found.engines["default"] = found.engines["default"]


def test_replace_gives_a_copy_with_other_values():
    before = read({**OTHER, "CATEGORIES": ["mail", "pdf"]})
    after = before.replace(threads=3, node_name="n1", engines=["other"], categories=["pdf"], deployment_aware=True)
    assert (after.threads, after.node_name, after.categories) == (3, "n1", ("pdf",))
    assert list(after.engines) == ["other"]
    assert after.engine("other").deployment_aware
    assert (before.threads, list(before.engines)) == (10, ["default", "other"])


def test_categories_have_weights():
    assert read({"CATEGORIES": ["mail", "pdf"], "CATEGORY_ORDER": "weighted"}).category_weights == {"mail": 1, "pdf": 1}
    before = read({"CATEGORIES": {"mail": 3, "pdf": 1, "slow": 2}, "CATEGORY_ORDER": "weighted"})
    assert (before.categories, before.category_weights) == (("mail", "pdf", "slow"), {"mail": 3, "pdf": 1, "slow": 2})
    after = before.replace(categories=["slow", "mail"])
    assert (after.categories, list(after.category_weights.items())) == (("slow", "mail"), [("slow", 2), ("mail", 3)])
    assert after != read({"CATEGORIES": {"slow": 2, "mail": 1}, "CATEGORY_ORDER": "weighted"})
    with pytest.raises(InvalidSettings, match="category must be one of 'mail', 'pdf', 'slow'; got 'mial'"):
        before.replace(categories=["mial"])
    with pytest.raises(TypeError):
        before.category_weights["mail"] = 5


def test_categories_are_served_in_the_order_in_which_they_are_chosen():
    before = read({"CATEGORIES": ["urgent", "default", "bulk"], "CATEGORY_ORDER": "strict"})
    assert before.replace(categories=["bulk", "urgent"]).categories == ("bulk", "urgent")


def test_what_is_none_is_not_given():
    before = read({"NODE_NAME": "n1", "THREADS": 4})
    assert before.replace(node_name=None, threads=None, engines=None) == before


def test_replace_wins_over_an_engines_own_value():
    before = read({"ENGINES": {"default": {"DEPLOYMENT_AWARE": False, "NOTIFY": False}}})
    after = before.replace(deployment_aware=True)
    assert after.engine("default") == dataclasses.replace(before.engine("default"), deployment_aware=True)


class TestNamedAcquisitions:
    """What an acquisition has of its own wins over its engine, and that over the top."""

    RAW: ClassVar[dict[str, Any]] = {
        "CATEGORIES": ["mail", "default", "bulk"],
        "MAX_WAIT": 3,
        "WAIT_TIME": 1,
        "ACQUISITIONS": {
            "quick": {"CATEGORIES": ["mail", "default"], "MAX_WAIT": 2},
            "slow": {"CATEGORIES": ["bulk"], "WAITING": "polling"},
        },
        "ENGINES": {"default": {"ACQUISITIONS": ["quick", "slow"], "WAIT_TIME": 2}},
    }

    def seconds(self, raw):
        return [
            (each.name, each.categories, each.max_wait.total_seconds(), each.wait_time.total_seconds(), each.waiting)
            for each in read(raw).engine("default").acquirers
        ]

    def test_the_nearest_wins(self):
        assert self.seconds(self.RAW) == [
            ("quick", ("mail", "default"), 2, 2, "auto"),
            ("slow", ("bulk",), 3, 2, "polling"),
        ]

    def test_an_engine_that_names_none_is_its_own(self):
        engine = read({**self.RAW, "ENGINES": {"default": {}}}).engine("default")
        assert engine.acquirers == (engine,)
        assert (engine.share, engine.name) == ("default", "")

    def test_what_replace_gives_counts_for_each(self):
        engine = read(self.RAW).replace(max_wait=9, waiting="ladder").engine("default")
        assert {(each.max_wait.total_seconds(), each.waiting) for each in engine.acquirers} == {(9, "ladder")}
        assert [each.categories for each in engine.acquirers] == [("mail", "default"), ("bulk",)]

    def test_the_chosen_categories_are_left_to_each_and_one_without_goes(self):
        engine = read(self.RAW).replace(categories=["default"]).engine("default")
        assert [(each.name, each.categories) for each in engine.acquirers] == [("quick", ("default",))]
        again = read(self.RAW).replace(categories=["default"]).replace(threads=3).engine("default")
        assert again == engine

    def test_categories_that_none_serves_are_refused(self):
        raw = {**self.RAW, "ENGINES": {"default": {"ACQUISITIONS": ["slow"]}}}
        message = "category must be served by one of the acquisitions of the engine 'default'; got 'mail, default'"
        with pytest.raises(InvalidSettings, match=message):
            read(raw).replace(categories=["mail", "default"])


def test_replacing_twice_keeps_the_first():
    found = get_settings().replace(threads=3).replace(queue_size=7)
    assert (found.threads, found.queue_size) == (3, 7)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"threads": 0}, "THREADS.*got 0"),
        ({"thread": 5}, "Did you mean 'THREADS'"),
        ({"engines": ["other"]}, "engine must be one of 'default'; got 'other'"),
        ({"engines": []}, "at least one alias"),
        ({"categories": ["mail"]}, "category must be one of 'default'; got 'mail'"),
        ({"categories": []}, "at least one"),
        ({"heartbeat_interval": 29}, "half of LEASE_TIME"),
    ],
)
def test_overrides_are_validated_by_the_same_rules(overrides, message):
    with pytest.raises(InvalidSettings, match=message):
        get_settings().replace(**overrides)


def test_settings_are_read_once_and_again_after_a_change():
    first = get_settings()
    assert get_settings() is first
    with override_settings(JOBEXEC={"THREADS": 3}):
        assert get_settings().threads == 3
    assert get_settings() == first


def test_other_settings_do_not_reset_them():
    first = get_settings()
    with override_settings(DEBUG=True):
        assert get_settings() is first


def test_a_change_of_the_databases_resets_them():
    with override_settings(JOBEXEC=OTHER):
        assert "other" in get_settings().engines
        with override_settings(DATABASES={"default": {}}), pytest.raises(InvalidSettings, match="other"):
            get_settings()


def test_changing_the_dict_afterwards_changes_nothing():
    raw = {"THREADS": 3}
    with override_settings(JOBEXEC=raw):
        found = get_settings()
        raw["THREADS"] = 0
        assert found.replace(queue_size=5).threads == 3


def test_every_setting_is_documented():
    page = (Path(__file__).parents[3] / "docs/reference/settings.md").read_text()
    assert [key for key in [*GLOBAL, *PER_ENGINE, "ENGINES"] if f"\n`{key}`\n: Default " not in page] == []
