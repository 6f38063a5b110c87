"""Publish a message with pyzeebe twice, the second time with its id: python publish.py ADDRESS NAME KEY ID

Prints the key of the message, and the name of the second call's error.
"""

import asyncio
import sys

from pyzeebe import ZeebeClient, create_insecure_channel


async def main(address: str, name: str, key: str, id: str) -> None:
    client = ZeebeClient(create_insecure_channel(grpc_address=address))
    given = {"variables": {"by": "ann"}, "time_to_live_in_milliseconds": 60_000, "message_id": id}
    print((await client.publish_message(name, key, **given)).key)
    try:
        await client.publish_message(name, key, **given)
    except Exception as error:
        print(type(error).__name__)


asyncio.run(main(*sys.argv[1:]))
