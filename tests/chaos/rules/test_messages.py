"""The rules of messages, over hand-made histories."""

import pytest

from tests.chaos.rules import messages as rules

from .stories import A, B, Story, bad, good


def waiting(key="k", seconds=5.0):
    return Story(j={"waits": [key, seconds]})


def publish(story, t, text="m", key="k", ttl=0, id=None, said="published", duplicate=False):
    story.tell(t, "publishing", text=text, key=key, ttl=ttl, id=id)
    return story.tell(t + 0.01, said, text=text, duplicate=duplicate) if said else story


def told(story, t, message, attempt=1, owner=A):
    story.begin(t, "j", owner, attempt).end(t + 0.1, "j", owner, attempt)
    story.lines[-1]["message"] = message
    return story


def test_a_message_in_time_and_none():
    good(rules.messages_reach_who_waits, told(publish(waiting(), 1), 2, "m"))
    good(rules.messages_reach_who_waits, told(publish(waiting(), 1, said=""), 2, "m"))
    good(rules.messages_reach_who_waits, told(waiting(), 6, None))
    good(rules.messages_reach_who_waits, told(publish(waiting(), 1, key="other"), 6, None))
    bad(rules.messages_reach_who_waits, told(waiting(), 3, None), "before its wait was over")
    bad(rules.messages_reach_who_waits, told(publish(waiting(), 1), 6, None), "published in time")
    good(rules.messages_reach_who_waits, told(publish(waiting(), 5.5), 6, None))
    good(rules.messages_reach_who_waits, told(publish(waiting(), 1, said=""), 6, None))
    good(rules.messages_reach_who_waits, told(publish(waiting(), 1, said="unpublished"), 6, None))
    good(rules.messages_reach_who_waits, told(publish(waiting(), 1, duplicate=True), 6, None))


def test_who_was_meddled_with_may_have_waited_later():
    story = publish(waiting(), 1).tell(2, "asks", verb="requeue", jobs=["j"])
    good(rules.messages_reach_who_waits, told(story, 3, None))


@pytest.mark.parametrize("ttl", [0.1, 4])
def test_a_message_that_was_kept_when_the_wait_began(ttl):
    story = Story()
    publish(story, 1, ttl=ttl)
    plain = {"kind": "waiter", "instance": "", "exclusive": False, "atomic": False, "retries": 3, "tenant": ""}
    story.tell(2, "creating", jobs=[{"id": "j", **plain, "waits": ["k", 2.0]}])
    story.tell(2.1, "created", ok=True, jobs=["j"])
    told(story, 5, None)
    if ttl == 4:
        bad(rules.messages_reach_who_waits, story, "published in time")
    else:
        good(rules.messages_reach_who_waits, story)


def test_a_message_that_is_not_for_it():
    bad(rules.messages_reach_who_waits, told(waiting(), 2, "m"), "nobody had published")
    bad(rules.messages_reach_who_waits, told(publish(waiting(), 3), 2, "m"), "nobody had published")
    bad(rules.messages_reach_who_waits, told(publish(waiting(), 1, key="other"), 2, "m"), "what is for other")
    bad(rules.messages_reach_who_waits, told(publish(waiting(), 1, said="unpublished"), 2, "m"), "rolled back")
    bad(rules.messages_reach_who_waits, told(publish(waiting(), 1, duplicate=True), 2, "m"), "known by its id")


def test_each_attempt_is_told_the_same():
    story = publish(publish(waiting(), 1), 1, text="n")
    good(rules.messages_reach_who_waits, told(told(story, 2, "m"), 3, "m", 2, B))
    bad(rules.messages_reach_who_waits, told(story, 4, "n", 3), "different things")


def test_an_id_is_known_while_its_message_is_kept():
    first = publish(Story(), 1, id="i", ttl=5)
    good(rules.ids_are_known_while_kept, publish(first, 2, text="n", id="i", duplicate=True))
    good(rules.ids_are_known_while_kept, publish(first, 7, text="o", id="i", ttl=5))
    bad(rules.ids_are_known_while_kept, publish(first, 9, text="p", id="i"), "published again while it was kept")
    bad(rules.ids_are_known_while_kept, publish(Story(), 1, id="i", duplicate=True), "a duplicate of none")
    other = publish(publish(Story(), 1, id="i", ttl=5), 2, text="n", key="other", id="i")
    good(rules.ids_are_known_while_kept, other)
