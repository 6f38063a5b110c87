"""What is enqueued and what befalls the cluster: the mixture of everything, and one aimed at each guard."""

from dataclasses import dataclass, field, replace
from typing import Any

#: Kinds of jobs and how often each is enqueued. See `people.everybody` for what they are.
ALL = {
    "work": 6,
    "slow": 2,
    "async": 3,
    "async-slow": 2,
    "async-flaky": 1,
    "async-late": 0.7,
    "careful": 1,
    "late": 0.7,
    "flaky": 2,
    "doomed": 1,
    "fatal": 0.5,
    "effect": 4,
    "effect-slow": 1,
    "effect-flaky": 1,
    "chain": 1,
    "herald": 0.5,
    "waiter": 2,
    "publisher": 3,
    "killer": 0.15,
    "killer-once": 0.15,
}
#: The same of tasks.
TASKS = {
    "task": 6,
    "task-slow": 2,
    "task-flaky": 2,
    "task-doomed": 1,
    "task-async": 2,
    "task-async-slow": 1,
    "task-mute": 0.5,
}
#: Kinds of processes and flows, and how often each is started; see `processes`.
PROCESSES = {
    "chaos-fork": 3,
    "chaos-late": 3,
    "chaos-gate": 2,
    "chaos-call": 2,
    "chaos-items": 2,
    "chaos-doomed": 0.3,
    "chaos-chain": 2,
    "chaos-flow": 3,
    "chaos-wide": 0.5,
}
#: The history handler, and how often it fails for a record that is never written.
LEDGER, NEVER = "chaos-ledger", 99
#: The name of all messages, and how many keys there are.
NEWS, NEWS_KEYS = "news", 2
#: What jobs share, and what it bears; a customer is one of CUSTOMERS.
RESOURCES: dict[str, dict[str, Any]] = {
    "gate": {"limit": 3},
    "customer:*": {"limit": 1},
    "meter": {"rate": "6/PT2S", "burst": 1},
    # Enough jobs fail for its breaker to open now and then, for longer than all nodes need to hear of it.
    "line": {"limit": 4, "breaker": {"window": 10, "minimum_calls": 4, "wait": 2.5, "trial_calls": 2}},
}
CUSTOMERS = 4
#: What befalls nodes and the server, and how often.
FAULTS = {"kill": 3, "pause": 3, "pause-long": 3, "drain": 2, "server": 1.5, "kill-caller": 1}


@dataclass(frozen=True)
class Mixture:
    """`pause` is the mean of seconds between two faults (exactly that if `steady`), `every` that between two batches,
    `batch` how many jobs of one process instance come together at most, `slow` how long slow jobs take, in leases,
    `tenants` how many jobs of a tenant a node may have in hand, `task_share` how often tasks come beside a batch,
    `callers` how many processes enqueue with unique keys, `away` how long the server may stay away, in leases;
    `deeds` is all that people do, if not everything, `schedules` is whether there are some, `shared` how often a batch
    shares a resource, `resources` which one, `batched` how often it is a batch for jobexec, too; `process_share` how
    often two instances of `processes` come beside a batch, and `dying` how often one of them kills a node after a
    step."""

    jobs: dict[str, float] = field(default_factory=lambda: dict(ALL))
    faults: dict[str, float] = field(default_factory=lambda: dict(FAULTS))
    pause: float = 2.0
    every: float = 0.15
    batch: int = 5
    instances: int = 12
    exclusive: float = 0.8
    slow: tuple[float, float] = (0.5, 1.5)
    people: bool = True
    deeds: tuple[str, ...] = ()
    steady: bool = False
    shifts: bool = True
    lease: float = 2.0
    threads: int = 3
    tenants: dict[str, int] = field(default_factory=lambda: {"east": 2})
    tasks: dict[str, float] = field(default_factory=lambda: dict(TASKS))
    task_share: float = 0.4
    callers: int = 2
    away: tuple[float, ...] = (0.0, 0.15, 0.5, 1.5)
    schedules: bool = True
    shared: float = 0.4
    resources: dict[str, float] = field(default_factory=lambda: {"gate": 4, "customer": 3, "meter": 2, "line": 3})
    batched: float = 0.3
    processes: dict[str, float] = field(default_factory=lambda: dict(PROCESSES))
    process_share: float = 0.5
    dying: float = 0.1


ALL_OF_IT = Mixture()

#: Threads enough that a job which is taken over begins at once; one fault after the other, at fixed times.
_AIMED = Mixture(
    people=False,
    tenants={},
    tasks={},
    callers=0,
    schedules=False,
    shared=0.0,
    batched=0.0,
    processes={},
    shifts=False,
    steady=True,
    lease=1.2,
    pause=3.2,
    every=0.4,
    batch=3,
    exclusive=0.3,
    threads=8,
)

_PROCESSES = replace(_AIMED, jobs={}, faults={}, process_share=1.0, dying=0.0)

