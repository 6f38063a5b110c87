"""The rows of the pictures: an online shop at noon. Its payment service has been out of order for some minutes."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User

from jobexec import clock
from jobexec.identifiers import uuid7
from jobexec.models import (
    AuditLog,
    Batch,
    BatchPart,
    BatchState,
    DeadLetterJob,
    Deployment,
    DeploymentRegistration,
    ExclusiveLock,
    ExecutorNode,
    FailureGroup,
    HistoryJob,
    Incident,
    Job,
    JobDefinition,
    JobLog,
    JobProgress,
    LogState,
    OperatorType,
    SuspendedJob,
    Suspension,
    TimerJob,
)
from jobexec.operations import suspend
from jobexec.operations.batches.jobs import MONITOR, enqueue_own
from jobexec.operations.query.stored_filter import describe
from jobexec.operations.reports import meters, subjects
from jobexec.operations.values.histogram import KEYS
from jobexec.retry import RetryPlan

CHARGE, MAIL, REMIND = "shop.jobs.charge_card", "shop.jobs.send_confirmation", "shop.jobs.remind_of_payment"
STOCK, LABEL, EXPORT = "shop.jobs.reserve_stock", "shop.jobs.print_label", "shop.jobs.export_to_ledger"
INSTANCE = "order-48213"
TENANTS = ("acme", "globex", "initech")
PLAN = str(RetryPlan.parse("PT1M,PT10M"))
TIMEOUT = "GatewayTimeout: no answer from pay.example within 30 s"
ADDRESS = "InvalidAddress: the street of the customer is empty"
STACKS = {
    TIMEOUT: """Traceback (most recent call last):
  File "/srv/shop/jobs.py", line 41, in charge_card
    receipt = gateway.charge(order.total, order.token)
  File "/srv/shop/gateway.py", line 17, in charge
    raise GatewayTimeout("no answer from pay.example within 30 s")
shop.gateway.GatewayTimeout: no answer from pay.example within 30 s""",
    ADDRESS: """Traceback (most recent call last):
  File "/srv/shop/jobs.py", line 88, in print_label
    label = carrier.label(order.address)
  File "/srv/shop/carrier.py", line 52, in label
    raise InvalidAddress("the street of the customer is empty")
