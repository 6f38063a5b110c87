# mypy: ignore-errors
"""An async worker with camunda-external-task-client-python3: `url worker topics`."""

import asyncio
import json
import sys

from camunda.external_task.async_external_task_worker import AsyncExternalTaskWorker

url, worker, topics = sys.argv[1:4]
CONFIG = {
    "maxConcurrentTasks": 4,
    "lockDuration": 60_000,
    "asyncResponseTimeout": 20_000,
    "retryTimeout": 0,
    "retries": 2,
}


def say(**values):
    print(json.dumps(values), flush=True)


async def handle(task):
    say(got=task.get_task_id(), topic=task.get_topic_name(), retries=task._context["retries"])
    if task.get_variable("fail") and not task._context["retries"]:
        raise RuntimeError("the first time it fails")
    return task.complete({"by": worker}, {"local": 1})


async def main():
    say(ready=worker)
    await AsyncExternalTaskWorker(worker_id=worker, base_url=url, config=CONFIG).subscribe(
        dict.fromkeys(topics.split(","), handle)
    )


asyncio.run(main())
