"""With pyzeebe: python zeebe.py ADDRESS FILE. Deploys a process, works for it, starts it and cancels another.

Prints the variables of the end, and the name of the error for a process that is not there.
"""

import asyncio
import json
import sys

from pyzeebe import ZeebeClient, ZeebeWorker, create_insecure_channel


async def main(address: str, file: str) -> None:
    channel = create_insecure_channel(grpc_address=address)
    client, worker = ZeebeClient(channel), ZeebeWorker(channel, name="python")

    @worker.task(task_type="payment")
    async def pay(amount: int) -> dict:
        return {"paid": amount * 2}

    working = asyncio.create_task(worker.work())
    deployed = await client.deploy_resource(file)
    assert deployed.deployments[0].bpmn_process_id == "order", deployed
    other = await client.run_process("order", {"amount": 0}, version=deployed.deployments[0].version)
    await client.cancel_process_instance(other.process_instance_key)
    await client.broadcast_signal("nobody")
    ended = await client.run_process_with_result("order", {"amount": 5}, timeout=60_000, variables_to_fetch=["paid"])
    print(json.dumps(ended.variables), flush=True)
    try:
        await client.run_process("nobody")
    except Exception as error:
        print(type(error).__name__, flush=True)
    await worker.stop()
    working.cancel()


asyncio.run(main(*sys.argv[1:]))
