# mypy: ignore-errors
"""A worker made with camunda-orchestration-sdk: what it does with a job says the job's variable `do`."""

import asyncio

from camunda_orchestration_sdk import CamundaAsyncClient, WorkerConfig
from camunda_orchestration_sdk.runtime.job_worker import JobError, JobFailure


async def handle(job):
    variables = job.variables.to_dict()
    print("job", job.job_key, sorted(variables), flush=True)
    if variables["do"] == "error":
        raise JobError("NO_MONEY", "sorry", {"missing": 7})
    if variables["do"] == "fail" and job.retries == 3:
        raise JobFailure("not yet", retries=2, retry_back_off=200)
    if variables["do"] == "give up":
        raise JobFailure("never", retries=0)
    return {"answer": variables["n"] * 2}


async def main():
    async with CamundaAsyncClient() as client:
        config = WorkerConfig(
            job_type="pay", worker_name="python", job_timeout_milliseconds=60_000, fetch_variables=["do", "n"]
        )
        client.create_job_worker(config, handle)
        print("started", flush=True)
        await client.run_workers()


asyncio.run(main())
