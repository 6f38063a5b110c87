"""Django signals by which the job executor informs the rest of the project.

For metrics, notifications and logs: receivers run in the thread that did the work, so keep them short. They are sent
with ``send_robust``: an error in a receiver is logged and changes no job. Signals about jobs report what *was* written:
they are sent after the commit, so that a rolled back change is never announced, and once per change in this process
only (not in other nodes of the cluster). A crash between commit and signal loses the signal: work that must not be
missed belongs in a job. On PostgreSQL, queries in the threads that acquire and settle jobs avoid sequential scans,
also those of receivers.

Every signal has ``sender`` (for jobs: the model class of the row as it is now, or was last; for nodes: the ExecutorNode
model) and ``using`` (the alias of the database, str). ``jobs`` is a sequence of rows changed together, ``job`` is one
row. The rows are as this process wrote them; later changes of the row do not appear in them. (Own decision. Flowable's
counterpart are its event listeners, Camunda's its history events.)
"""

from __future__ import annotations

from django.dispatch import Signal

#: Jobs were created. Arguments: ``using``, ``jobs`` (rows of Job, TimerJob or ExternalWorkerJob; one call per table and
#: statement).
job_created = Signal()

#: Jobs were locked by a node of this process and wait for a thread. Arguments: ``using``, ``jobs``, ``node`` (the lock
#: owner, str).
job_acquired = Signal()

#: A job starts: its handler is called next. Arguments: ``using``, ``job`` (the AcquiredJob), ``context`` (its
#: JobContext). Sent by the thread that runs the handler, within an atomic job's transaction; for a handler on the event
#: loop, sync receivers are called in another thread. To keep a job from running, or to change what it returns, use
#: MIDDLEWARE.
job_started = Signal()

#: Jobs succeeded; their rows are gone. Arguments: ``using``, ``jobs``. A job that an external worker completed
#: (sender ExternalWorkerJob) may have become the job of its ``on_complete``, whose end sends this again (sender Job).
job_completed = Signal()

#: A job failed and will be retried: its row is a TimerJob with a due date. Arguments: ``using``, ``job``, ``error``
#: (the exception; WorkerLost for a lost run). A job failed by an external worker stays an ExternalWorkerJob, with
#: ``error`` WorkerFailed; one for which the worker threw an error that ``on_error`` catches is now the Job of that,
#: with ``error`` ErrorThrown. A step of a process that has failed for good and has a way for failures is
#: still the Job that it was, although its row is gone.
job_failed = Signal()

#: A job became a dead letter and waits for an operator. Arguments: ``using``, ``job`` (the DeadLetterJob row),
#: ``error`` (the exception of the last attempt).
job_dead_lettered = Signal()

#: A running job has used 80 per cent of its timeout. Arguments: ``using``, ``job`` (the AcquiredJob), ``context`` (its
#: JobContext). Sent by the thread that enforces timeouts.
job_timeout_near = Signal()

#: A job that a node has in hand was cancelled. Arguments: ``using``, ``job`` (its row). Nodes in other processes see it
#: within a second or two.
job_cancel_requested = Signal()

#: Jobs were cancelled and are gone. Arguments: ``using``, ``jobs``. A running one is cancelled when its run has ended.
job_cancelled = Signal()

#: A batch of jobs is over. Arguments: ``using``, ``batch`` (the row of Batch, whose ``state`` is "completed", "failed"
#: or "cancelled"). Sent again if the batch continues, because its failed jobs are retried, and then ends again.
batch_ended = Signal()

#: Jobs were suspended. Arguments: ``using``, ``jobs`` (rows of SuspendedJob).
job_suspended = Signal()

#: Suspended jobs were activated. Arguments: ``using``, ``jobs`` (rows of Job, TimerJob or ExternalWorkerJob).
job_activated = Signal()

#: Dead letters were given new retries. Arguments: ``using``, ``jobs`` (rows of Job, ExternalWorkerJob, SuspendedJob or
#: HistoryJob).
job_requeued = Signal()

#: The circuit breaker of a resource has changed, for the whole cluster. Arguments: ``using``, ``name`` (of the
#: resource) and ``state`` ("open" or "closed"). Sent by the process that changed it; the sender is the model Resource.
breaker_changed = Signal()

#: This process has registered a node. Arguments: ``using``, ``node`` (the ExecutorNode row).
node_started = Signal()

#: A node of this process has stopped gracefully. Arguments: ``using``, ``node`` (the ExecutorNode row, now deleted).
node_stopped = Signal()

#: A node, of any process, was declared dead here: its lease had expired. Arguments: ``using``, ``node`` (the
#: ExecutorNode row). Its jobs are unlocked right after.
node_lost = Signal()
