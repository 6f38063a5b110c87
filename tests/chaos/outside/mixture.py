"""Who plays, and what befalls them: everything, a small part of it, and a mixture aimed at each guard."""

from dataclasses import dataclass, field, replace

#: What befalls whom, and how often.
FAULTS = {
    "kill-worker": 4,
    "pause-worker": 2,
    "kill-gateway": 2,
    "drain-gateway": 2,
    "kill-executor": 2,
    "drain-executor": 0.5,
    "server": 1,
}
#: What a worker does with a job, and how often.
DEEDS = {
    "complete": 60,
    "complete-twice": 4,
    "extend": 7,
    "shorten": 3,
    "fail": 8,
    "fail-later": 6,
    "give-up": 3,
    "caught": 4,
    "uncaught": 2,
    "leave": 5,
    "die": 0.7,
}


@dataclass(frozen=True)
class Mixture:
    """`workers` are named by how they talk and a number; `every` is the mean of seconds between two transactions of
    people, `pause` that between two faults, `late` how often a worker takes about as long as it may, or longer,
    `hasty` how often it does not wait for the answer, `timeouts` how long that is in seconds, `most` how many jobs
    it asks for.
    """

    executors: int = 2
    gateways: tuple[str, ...] = ("grpc1", "grpc2", "web1")
    workers: tuple[str, ...] = ("poll1", "poll2", "stream1", "rest1", "camunda1", "direct1")
    faults: dict[str, float] = field(default_factory=lambda: dict(FAULTS))
    deeds: dict[str, float] = field(default_factory=lambda: dict(DEEDS))
    pause: float = 1.2
    every: float = 0.12
    batch: int = 6
    instances: int = 4
    late: float = 0.06
    leased: float = 0.5
    hasty: float = 0.2
    people: bool = True
    types: tuple[str, ...] = ("pay", "ship")
    timeouts: tuple[float, ...] = (0.5, 1.0, 2.0)
    most: int = 5
    callbacks: dict[str, float] = field(default_factory=lambda: {"": 3, "effect": 5, "slow_effect": 1})


ALL_OF_IT = Mixture()
SMALL = replace(
    ALL_OF_IT, executors=1, gateways=("grpc1", "web1"), workers=("poll1", "stream1", "rest1", "direct1"), pause=1.0
)

#: Workers that need no gateway, so that it begins soon.
_AIMED = Mixture(
    executors=0,
    gateways=(),
    workers=("direct1", "direct2", "direct3"),
    faults={},
    people=False,
    instances=0,
    callbacks={"": 1},
)

#: A mixture in which the loss of this guard shows soon.
AIMED: dict[str, Mixture] = {
    # One lets its deadline pass, the next one is given the job, and the first one completes it.
    "lease": replace(
        _AIMED, late=0.6, leased=1.0, deeds={"complete": 1}, types=("pay",), timeouts=(0.3,), most=1, every=0.3, batch=2
    ),
    "removal": _AIMED,
    "deadline": replace(_AIMED, late=0.3),
    "exclusive": replace(_AIMED, instances=2, late=0.2),
}