shop.carrier.InvalidAddress: the street of the customer is empty""",
}
FINGERPRINTS = {TIMEOUT: "5c1e7a0f9b3d2846", ADDRESS: "b07d61f2c94e8a35"}


class Shop:
    """Makes the rows; the chance is the same each time, and times are counted from now."""

    def __init__(self) -> None:
        self.chance = random.Random(4711)
        self.now = clock.now()
        self.admin = User.objects.create_superuser("maria", "maria@shop.example", "secret")
        self.nodes = [self._node(name) for name in ("worker-1", "worker-2", "worker-3")]

    def open(self) -> dict[str, Any]:
        """Fill all tables; the rows whose pages are shown, by name of their table."""
        self._definitions()
        self._traffic()
        self._waiting()
        suspend(tenant_id="initech")
        dead = [self._dead_letter(number, CHARGE, TIMEOUT) for number in range(23)]
        dead += [self._dead_letter(number, LABEL, ADDRESS) for number in range(23, 27)]
        groups = [self._group(message) for message in (ADDRESS, TIMEOUT)]
        for number in range(40):
            self._success(number)
        self._running()
        self._instance()
        FailureGroup.objects.filter(pk=groups[0].pk).update(
            assigned_to="maria", snoozed_until=self.now + timedelta(days=2), snoozed_to_count=100
        )
        return {
            "deadletterjob": dead[22],
            "failuregroup": groups[1],
            "batch": self._batch(),
            "executornode": self.nodes[0],
            "job": Job.objects.filter(lock_owner__isnull=False).first(),
            "incident": Incident.objects.get(job_id=dead[22].pk),
            "jobdefinition": JobDefinition.objects.get(pk=CHARGE),
            "timerjob": TimerJob.objects.filter(attempts__gt=0).first(),
            "suspendedjob": SuspendedJob.objects.first(),
            "joblog": JobLog.objects.filter(job_id=dead[22].pk).first(),
            "deployment": Deployment.objects.get(pk="shop:2026.11.2"),
            "suspension": Suspension.objects.first(),
            "historyjob": HistoryJob.objects.first(),
        }

    def ago(self, **length: float) -> Any:
        return self.now - timedelta(**length)

    def _columns(self, number: int, handler: str, **columns: Any) -> dict[str, Any]:
        order = 48213 + number
        return {
            "handler_type": handler,
            "job_definition_id": handler,
            "handler_configuration": {"kwargs": {"order_id": order, "currency": "EUR"}},
            "custom_headers": {"request": f"{order * 7919:x}"},
            "process_instance_id": f"order-{order}",
            "tenant_id": self.chance.choice(TENANTS[:2]),
            "deployment_id": "shop:2026.11.2",
            "category": "mail" if handler in (MAIL, REMIND) else "default",
            "retry_plan": PLAN,
            **columns,
        }

    def _node(self, name: str) -> ExecutorNode:
        id = uuid7()
        return ExecutorNode.objects.create(
            id=id,
            name=name,
            lock_owner=f"{name}:{id}",
            hostname=f"shop-vm-{name[-1]}",
            pid=self.chance.randint(900, 4000),
            start_time=self.ago(days=2, hours=3),
            heartbeat_time=self.now,
            # Long, because the pictures take their time; a node renews it all the while.
            lease_expiration_time=self.now + timedelta(seconds=30),
            threads=10,
            queue_size=100,
            queued_jobs=0,
            categories=["default", "mail"],
            deployments=["shop:2026.11.2", "shop:2026.11.1"],
            deployment_aware=True,
        )

    def _definitions(self) -> None:
        handlers = (CHARGE, MAIL, REMIND, STOCK, LABEL, EXPORT)
        for name in handlers:
            category = self._columns(0, name)["category"]
            JobDefinition.objects.create(id=name, handler_type=name, category=category, retry_plan=PLAN)
        JobDefinition.objects.filter(pk=CHARGE).update(overriding_priority=10, overriding_since=self.ago(minutes=20))
        for version, days in (("2026.11.1", 12), ("2026.11.2", 2)):
            deployment = Deployment.objects.create(
                id=f"shop:{version}", name="shop", version=version, deploy_time=self.ago(days=days), handlers=handlers
            )
            for node in self.nodes:
                DeploymentRegistration.objects.create(deployment=deployment, node_name=node.name)

    def _traffic(self) -> None:
        """An hour of meters: the failures begin a quarter of an hour ago."""
        for minute in range(60, 0, -1):
            failed = self.chance.randint(5, 11) if minute <= 14 else int(self.chance.random() < 0.1)
            succeeded = self.chance.randint(85, 130) - 4 * failed
            slow = failed + self.chance.randint(1, 4)
            counts = {
                (meters.JOB_SUCCESSFUL, MAIL): succeeded,
                (meters.JOB_FAILED, CHARGE): failed,
                (meters.JOB_WAIT_TIME, "16"): succeeded,
                (meters.JOB_WAIT_TIME, "64"): 20 + slow,
                (meters.JOB_WAIT_TIME, "1024"): slow if minute <= 14 else 1,
                (meters.JOB_RUN_TIME, "64"): succeeded,
                (meters.JOB_RUN_TIME, "256"): 3 * slow,
                (meters.JOB_RUN_TIME, "32768"): failed,
            }
            runs = {
                (MAIL, "mail", "acme"): self._runs(
                    ("64", succeeded),
                ),
                (CHARGE, "default", "globex"): self._runs(("256", 20 + 3 * slow), ("1024", slow), failed=failed),
                (STOCK, "default", "acme"): self._runs(("16", 30 + slow)),
            }
            counts |= {(meters.JOB_SUCCESSFUL, CHARGE): 20 + 4 * slow, (meters.JOB_SUCCESSFUL, STOCK): 30 + slow}
            waiting = round(12 * (15 - minute) / 14) if minute <= 14 else self.chance.randint(0, 2)
            counts |= {(meters.JOB_BACKLOG, "default"): waiting, (meters.JOB_BACKLOG_SAMPLES, ""): 1}
            counts |= subjects.counts_of_subjects(runs)
            meters.flush_meters("default", f"worker-{minute % 3 + 1}", counts, self.ago(minutes=minute, seconds=-20))

    def _runs(self, *buckets: tuple[str, int], failed: int = 0) -> list[int]:
        counts = dict(buckets)
        return [*(counts.get(key, 0) for key in KEYS), failed]

    def _running(self) -> None:
        """What the nodes report as running, and how far it is."""
        for node in self.nodes:
            jobs = Job.objects.filter(lock_owner=node.lock_owner).order_by("pk")
            node.running = [
                {
                    "job": str(job.pk),
                    "handler": job.handler_type,
                    "category": job.category,
                    "since": self.ago(seconds=340 / (1 + at) ** 2).isoformat(),
                    "thread": f"jobexec-worker_{at}",
                }
                for at, job in enumerate(jobs)
            ]
            node.busy_threads = len(jobs)
            node.save()
            for job in jobs[:1]:
                done = self.chance.randint(200, 1100)
                JobProgress.objects.create(job_id=job.pk, attempt=1, done=done, total=1200, update_time=self.now)

    def _instance(self) -> None:
        """An order with a history: three jobs, one of which fails, is requeued, and fails again."""
        columns = {"process_instance_id": INSTANCE, "tenant_id": "acme"}
        start = self.ago(minutes=49)
        done = (
            (STOCK, LogState.SUCCESSFUL, 0, 4.2),
            (MAIL, LogState.SUCCESSFUL, 5, 1.4),
            (LABEL, LogState.SUCCESSFUL, 9, 11.0),
        )
        for at, (handler, state, seconds, took) in enumerate(done):
            job = Job(**self._columns(300 + at, handler, **columns))
            self._log(job, state, start + timedelta(seconds=seconds + took), 1, took)
        dead = DeadLetterJob.objects.filter(handler_type=CHARGE).order_by("pk").first()
        assert dead is not None
        for table in (DeadLetterJob, JobLog, Incident):
            column = "pk" if table is DeadLetterJob else "job_id"
            table.objects.filter(**{column: dead.pk}).update(**columns)
        self._make(TimerJob, 48213, REMIND, type="timer", due_date=self.now + timedelta(days=3), **columns)
        held = Job.objects.filter(lock_owner=self.nodes[0].lock_owner).order_by("pk").first()
        assert held is not None
        Job.objects.filter(pk=held.pk).update(**columns)

    def _waiting(self) -> None:
        for number in range(100, 112):
            self._make(Job, number, self.chance.choice((STOCK, MAIL)), seconds=number % 5)
        for number, node in enumerate(self.nodes * 3, 112):
            held = {"lock_owner": node.lock_owner, "lock_expiration_time": self.now + timedelta(minutes=5)}
            job = self._make(Job, number, self.chance.choice((STOCK, LABEL)), seconds=8, **held)
            ExclusiveLock.objects.create(
                process_instance_id=job.process_instance_id, lock_owner=node.lock_owner, acquisition=uuid7()
            )
        for number in range(130, 148):
            due = self.now + timedelta(hours=2 + 3 * (number - 130))
            self._make(TimerJob, number, REMIND, type="timer", due_date=due)
        for number in range(148, 155):
            retry = {"due_date": self.now + timedelta(minutes=number - 147), "attempts": 1, "retries": 2}
            self._make(TimerJob, number, CHARGE, exception_message=TIMEOUT, exception_stack=STACKS[TIMEOUT], **retry)
        for number in range(155, 161):
            self._make(SuspendedJob, number, EXPORT, tenant_id="initech")
        HistoryJob.objects.create(
            **self._columns(170, "jobexec.history", type="history", due_date=self.now + timedelta(minutes=1))
        )

    def _make(self, table: Any, number: int, handler: str, seconds: float = 0, **columns: Any) -> Any:
        created = self.ago(seconds=seconds + self.chance.random())
        rank = int(created.timestamp() * 1000)
        return table.objects.create(**self._columns(number, handler, create_time=created, rank=rank, **columns))

    def _dead_letter(self, number: int, handler: str, message: str) -> DeadLetterJob:
        died = self.ago(minutes=13 - number / 2.5, seconds=self.chance.random() * 20)
        failed = {"exception_message": message, "exception_stack": STACKS[message]}
        columns = self._columns(number, handler, create_time=died - timedelta(minutes=11, seconds=40), **failed)
        more = {"retries": 0, "attempts": 3, "died_at": died, "fingerprint": FINGERPRINTS[message]}
        job = DeadLetterJob.objects.create(**columns, **more)
        for attempt, minutes in ((1, 11.5), (2, 10.3), (3, 0)):
            self._log(job, LogState.FAILED, died - timedelta(minutes=minutes), attempt, 30.02, **failed)
        kept = ("job_definition_id", "handler_type", "category", "process_instance_id", "tenant_id", "deployment_id")
        Incident.objects.create(
            timestamp=died,
            job_id=job.pk,
            fingerprint=FINGERPRINTS[message],
            message=message,
            annotation="Waiting for pay.example, ticket 2207." if number == 22 else "",
            **{name: columns[name] for name in kept},
        )
        return job

    def _log(self, job: Any, state: str, time: Any, attempt: int, duration: float, **columns: Any) -> None:
        kept = ("handler_type", "job_definition_id", "category", "process_instance_id", "tenant_id", "deployment_id")
        JobLog.objects.create(
            timestamp=time,
            state=state,
            job_id=job.pk,
            attempt=attempt,
            retries=3 - attempt if state == LogState.FAILED else 3,
            node=self.chance.choice(self.nodes).name,
            wait=round(self.chance.uniform(0.004, 0.06), 3),
            duration=duration,
            **{name: getattr(job, name) for name in kept},
            **columns,
        )

    def _success(self, number: int) -> None:
        handler = self.chance.choice((CHARGE, MAIL, STOCK, LABEL))
        done = Job(**self._columns(200 + number, handler))
        time = self.ago(seconds=2 * number + self.chance.random())
        self._log(done, LogState.SUCCESSFUL, time, 1, round(self.chance.uniform(0.02, 0.4), 3))

    def _group(self, message: str) -> FailureGroup:
        dead = DeadLetterJob.objects.filter(fingerprint=FINGERPRINTS[message]).latest("died_at")
        return FailureGroup.objects.create(
            fingerprint=FINGERPRINTS[message],
            handler_type=dead.handler_type,
            exception=STACKS[message].splitlines()[-1].split(":")[0],
            message=message,
            job_id=dead.pk,
            first_time=self.ago(minutes=14) if message == TIMEOUT else self.ago(days=3),
            last_time=dead.died_at,
            count=126 if message == TIMEOUT else 12,
        )

    def _batch(self) -> Batch:
        """A running one, and one that is over."""
        wrong = DeadLetterJob.objects.filter(handler_type=LABEL, tenant_id="acme")
        over = {"state": BatchState.COMPLETED, "end_time": self.ago(days=1, minutes=-2), "changed": 1204, "skipped": 3}
        Batch.objects.create(
            type="requeue",
            arguments={"retries": 3},
            selection=describe(wrong),
            create_user="maria",
            create_time=self.ago(days=1),
            total=1207,
            parts=13,
            **over,
        )
        batch = Batch.objects.create(
            type="set_priority",
            arguments={"priority": 5},
            selection=describe(TimerJob.objects.filter(handler_type=REMIND)),
            state=BatchState.RUNNING,
            create_user="maria",
            create_time=self.ago(minutes=2),
            total=8000,
            parts=80,
        )
        for number in range(80):
            done = {"changed": 100, "end_time": self.ago(seconds=80 - number)} if number < 57 else {}
            BatchPart.objects.create(batch=batch, job_id=uuid7(), size=100, **done)
        enqueue_own("default", batch, MONITOR, due_date=self.now + timedelta(minutes=1))
        AuditLog.objects.create(
            timestamp=batch.create_time,
            operator_type=OperatorType.USER,
            operator="maria",
            via="admin",
            verb="start_batch",
            object_type="batch",
            object_id=str(batch.pk),
            new_value={"operation": "set_priority", "priority": 5},
        )
        return batch
