"""Rows for the pages of the admin: some of everything."""

from datetime import timedelta
from typing import Any, TypeVar

from jobexec import clock
from jobexec.identifiers import uuid7
from jobexec.models import (
    AbstractJob,
    AuditLog,
    Batch,
    BatchState,
    BlockedJob,
    DeadLetterJob,
    Deployment,
    DeploymentRegistration,
    ExclusiveLock,
    ExecutorNode,
    ExternalWorker,
    ExternalWorkerJob,
    FailureGroup,
    GatewayClient,
    HistoryJob,
    Incident,
    Job,
    JobDefinition,
    JobKey,
    JobLog,
    JobType,
    LogState,
    Message,
    NodeState,
    OperatorType,
    Resource,
    ResultStatus,
    Schedule,
    ScheduleFiring,
    SuspendedJob,
    Suspension,
    SuspensionScope,
    TaskResult,
    TimerJob,
)

STACK = """Traceback (most recent call last):
  File "/srv/shop/jobs.py", line 41, in charge_card
    receipt = gateway.charge(order.total, token)
  File "/srv/shop/gateway.py", line 17, in charge
    raise GatewayTimeout("no answer from pay.example within 30 s")
shop.gateway.GatewayTimeout: no answer from pay.example within 30 s"""
FAILURE = {"exception_message": "GatewayTimeout: no answer from pay.example within 30 s", "exception_stack": STACK}
HANDLERS = ["shop.jobs.charge_card", "shop.jobs.remind_of_payment"]
FINGERPRINT = "0123456789abcdef0123456789abcdef"
OWNER = "worker-1:0193f2b0-0000-7000-8000-000000000001"


M = TypeVar("M", bound=AbstractJob)


def make(table: type[M], using: str = "default", **columns: Any) -> M:
    """A row of a job table; its arguments and its process instance are those of an order."""
    columns = {
        "handler_type": "shop.jobs.charge_card",
        "handler_configuration": {"args": [4711], "kwargs": {"currency": "EUR", "big": 12345678901234567890}},
        "custom_headers": {"request": "b1946ac9"},
        "process_instance_id": "order-4711",
        **columns,
    }
    return table._default_manager.using(using).create(**columns)


def dead_letter(using: str = "default", **columns: Any) -> DeadLetterJob:
    return make(DeadLetterJob, using, **{"retries": 0, "attempts": 3, "fingerprint": FINGERPRINT, **FAILURE, **columns})


def running(using: str = "default", **columns: Any) -> Job:
    until = clock.now() + timedelta(minutes=5)
    return make(Job, using, **{"lock_owner": OWNER, "lock_expiration_time": until, **columns})


def external(using: str = "default", **columns: Any) -> ExternalWorkerJob:
    """A job that a worker outside has, or as told."""
    until = clock.now() + timedelta(minutes=5)
    held = {"lock_owner": "payments-1", "lock_expiration_time": until, "available_at": until, "lease_token": "s3cr3t"}
    configuration = {
        "variables": {"amount": 12, "card_password": "hush"},
        "on_complete": {"handler": "shop.jobs.charge_card", "kwargs": {"order": 4711}, "columns": {}},
    }
    return make(
        ExternalWorkerJob,
        using,
        **{
            "type": JobType.EXTERNAL,
            "handler_type": "payment",
            "handler_configuration": configuration,
            "job_key": 2**51 + ExternalWorkerJob.objects.using(using).count() + 1,
            "attempts": 1,
            **held,
            **columns,
        },
    )


def some_of_everything(using: str = "default") -> dict[type[Any], Any]:
    """At least one row in every table; returns one of each."""
    now = clock.now()
    make(Job, using, priority=5)
    make(TimerJob, using, due_date=now + timedelta(days=14), handler_type="shop.jobs.remind_of_payment")
    dead = dead_letter_with_log(using)
    return {
        AuditLog: audit(using, object_id=str(dead.pk)),
        Incident: incident(dead, using),
        Batch: batch(using),
        HistoryJob: history_job(using),
        FailureGroup: failure_group(using, job_id=dead.pk),
        Job: running(using),
        TimerJob: make(TimerJob, using, due_date=now + timedelta(minutes=3), attempts=1, retries=2, **FAILURE),
        BlockedJob: make(BlockedJob, using, resource="pay.example"),
        SuspendedJob: make(SuspendedJob, using, due_date=now + timedelta(hours=1), suspend_requested=True),
        DeadLetterJob: dead,
        ExternalWorkerJob: external(using),
        Schedule: schedule(using, fired_job=dead.pk),
        JobKey: job_key(using, job_id=dead.pk),
        TaskResult: task_result(using),
        Resource: resource(using),
        Message: message(using),
        **_beside(using),
    }


def dead_letter_with_log(using: str = "default") -> DeadLetterJob:
    job = dead_letter(using, create_time=clock.now() - timedelta(hours=2))
    for attempt in (1, 2, 3):
        log(job, using, attempt=attempt, retries=3 - attempt, minutes_ago=60 - attempt * 10)
    return job


