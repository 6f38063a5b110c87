"""A gateway over gRPC in this process, on the test's database, and a plain client of it."""

import threading
from contextlib import suppress

import grpc

from jobexec import external_job, external_jobs
from jobexec.gateways import long_polling
from jobexec.gateways.grpc import gateway_pb2 as pb
from jobexec.gateways.grpc.gateway import GrpcGateway
from jobexec.gateways.grpc.gateway_pb2_grpc import GatewayStub
from jobexec.gateways.grpc.options import Options
from jobexec.models import DeadLetterJob, ExternalWorkerJob, Incident
from tests.support.waiting import threads, until

TIMEOUT = 60_000  # milliseconds for which jobs are locked


class Client:
    """What a worker can say, in short: `client.activate("payment")`; errors are `grpc.RpcError`."""

    def __init__(self, port, credentials=None, metadata=(), host="127.0.0.1", options=()):
        target = f"{host}:{port}"
        options = [("grpc.use_local_subchannel_pool", 1), *options]  # no connection in common with others
        if credentials is None:
            self.channel = grpc.insecure_channel(target, options)
        else:
            self.channel = grpc.secure_channel(target, credentials, options)
        self.stub, self.metadata = GatewayStub(self.channel), metadata

    def poll(self, type, most=1, wait=-1, timeout=TIMEOUT, deadline=60, **fields):
        """An open call of ActivateJobs."""
        fields = {"worker": "w", **fields}
        request = pb.ActivateJobsRequest(
            type=type, timeout=timeout, maxJobsToActivate=most, requestTimeout=wait, **fields
        )
        return self.stub.ActivateJobs(request, timeout=deadline, metadata=self.metadata)

    def activate(self, type, most=1, wait=-1, **fields):
        """The jobs of one call."""
        return [job for answer in self.poll(type, most, wait, **fields) for job in answer.jobs]

    def stream(self, type, timeout=TIMEOUT, deadline=None, **fields):
        fields = {"worker": "w", **fields}
        request = pb.StreamActivatedJobsRequest(type=type, timeout=timeout, **fields)
        return self.stub.StreamActivatedJobs(request, timeout=deadline, metadata=self.metadata)

    def __getattr__(self, name):
        """`client.CompleteJob(jobKey=7)`"""
        method = getattr(self.stub, name)
        kind = getattr(pb, f"{name}Request")
        return lambda **fields: method(kind(**fields), timeout=60, metadata=self.metadata)

    def close(self):
        self.channel.close()


class Streamed:
    """Reads a stream in a thread; `jobs` are those so far, `code` how it has ended."""

    def __init__(self, call):
        self.call, self.jobs, self.code = call, [], None
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        try:
            for job in self.call:
                self.jobs.append(job)
            self.code = grpc.StatusCode.OK
        except grpc.RpcError as error:
            self.code = error.code()

    def ended(self):
        until(lambda: self.code is not None)
        return self.code


class Bed:
    """The gateway of a test. `make` makes jobs, `keys` are those that wait or are held."""

    def __init__(self, alias, options):
        self.alias, self.options = alias, options
        self.gateway = GrpcGateway(Options(using=alias, **options))
        self.gateway.start()
        self.port = self.gateway.port
        self.clients = []
        self.client = self.another()

    def another(self, **options):
        client = Client(self.port, **options)
        self.clients.append(client)
        return client

    def make(self, type="payment", **options):
        return external_job(type, database=self.alias, **options)

    def make_many(self, type, variables, **options):
        return external_jobs(type, variables, database=self.alias, **options)

    def rows(self, **lookup):
        return ExternalWorkerJob.objects.using(self.alias).filter(**lookup)

    def row(self, key):
        return self.rows().get(job_key=key)

    def dead(self):
        return DeadLetterJob.objects.using(self.alias).all()

    def incidents(self):
        return Incident.objects.using(self.alias).all()

    def held(self):
        return self.rows(lock_owner__isnull=False, lock_expiration_time__isnull=False).count()

    def waiting(self, number):
        """Wait until so many calls wait in the queue."""
        until(lambda: long_polling.of(self.alias).queue.count() >= number)

    def close(self):
        for client in self.clients:
            with suppress(grpc.RpcError):
                client.close()
        self.gateway.stop()
        long_polling.close_all()
        until(lambda: not threads("jobexec-grpc"))  # and with them their connections
