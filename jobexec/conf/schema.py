"""The settings as frozen dataclasses. A field is a key of JOBEXEC in lower case, with default and parser."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import time, timedelta
from typing import Any

from jobexec.conf import values
from jobexec.conf.alerts import AlertTarget, alerts, site_url
from jobexec.conf.processes import ProcessSettings, processes
from jobexec.conf.resources import Resources, resources
from jobexec.exceptions import InvalidSettings


def _by(parser: values.Parser, *, named: bool = False) -> dict[str, Any]:
    """Metadata of a field; ``named``: a named acquisition may have its own value."""
    return {"parser": parser, "named": named}


def _seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


ACQUISITIONS = ("auto", "skip_locked", "optimistic", "global_lock")
DISPATCHES = ("database", "broker")
SENSITIVE = (
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "api_key",
    "private_key",
    "authorization",
    "credential",
)
WAITINGS = ("auto", "ladder", "backoff", "polling")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """The settings of one engine, that is one database alias; see ``docs/reference/settings.md``.

    Settings of a named acquisition are the engine's, overridden by its own values, with a ``name`` and the
    ``categories`` that it acquires; () means all that the executor serves.
    """

    alias: str
    name: str = ""
    categories: tuple[str, ...] = ()
    #: The acquisitions named in the engine's ACQUISITIONS, in that order.
    acquisitions: tuple[EngineSettings, ...] = ()
    acquisition: str = field(default="auto", metadata=_by(values.choice(*ACQUISITIONS)))
    waiting: str = field(default="auto", metadata=_by(values.choice(*WAITINGS), named=True))
    max_jobs_per_acquisition: int = field(default=1000, metadata=_by(values.integer(1, 10_000), named=True))
    lock_time: timedelta = field(default=timedelta(minutes=5), metadata=_by(values.duration()))
    wait_time: timedelta = field(default=_seconds(0.1), metadata=_by(values.duration(), named=True))
    wait_increase_factor: float = field(default=2.0, metadata=_by(values.factor, named=True))
    max_wait: timedelta = field(default=_seconds(5), metadata=_by(values.duration(), named=True))
    max_wait_when_listening: timedelta = field(default=_seconds(30), metadata=_by(values.duration(), named=True))
    backoff_time: timedelta = field(default=_seconds(0.03), metadata=_by(values.duration(zero=True), named=True))
    max_backoff: timedelta = field(default=_seconds(0.5), metadata=_by(values.duration(zero=True), named=True))
    backoff_decrease_threshold: int = field(default=100, metadata=_by(values.integer(1), named=True))
    burst_wait: timedelta = field(default=_seconds(0.5), metadata=_by(values.duration(), named=True))
    idle_threshold: int = field(default=3, metadata=_by(values.integer(1), named=True))
    deep_idle_wait: timedelta = field(default=_seconds(30), metadata=_by(values.duration(), named=True))
    deep_idle_threshold: timedelta = field(default=_seconds(60), metadata=_by(values.duration(), named=True))
    global_lock_poll_rate: timedelta = field(default=_seconds(0.1), metadata=_by(values.duration()))
    global_lock_force_acquire_after: timedelta = field(default=_seconds(60), metadata=_by(values.duration()))
    notify: bool = field(default=True, metadata=_by(values.boolean))
    listen_database: str | None = field(default=None, metadata=_by(values.database))
    priority_ageing: timedelta | None = field(default=None, metadata=_by(values.duration(none=True)))
    priority_range: tuple[int | None, int | None] = field(
        default=(None, None), metadata=_by(values.priority_range, named=True)
    )
    deployment_aware: bool = field(default=False, metadata=_by(values.boolean))

    @property
    def acquirers(self) -> tuple[EngineSettings, ...]:
        """The settings of each acquisition of this engine: the named ones, or these settings if there are none."""
        return self.acquisitions or (self,)

    def serves(self, category: str) -> bool:
        """Whether this acquisition takes jobs of the category, provided that the executor serves it."""
        return not self.categories or category in self.categories

    def takes(self, priority: int) -> bool:
        """Whether the priority is in PRIORITY_RANGE."""
        least, most = self.priority_range
        return (least is None or priority >= least) and (most is None or priority <= most)

    @property
    def share(self) -> str:
        """The name under which jobs of this acquisition hold places in the pool."""
        return f"{self.alias}/{self.name}" if self.name else self.alias


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The whole JOBEXEC setting, validated. ``docs/reference/settings.md`` explains each field.

    Compared by value. Made by get_settings() and by :meth:`replace`, not by calling the class.
    """

    engines: Mapping[str, EngineSettings]
    threads: int = field(default=10, metadata=_by(values.integer(1, 10_000)))
    queue_size: int = field(default=3000, metadata=_by(values.integer(1, 1_000_000)))
    async_jobs: int = field(default=1000, metadata=_by(values.integer(0, 1_000_000)))
    async_threads: int = field(default=2, metadata=_by(values.integer(1, 1000)))
    node_name: str = field(default="", metadata=_by(values.node_name))
    lease_time: timedelta = field(default=_seconds(30), metadata=_by(values.duration()))
    heartbeat_interval: timedelta = field(default=_seconds(10), metadata=_by(values.duration()))
    recovery_interval: timedelta = field(default=_seconds(10), metadata=_by(values.duration()))
    grace_period: timedelta = field(default=_seconds(30), metadata=_by(values.duration(zero=True)))
    settle_within: timedelta = field(default=_seconds(0.02), metadata=_by(values.duration(zero=True)))
    categories: tuple[str, ...] = field(default=("default",), metadata=_by(values.categories))
    category_order: str = field(default="rank", metadata=_by(values.choice("rank", "strict", "weighted")))
    atomic_jobs: bool = field(default=False, metadata=_by(values.boolean))
    history_level: str = field(default="activity", metadata=_by(values.choice("none", "failures", "activity", "full")))
    history_job_retries: int = field(default=10, metadata=_by(values.integer(1, 1000)))
    history_job_wait: timedelta = field(default=_seconds(10), metadata=_by(values.duration()))
    history_time_to_live: timedelta | None = field(default=timedelta(days=30), metadata=_by(values.duration(none=True)))
    audit_log_time_to_live: timedelta | None = field(
        default=timedelta(days=365), metadata=_by(values.duration(none=True))
    )
    history_max_rows: int | None = field(default=None, metadata=_by(values.integer(1, 2**53, none=True)))
    history_cleanup_window: tuple[time, time] | None = field(default=None, metadata=_by(values.time_window))
    history_cleanup_batch_size: int = field(default=500, metadata=_by(values.integer(1, 10_000)))
    deployment: str | None = field(default=None, metadata=_by(values.deployment))
    dead_letter_time_to_live: timedelta | None = field(default=None, metadata=_by(values.duration(none=True)))
    deployment_time_to_live: timedelta | None = field(
        default=timedelta(days=90), metadata=_by(values.duration(none=True))
    )
    keep_changed_sessions: bool = field(default=False, metadata=_by(values.boolean))
    default_retry_plan: Any = field(default="R3/PT10S", metadata=_by(values.retry_plan))
    unknown_handler_delay: timedelta = field(default=_seconds(60), metadata=_by(values.duration()))
    unknown_handler_timeout: timedelta = field(default=timedelta(days=1), metadata=_by(values.duration(zero=True)))
    max_stuck_threads: int = field(default=10, metadata=_by(values.integer(0)))
    health_max_due_age: timedelta | None = field(default=None, metadata=_by(values.duration(none=True)))
    tenant_concurrency: Mapping[str, int] | None = field(default=None, metadata=_by(values.tenant_concurrency))
    sensitive_arguments: tuple[str, ...] = field(default=SENSITIVE, metadata=_by(values.words))
    max_conflicts: int = field(default=10, metadata=_by(values.integer(0)))
    max_snoozes: int = field(default=1000, metadata=_by(values.integer(0)))
    default_timeout: timedelta | None = field(default=None, metadata=_by(values.duration(none=True)))
    conflict_delay: timedelta = field(default=_seconds(1), metadata=_by(values.duration(zero=True)))
    batch_jobs_per_seed: int = field(default=100, metadata=_by(values.integer(1, 1000)))
    invocations_per_batch_job: int = field(default=100, metadata=_by(values.integer(1, 1000)))
    batch_poll_time: timedelta = field(default=_seconds(5), metadata=_by(values.duration()))
    batch_category: str | None = field(default=None, metadata=_by(values.category))
    batch_priority: int = field(default=0, metadata=_by(values.integer(-1_000_000, 1_000_000)))
    result_ttl: timedelta | None = field(default=timedelta(days=7), metadata=_by(values.duration(none=True)))
    arguments_max_size: int = field(default=1_048_576, metadata=_by(values.integer(values.SMALLEST_LIMIT, 2**30)))
    result_max_size: int = field(default=262_144, metadata=_by(values.integer(0, 2**30)))
    external_max_payload: int = field(default=4_000_000, metadata=_by(values.integer(1000, 2**30)))
    message_max_payload: int = field(default=65_536, metadata=_by(values.integer(0, 2**24)))
    message_max_ttl: timedelta = field(default=timedelta(days=30), metadata=_by(values.duration()))
    message_max_kept: int | None = field(default=1_000_000, metadata=_by(values.integer(1, 2**53, none=True)))
    external_max_deliveries: int | None = field(default=None, metadata=_by(values.integer(1, 2**31 - 1, none=True)))
    imports: tuple[str, ...] = field(default=(), metadata=_by(values.words))
    middleware: tuple[str, ...] = field(default=(), metadata=_by(values.dotted_paths))
    authorization: str | None = field(default=None, metadata=_by(values.dotted_path))
    encrypt_arguments: bool = field(default=False, metadata=_by(values.boolean))
    encryption_keys: Mapping[str, Any] | None = field(default=None, metadata=_by(values.encryption_keys), repr=False)
    follow_ups: bool = field(default=True, metadata=_by(values.boolean))
    resources: Resources = field(default=Resources(), metadata=_by(resources))
    processes: ProcessSettings = field(default=ProcessSettings(), metadata=_by(processes))
    dead_letter_alerts: Mapping[str, AlertTarget] | None = field(default=None, metadata=_by(alerts), repr=False)
    site_url: str | None = field(default=None, metadata=_by(site_url))
    misfire_threshold: timedelta = field(default=_seconds(60), metadata=_by(values.duration()))
    meter_interval: timedelta = field(default=_seconds(15), metadata=_by(values.duration()))
    meter_time_to_live: timedelta = field(default=timedelta(days=30), metadata=_by(values.duration()))
    metrics_token: str | None = field(default=None, metadata=_by(values.token), repr=False)
    gateway_database: str = field(default="default", metadata=_by(values.alias))
    gateway_seen_interval: timedelta = field(default=_seconds(5), metadata=_by(values.duration()))
    gateway_worker_ttl: timedelta = field(default=timedelta(days=1), metadata=_by(values.duration()))
    external_worker_alert_after: timedelta = field(default=timedelta(minutes=5), metadata=_by(values.duration()))
    admin_tenants: str | None = field(default=None, metadata=_by(values.dotted_path))
    gateway_long_poll_time: timedelta = field(default=_seconds(10), metadata=_by(values.duration()))
    gateway_max_waiters: int = field(default=5000, metadata=_by(values.integer(0, 1_000_000)))
    gateway_max_waiters_in_threads: int = field(default=10, metadata=_by(values.integer(0, 10_000)))
    gateway_auth: str = field(default="required", metadata=_by(values.choice("required", "none")))
    gateway_users: bool = field(default=False, metadata=_by(values.boolean))
    gateway_token_ttl: timedelta = field(default=timedelta(hours=1), metadata=_by(values.duration()))
    gateway_requests_per_second: int | None = field(default=None, metadata=_by(values.integer(1, 1_000_000, none=True)))
    dispatch: str = field(default="database", metadata=_by(values.choice(*DISPATCHES)))
    broker_url: str | None = field(default=None, metadata=_by(values.broker_url), repr=False)
    broker_queue_prefix: str = field(default="jobexec", metadata=_by(values.queue_prefix))
    broker_poll_interval: timedelta = field(default=_seconds(60), metadata=_by(values.duration()))
    #: The weight of each category in CATEGORIES; 1 if that is a list. Not a separate key of JOBEXEC.
    category_weights: Mapping[str, int] = field(default_factory=dict)
    #: The JOBEXEC dict that this was made from.
    source: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def engine(self, alias: str) -> EngineSettings:
        """The settings of the engine on this database alias. Raises InvalidSettings if it is not an engine."""
        try:
            return self.engines[alias]
        except KeyError:
            known = ", ".join(map(repr, self.engines))
            raise InvalidSettings(
                f"The database {alias!r} is not a job engine. JOBEXEC['ENGINES'] names {known}."
            ) from None

    def replace(self, **overrides: Any) -> Settings:
        """A copy with other values, validated by the same rules; for options of the command line.

        Keys are field names of Settings or of EngineSettings (then for every engine), and ``engines``: a list of the
        aliases to keep. ``categories`` must be existing ones. None means "not given". Raises InvalidSettings.
        """
        from jobexec.conf.validation import replaced  # it makes objects of this class

        return replaced(self, overrides)


def parsers(cls: type[Settings] | type[EngineSettings], *, named: bool = False) -> dict[str, values.Parser]:
    """The parsers of all keys (in upper case) that the class takes from JOBEXEC, or only of those for ACQUISITIONS."""
    keys = [item for item in fields(cls) if "parser" in item.metadata and (item.metadata["named"] or not named)]
    return {item.name.upper(): item.metadata["parser"] for item in keys}