def log(job: Any, using: str = "default", minutes_ago: float = 0, **columns: Any) -> JobLog:
    """A log row about a failed attempt of the job, or as told."""
    return JobLog.objects.using(using).create(
        **{
            "timestamp": clock.now() - timedelta(minutes=minutes_ago),
            "state": LogState.FAILED,
            "job_id": job.pk,
            "handler_type": job.handler_type,
            "category": job.category,
            "process_instance_id": job.process_instance_id,
            "attempt": 1,
            "node": "worker-1",
            "wait": 0.042,
            "duration": 30.02,
            **FAILURE,
            **columns,
        }
    )


def audit(using: str = "default", **columns: Any) -> AuditLog:
    """What an operator did to a dead letter, or as told."""
    return AuditLog.objects.using(using).create(
        **{
            "timestamp": clock.now() - timedelta(minutes=5),
            "operator_type": OperatorType.USER,
            "operator": "ann",
            "via": "admin",
            "origin": "192.0.2.7",
            "verb": "set_priority",
            "object_type": "deadletterjob",
            "tenant_id": "",
            "old_value": {"priority": 0},
            "new_value": {"priority": 7},
            **columns,
        }
    )


def incident(job: Any, using: str = "default", **columns: Any) -> Incident:
    """The open incident of a dead letter, or as told."""
    return Incident.objects.using(using).create(
        **{
            "timestamp": clock.now(),
            "job_id": job.pk,
            "handler_type": job.handler_type,
            "category": job.category,
            "process_instance_id": job.process_instance_id,
            "tenant_id": job.tenant_id,
            "fingerprint": FINGERPRINT,
            "message": FAILURE["exception_message"],
            **columns,
        }
    )


def failure_group(using: str = "default", **columns: Any) -> FailureGroup:
    return FailureGroup.objects.using(using).create(
        **{
            "fingerprint": FINGERPRINT,
            "handler_type": "shop.jobs.charge_card",
            "exception": "shop.gateway.GatewayTimeout",
            "message": FAILURE["exception_message"],
            "first_time": clock.now() - timedelta(days=2),
            "last_time": clock.now() - timedelta(minutes=3),
            "count": 4711,
            **columns,
        }
    )


def history_job(using: str = "default", **columns: Any) -> HistoryJob:
    """History of an order that could not be written once."""
    waits = {"type": "history", "due_date": clock.now() + timedelta(minutes=1), "attempts": 1, "retries": 9, **FAILURE}
    return make(HistoryJob, using, **{"handler_configuration": {"records": [{"order": 4711}]}, **waits, **columns})


def batch(using: str = "default", **columns: Any) -> Batch:
    """A batch that requeues dead letters and has come some way."""
    where = {"connector": "AND", "negated": False, "children": []}
    return Batch.objects.using(using).create(
        **{
            "type": "requeue",
            "arguments": {"retries": 3},
            "selection": {"table": "deadletterjob", "where": where},
            "state": BatchState.RUNNING,
            "create_user": "admin",
            "total": 1000,
            "parts": 10,
            "changed": 700,
            "skipped": 1,
            **columns,
        }
    )


def schedule(using: str = "default", fired_job: Any = None, **columns: Any) -> Schedule:
    """A schedule of a handler that is known here, made by a person; with the firing that made a job."""
    row = Schedule.objects.using(using).create(
        **{
            "name": "shop.reminders",
            "handler_type": "demo_project.bookings.jobs.book_hotel",
            "handler_configuration": {"args": [4711], "kwargs": {}},
            "options": {"priority": 5},
            "expression": "0 3 * * MON-FRI",
            "timezone": "Europe/Berlin",
            "next_time": clock.now() + timedelta(hours=5),
            "last_time": clock.now() - timedelta(hours=19),
            "fired": 41,
            **columns,
        }
    )
    if fired_job is not None:
        ScheduleFiring.objects.using(using).create(
            schedule=row, fire_time=row.last_time or clock.now(), job_id=fired_job
        )
    return row


def job_key(using: str = "default", **columns: Any) -> JobKey:
    return JobKey.objects.using(using).create(
        **{"handler_type": "shop.jobs.charge_card", "key": "order-4711", "job_id": uuid7(), **columns}
    )


def task_result(using: str = "default", **columns: Any) -> TaskResult:
    """A task that has failed once and then returned something."""
    now = clock.now()
    return TaskResult.objects.using(using).create(
        **{
            "id": uuid7(),
            "backend": "default",
            "handler_type": "shop.jobs.charge_card",
            "handler_configuration": {"args": [4711], "kwargs": {"currency": "EUR"}},
            "status": ResultStatus.SUCCESSFUL,
            "create_time": now - timedelta(minutes=9),
            "first_time": now - timedelta(minutes=8),
            "last_time": now - timedelta(minutes=3),
            "end_time": now - timedelta(minutes=3),
            "return_value": {"receipt": "2026-0042", "total": "19.90"},
            "errors": [{"exception_class_path": "shop.gateway.GatewayTimeout", "traceback": STACK}],
            "workers": ["worker-2", "worker-1"],
            **columns,
        }
    )


