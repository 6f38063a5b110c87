# mypy: ignore-errors
"""A worker with camunda-external-task-client-python3, told by its arguments: `url worker topics mode`.

It says a line of JSON for each task that it is given and for each thing that it does.
"""

import json
import sys
import time

from camunda.external_task.external_task_worker import ExternalTaskWorker

url, worker, topics, mode = sys.argv[1:5]
token = sys.argv[5] if len(sys.argv) > 5 else ""
CONFIG = {
    "maxTasks": 3,
    "lockDuration": 1000 if mode == "late" else 60_000,
    "asyncResponseTimeout": 20_000,
    "retries": 3,
    "retryTimeout": 0,
    "sleepSeconds": 1,
}
if token:
    CONFIG["auth_bearer"] = {"access_token": token}


def say(**values):
    print(json.dumps(values), flush=True)


def handle(task):
    say(
        got=task.get_task_id(),
        topic=task.get_topic_name(),
        variables=task.get_variables(),
        properties=task.get_extension_properties(),
        retries=task._context["retries"],
    )
    return globals()[mode](task)


def echo(task):
    """Back as they came, type and all."""
    back = {name: task.get_variable(name, with_meta=True) for name in task.get_variables()}
    return task.complete(back | {"answer": 42, "nested": {"a": [1, None]}, "yes": True})


def fail(task):
    return task.failure("Broken", "line 1\nline 2", max_retries=2, retry_timeout=0)


def bpmn_error(task):
    return task.bpmn_error("NO_MONEY", "Empty", {"missing": 7})


def late(task):
    sys.stdin.readline()  # until the test says that somebody else has it
    return task.complete({"by": worker})


client = ExternalTaskWorker(worker_id=worker, base_url=url, config=CONFIG)
say(ready=worker)
while True:
    try:
        client.fetch_and_execute(topics.split(","), handle)
        say(done=True)
    except Exception as error:
        if "no External Task found" not in str(error):
            say(error=str(error))
            time.sleep(0.2)