#: A mixture in which the loss of this guard shows soon.
AIMED: dict[str, Mixture] = {
    # A job runs on a node that is paused; another takes it over and still runs it when the first one wakes.
    "fencing": replace(_AIMED, jobs={"slow": 1}, faults={"pause-long": 1}, every=0.6, slow=(2, 3)),
    "atomic-fence": replace(_AIMED, jobs={"effect-slow": 1}, faults={"pause-long": 1}, every=0.6, slow=(1, 2)),
    # What runs on a node that is paused ends at the moment when it wakes, before its heartbeat has asked anybody.
    "lease": replace(_AIMED, jobs={"slow": 1}, faults={"pause-long": 1}, every=0.2, slow=(0.5, 1)),
    "lost-run-charge": replace(_AIMED, jobs={"slow": 1}, faults={"kill": 1}, slow=(0.5, 1), pause=2.0),
    # Many siblings, and pages that meet each other.
    "turn": replace(_AIMED, jobs={"work": 1}, faults={}, every=0.05, instances=2, exclusive=1.0, batch=8),
    "judging": replace(_AIMED, jobs={"slow": 1}, faults={"server": 1}, slow=(0.5, 1), away=(1.5,), pause=4.0),
    "recover-living": replace(_AIMED, jobs={"slow": 1}, faults={}, slow=(0.5, 1)),
    "lock-row": replace(_AIMED, jobs={"work": 1}, faults={}, every=0.15, instances=3, exclusive=1.0),
    "sibling-commit": replace(_AIMED, jobs={"work": 1}, faults={}, every=0.15, instances=4, exclusive=1.0),
    # All nodes meet a time of a schedule at the same moment.
    "schedule-row": replace(_AIMED, jobs={}, faults={}, schedules=True),
    # Callers meet a key whose job is over.
    "unique-key": replace(_AIMED, jobs={}, faults={}, callers=3),
    "task-fence": replace(
        _AIMED, jobs={}, tasks={"task-slow": 1}, task_share=1.0, faults={"pause-long": 1}, every=0.6, slow=(2, 3)
    ),
    # All nodes look for permits at the same moment, as soon as jobs have come.
    "resource-row": replace(_AIMED, jobs={"work": 1}, faults={}, every=0.3, batch=8, exclusive=0.0, shared=1.0),
    # Some messages come before those who wait for them, and some twice.
    "message-look": replace(_AIMED, jobs={"waiter": 1, "publisher": 1}, faults={}, every=0.1, exclusive=0.0),
    "message-id": replace(_AIMED, jobs={"publisher": 1}, faults={}, every=0.1, exclusive=0.0),
    "tally": replace(_AIMED, jobs={"work": 2, "fatal": 1}, faults={}, batched=1.0),
    "tally-fence": replace(_AIMED, jobs={"slow": 1}, faults={"pause-long": 1}, every=0.6, slow=(2, 3), batched=1.0),
    "permit-count": replace(_AIMED, jobs={"work": 1}, faults={}, every=0.3, batch=8, exclusive=0.0, shared=1.0),
    "follow-up": replace(_AIMED, jobs={"herald": 1}, faults={}, exclusive=1.0, batch=1),
    "rate": replace(_AIMED, jobs={"work": 1}, faults={}, batch=5, exclusive=0.0, shared=1.0, resources={"meter": 1}),
    # Half of the jobs with a permit wait for the one thread of their node when their resource is held.
    "cut-off": replace(
        _AIMED,
        jobs={"slow": 1},
        faults={},
        exclusive=0.0,
        slow=(1, 1.5),
        threads=1,
        people=True,
        deeds=("hold-resource",),
        shared=1.0,
        resources={"gate": 1, "customer": 1, "line": 1},
    ),
    # More than the trial calls wait when they are let through.
    "trial": replace(
        _AIMED,
        jobs={"slow": 1},
        faults={},
        exclusive=0.0,
        slow=(0.5, 1),
        people=True,
        deeds=("break-resource",),
        shared=1.0,
        resources={"line": 1},
    ),
    # Branches of a fork that come to their join together.
    "root-lock": replace(_PROCESSES, processes={"chaos-fork": 1, "chaos-call": 1}),
    # Messages come when their receivers lose patience, and hold the instance beyond that.
    "token-check": replace(_PROCESSES, processes={"chaos-late": 1}, every=0.1),
    "job-check": replace(_PROCESSES, processes={"chaos-chain": 1}, dying=0.15),
    # Branches of a flow that end on two nodes at the same moment.
    "shared-lock": replace(_PROCESSES, processes={"chaos-wide": 1}),
    "shared-busy": replace(_PROCESSES, processes={"chaos-wide": 1}),
    # Another node has taken over a step that ends on a paused node, and has gone on.
    "shared-job": replace(_PROCESSES, processes={"chaos-chain": 1}, faults={"pause-long": 1}, every=0.2),
}