def message(using: str = "default", **columns: Any) -> Message:
    """A message that is kept for an hour."""
    now = clock.now()
    number = (Message.objects.using(using).order_by("-pk").values_list("pk", flat=True).first() or 4711) + 1
    kept = {"create_time": now, "expiration_time": now + timedelta(hours=1), "payload": {"by": "ann", "password": "x"}}
    names = {"name": "approved", "key": "4711"}
    return Message.objects.using(using).create(id=number, **{**names, **kept, **columns})


def resource(using: str = "default", **columns: Any) -> Resource:
    """A resource whose breaker is open, or as told. Which limits it has, the settings say."""
    now = clock.now()
    return Resource.objects.using(using).create(
        **{
            "name": "pay.example",
            "promoted": 4711,
            "breaker_state": "open",
            "breaker_time": now - timedelta(seconds=20),
            "trial_time": now + timedelta(seconds=40),
            "reason": "12 of 20 calls failed, the last one with GatewayTimeout",
            **columns,
        }
    )


def node(using: str = "default", name: str = "worker-1", beat: float = 4, **columns: Any) -> ExecutorNode:
    """A node whose last heartbeat was ``beat`` seconds ago."""
    now = clock.now()
    id = uuid7()
    return ExecutorNode.objects.using(using).create(
        **{
            "id": id,
            "name": name,
            "lock_owner": f"{name}:{id}",
            "hostname": "shop-vm-1",
            "pid": 4242,
            "start_time": now - timedelta(days=2, hours=3),
            "heartbeat_time": now - timedelta(seconds=beat),
            "lease_expiration_time": now + timedelta(seconds=30 - beat),
            "threads": 10,
            "busy_threads": 7,
            "queue_size": 100,
            "queued_jobs": 12,
            "categories": ["default", "mail"],
            "deployments": ["shop:2", "shop:1"],
            "deployment_aware": True,
            **columns,
        }
    )


def _beside(using: str) -> dict[type[Any], Any]:
    deployment = _deployments(using)
    node(using, "worker-2", beat=200, state=NodeState.DEAD, busy_threads=0, queued_jobs=0, deployment_aware=False)
    for name in HANDLERS:
        JobDefinition.objects.using(using).create(
            id=name, handler_type=name, category="default", retry_plan="PT1M,PT10M,PT1H"
        )
    return {
        Deployment: deployment,
        ExecutorNode: node(using),
        ExternalWorker: external_worker(using),
        GatewayClient: gateway_client(using),
        JobDefinition: JobDefinition.objects.using(using).first(),
        JobLog: JobLog.objects.using(using).first(),
        ExclusiveLock: ExclusiveLock.objects.using(using).create(
            process_instance_id="order-4711", lock_owner=OWNER, acquisition=uuid7()
        ),
        Suspension: Suspension.objects.using(using).create(scope=SuspensionScope.TENANT, value="acme"),
    }


def gateway_client(using: str = "default", **columns: Any) -> GatewayClient:
    """A client of the gateways without a secret."""
    return GatewayClient.objects.using(using).create(
        **{
            "previous_token_digest": uuid7().hex * 2,
            "name": "payments",
            "types": ["payment", "mail.*"],
            "tenants": ["", "acme"],
            "permissions": ["work", "search"],
            "last_use": clock.now() - timedelta(minutes=4),
            "expiration_time": clock.now() + timedelta(days=90),
            **columns,
        }
    )


def external_worker(using: str = "default", **columns: Any) -> ExternalWorker:
    """A worker that streams, or as told."""
    stream = {"id": str(uuid7()), "timeout": "PT30S", "fetchVariables": ["order_id"], "tenantIds": []}
    return ExternalWorker.objects.using(using).create(
        **{
            "gateway": "gateway-1:17",
            "protocol": "grpc",
            "client": "shop",
            "worker": "payments-1",
            "type": "payment",
            "streams": 1,
            "polls": 2,
            "activated": 1234,
            "open_streams": [stream],
            **columns,
        }
    )


def _deployments(using: str) -> Deployment:
    """Two versions: worker-1 has been told not to take jobs of the older one."""
    older, newer = (
        Deployment.objects.using(using).create(
            id=f"shop:{version}",
            name="shop",
            version=str(version),
            deploy_time=clock.now() - timedelta(days=10 - version),
            handlers=HANDLERS,
        )
        for version in (1, 2)
    )
    for deployment, name, registered in ((older, "worker-1", False), (newer, "worker-1", True), (newer, "w-2", True)):
        DeploymentRegistration.objects.using(using).create(deployment=deployment, node_name=name, registered=registered)
    return newer
