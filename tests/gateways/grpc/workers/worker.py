"""A worker with pyzeebe: python worker.py ADDRESS TYPE NAME TIMEOUT_MS stream|poll JOBS_AT_A_TIME

It does what the variable "act" of each job says, and writes a line at the beginning and at the end of each.
"""

import asyncio
import logging
import os
import sys
import time
from pathlib import Path

import grpc
from pyzeebe import Job, JobController, ZeebeWorker, create_insecure_channel, create_secure_channel
from pyzeebe.errors import BusinessError

address, task_type, name, timeout, mode = sys.argv[1:6]
most = int(sys.argv[6])
logging.basicConfig(stream=sys.stdout, level=logging.WARNING)


async def on_error(error: Exception, job: Job, controller: JobController) -> None:
    if isinstance(error, BusinessError):
        await controller.set_error_status("no money", error_code=error.error_code)
    else:
        await controller.set_failure_status(str(error), retry_back_off_ms=int(job.custom_headers.get("back_off", 0)))


def channel():
    if "CA" not in os.environ:
        return create_insecure_channel(grpc_address=address)
    files = [Path(os.environ[name]).read_bytes() for name in ("CA", "KEY", "CERTIFICATE")]
    return create_secure_channel(grpc_address=address, channel_credentials=grpc.ssl_channel_credentials(*files))


async def main() -> None:
    worker = ZeebeWorker(channel(), name=name, stream_enabled=mode == "stream")

    @worker.task(
        task_type=task_type,
        exception_handler=on_error,
        timeout_ms=int(timeout),
        max_jobs_to_activate=32,
        max_running_jobs=most,
    )
    async def work(job: Job, act: str = "complete") -> dict:  # what it fetches are the names of its parameters
        print("begun", job.key, time.time(), flush=True)
        if act == "error":
            raise BusinessError("no-money")
        if act == "fail" or (act == "fail_once" and job.retries == 1):
            raise RuntimeError("no luck")
        if act == "late":
            while not Path(job.custom_headers["until"]).exists():
                await asyncio.sleep(0.05)
        print("ended", job.key, time.time(), flush=True)
        return {"by": name, "seen": sorted(job.variables)}

    print("works", flush=True)
    await worker.work()


asyncio.run(main())
