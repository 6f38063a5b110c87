# mypy: ignore-errors
"""With camunda-orchestration-sdk: python rest.py FILE. Deploys a process, works for it, starts it, completes a task.

Prints the variables of the end, the state of a cancelled instance, and the name of a user task.
"""

import json
import sys
import threading
import time

from camunda_orchestration_sdk import CamundaClient
from camunda_orchestration_sdk.models import (
    CancelProcessInstanceRequest,
    JobActivationRequest,
    JobCompletionRequest,
    ProcessCreationById,
    SetVariableRequest,
    SignalBroadcastRequest,
    UserTaskAssignmentRequest,
    UserTaskCompletionRequest,
)

order, approval = sys.argv[1:]


def work():
    with CamundaClient() as client:
        asked = JobActivationRequest(type_="payment", timeout=60_000, max_jobs_to_activate=1, request_timeout=60_000)
        while not (jobs := client.activate_jobs(data=asked).jobs):
            time.sleep(0.1)
        client.complete_job(jobs[0].job_key, data=JobCompletionRequest.from_dict({"variables": {"paid": 10}}))


with CamundaClient() as client:
    deployed = client.deploy_resources_from_files([order, approval])
    assert [each.process_definition_id for each in deployed.processes] == ["order", "approval"], deployed
    found = client.search_process_definitions().items[0]
    assert client.get_process_definition(found.process_definition_key) == found
    assert "process" in client.get_process_definition_xml(found.process_definition_key)
    waiting = client.create_process_instance(data=ProcessCreationById(process_definition_id="approval"))
    client.create_element_instance_variables(
        waiting.process_instance_key, data=SetVariableRequest.from_dict({"variables": {"a": 1}})
    )
    (variable,) = client.search_variables().items
    assert (variable.name, variable.value) == ("a", "1"), variable
    (task,) = client.search_user_tasks().items
    assert client.get_user_task(task.user_task_key) == task
    client.assign_user_task(task.user_task_key, data=UserTaskAssignmentRequest(assignee="bob"))
    client.complete_user_task(task.user_task_key, data=UserTaskCompletionRequest())
    print(client.get_process_instance(waiting.process_instance_key).state.value, flush=True)
    other = client.create_process_instance(data=ProcessCreationById(process_definition_id="approval"))
    client.cancel_process_instance(other.process_instance_key, data=CancelProcessInstanceRequest())
    states = {each.process_instance_key: each.state.value for each in client.search_process_instances().items}
    print(states[other.process_instance_key], flush=True)
    client.broadcast_signal(data=SignalBroadcastRequest(signal_name="nobody"))
    threading.Thread(target=work).start()
    given = ProcessCreationById(process_definition_id="order", await_completion=True, request_timeout=60_000)
    ended = client.create_process_instance(data=given)
    print(json.dumps(ended.variables.to_dict()), flush=True)
