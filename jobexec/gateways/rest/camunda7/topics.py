"""Parse a fetchAndLock request: topics, and conditions for their tasks."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import timedelta

from jobexec.operations.external.fetch import MAX_JOBS
from jobexec.operations.external.types import Caller, Fetch
from jobexec.operations.external.validation import checked_name

from .bodies import Body
from .errors import invalid
from .variables import with_notes

#: Camunda's maximum waiting time, half an hour.
MAX_WAIT = 1_800_000  # milliseconds
#: Each topic is fetched separately. Camunda has no limit.
MOST_TOPICS = 100
#: Conditions for variables; each takes part of the statement, which the database has to parse.
_MOST_VARIABLES = 100
#: The only supported order is by creation time.
_MOST_SORTINGS = 10


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of a request. ``fetch`` is None if no task can meet the conditions."""

    name: str
    fetch: Fetch | None
    deserialize: bool = False
    extension_properties: bool = False

    @property
    def tenants(self) -> Collection[str]:
        """The requested tenants, empty if the request names none."""
        return (self.fetch.tenants if self.fetch is not None else None) or ()


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """A fetchAndLock request, which may wait for ``wait``.

    The result is ordered by creation time, newest or oldest first, or unsorted if ``newest_first`` is None.
    """

    client: str
    worker: str
    max_tasks: int
    topics: tuple[Topic, ...]
    wait: timedelta
    newest_first: bool | None = None

    @property
    def names(self) -> frozenset[str]:
        """The topics that may have tasks for the request."""
        return frozenset(topic.name for topic in self.topics if topic.fetch is not None)


def fetch_request(body: Body, caller: Caller) -> FetchRequest:
    """Parse the body. Raises EngineError, which names the missing or invalid member."""
    worker = body.needed_text("workerId")
    max_tasks = body.integer("maxTasks", least=1)
    if max_tasks is None:
        raise invalid("maxTasks: expected an integer of at least 1, got null.")
    max_tasks = min(max_tasks, MAX_JOBS)  # of all topics together
    wait = body.integer("asyncResponseTimeout", 0, least=0) or 0
    if wait > MAX_WAIT:
        raise invalid("The asynchronous response timeout cannot be set to a value greater than 1800000 milliseconds")
    body.flag("usePriority")  # the order of jobs always follows it
    base = Fetch(
        type="",
        worker=worker,
        timeout=timedelta(0),
        max_jobs=max_tasks,
        caller=caller,
    )
    # As in Camunda, the last one of the same name counts.
    topics = {each.name: each for each in (_topic(one, base) for one in body.objects("topics", most=MOST_TOPICS))}
    wait_for = timedelta(milliseconds=wait)
    return FetchRequest(caller.name, worker, max_tasks, tuple(topics.values()), wait_for, _newest_first(body))


def _topic(body: Body, base: Fetch) -> Topic:
    name, duration = body.needed_text("topicName"), body.milliseconds("lockDuration", least=1)
    checked_name("topicName", name)
    variables = body.texts("variables")
    tenants, ids = _tenants(body, base.caller), _both(body, "processDefinitionId", "processDefinitionIdIn")
    keys = _both(body, "processDefinitionKey", "processDefinitionKeyIn")
    fetch = replace(
        base,
        type=name,
        timeout=duration,
        variables=None if variables is None else with_notes(variables),
        local_variables_only=body.flag("localVariables"),
        tenants=tenants,
        business_key=body.text("businessKey"),
        process_definition_ids=ids,
        process_definition_keys=keys,
        process_variables=body.mapping("processVariables", most=_MOST_VARIABLES) or None,
    )
    # Process definitions here have no version tags.
    impossible = [] in (tenants, ids, keys) or body.has("processDefinitionVersionTag")
    return Topic(
        name, None if impossible else fetch, body.flag("deserializeValues"), body.flag("includeExtensionProperties")
    )


def _both(body: Body, one: str, many: str) -> list[str] | None:
    """The values that both members allow; None if neither is present. As in Camunda, an empty list is no condition."""
    single, several = body.text(one), body.texts(many) or None
    if single is None:
        return several
    return [single] if several is None or single in several else []


def _tenants(body: Body, caller: Caller) -> list[str] | None:
    """The tenants to fetch for. Tenants that the caller may not see are silently left out."""
    given = [""] if body.flag("withoutTenantId") else body.texts("tenantIdIn") or None
    return None if given is None else [tenant for tenant in given if caller.may_see(tenant)]


def _newest_first(body: Body) -> bool | None:
    newest_first = None
    for each in body.objects("sorting", most=_MOST_SORTINGS):
        by, order = each.text("sortBy"), each.text("sortOrder")
        if by != "createTime":
            raise invalid(f"Cannot set query sortBy parameter to value {by}")
        if order not in ("asc", "desc", None):
            raise invalid(f"Cannot set query sortOrder parameter to value {order}")
        newest_first = order == "desc"
    return newest_first
