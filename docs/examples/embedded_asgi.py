"""asgi.py of "Embed an executor"."""

import asyncio

from django.core.asgi import get_asgi_application

django = get_asgi_application()

from docs.examples import embedded  # noqa: E402 - after the set-up; in a project: from shop import embedded


async def application(scope, receive, send):
    if scope["type"] != "lifespan":
        return await django(scope, receive, send)
    await receive()
    await asyncio.to_thread(embedded.start)
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await asyncio.to_thread(embedded.stop)
    await send({"type": "lifespan.shutdown.complete"})
