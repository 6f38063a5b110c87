"""What is said on a broker: small, versioned, and never a reason to fail."""

import json
from uuid import UUID

import pytest

from jobexec.broker.message import (
    HIGH,
    LOW,
    MOST_IDS,
    NORMAL,
    Announcement,
    UnknownMessage,
    decode,
    encode,
    level_of,
    merged,
    pieces,
    queue_name,
)

ONE, TWO, THREE = (UUID(int=number) for number in (1, 2, 3))


def test_says_which_rows_and_nothing_else():
    text = encode(Announcement("default", "mail", "shop:1", HIGH, [ONE, TWO]))
    assert json.loads(text) == {
        "v": 1,
        "engine": "default",
        "category": "mail",
        "deployment": "shop:1",
        "ids": [ONE.hex, TWO.hex],
    }
    assert decode(text, "default") == decode(text.encode(), "default") == [ONE, TWO]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no json",
        "[]",
        "3",
        "{}",
        '{"v":2,"engine":"default","ids":[]}',
        '{"v":1,"engine":"other","ids":[]}',
        '{"v":1,"engine":"default","ids":"x"}',
        '{"v":1,"engine":"default","ids":["x"]}',
        '{"v":1,"engine":"default","ids":[3]}',
        b"\xff\xfe",
        "[" * 100_000,
        json.dumps({"v": 1, "engine": "default", "ids": ["0" * 32] * 1001}),
        json.dumps({"v": 1, "engine": "default", "ids": ["0" * 32] * 200_000}),
    ],
)
def test_anything_else_is_told_from_it(text):
    with pytest.raises(UnknownMessage):
        decode(text, "default")


def test_what_is_alike_goes_together_and_what_is_important_first():
    given = [
        Announcement("a", "x", "", LOW, [ONE]),
        Announcement("a", "x", "", NORMAL, [TWO]),
        Announcement("a", "x", "", HIGH, [THREE]),
        Announcement("a", "x", "", NORMAL, [ONE]),
        Announcement("b", "x", "", NORMAL, [ONE]),
    ]
    assert [(each.engine, each.level, each.ids) for each in merged(given)] == [
        ("a", HIGH, [THREE]),
        ("a", NORMAL, [TWO, ONE]),
        ("b", NORMAL, [ONE]),
        ("a", LOW, [ONE]),
    ]


def test_many_are_several_messages():
    ids = [UUID(int=number) for number in range(2 * MOST_IDS + 1)]
    parts = list(pieces(Announcement("a", "x", "", NORMAL, ids)))
    assert [len(part.ids) for part in parts] == [MOST_IDS, MOST_IDS, 1]
    assert [id for part in parts for id in part.ids] == ids


def test_names_and_levels():
    assert queue_name("jobexec", "default", "mail") == "jobexec.default.mail"
    assert queue_name("jobexec", "default", "mail", "shop:1") == "jobexec.default.mail@shop:1"
    assert [level_of(priority) for priority in (-7, 0, 1_000)] == [LOW, NORMAL, HIGH]
