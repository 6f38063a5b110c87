"""The services without authentication, health and reflection: limited to small messages and a few at a time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeAlias

import grpc
from grpc import aio

from jobexec.exceptions import JobExecError
from jobexec.gateways.auth import address_of
from jobexec.gateways.long_polling import Overloaded, Shares

from .codes import status_of
from .messages import NOTHING, parsing

#: The maximum number of open calls, including those that watch the health.
CALLS = 500
#: The maximum number of messages being received; gRPC reveals the size of a message only after its arrival.
MESSAGES = 4
_MOST_BYTES = 16 * 1024
_PATIENCE = 5.0  # seconds to wait for a message
_TURN = 0.2  # seconds to wait for other reads before one of them has to give way

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Handlers: TypeAlias = "grpc.GenericRpcHandler[Any, Any]"
Behaviour = Callable[[Any, Any], Any]


class OpenServices:
    """Add these services here instead of to the server. A single address cannot take all places."""

    def __init__(self, server: aio.Server) -> None:
        self._server = server
        self._calls, self._receiving = Shares(CALLS), Receiving()

    def add_generic_rpc_handlers(self, handlers: tuple[Handlers, ...]) -> None:
        self._server.add_generic_rpc_handlers(tuple(_Limited(each, self._limited) for each in handlers))

    def add_registered_method_handlers(self, service: str, handlers: object) -> None:
        """Do nothing: these are the same handlers again."""

    def _limited(self, handler: Any) -> Handler:
        """Wrap a handler with limits. It is declared as streaming, so that gRPC receives a request only on demand."""
        make = (
            grpc.stream_stream_rpc_method_handler
            if handler.response_streaming
            else grpc.stream_unary_rpc_method_handler
        )
        behaviour = self._answers(handler) if handler.request_streaming else self._answer(handler)
        return make(behaviour, response_serializer=handler.response_serializer)

    def _answer(self, handler: Any) -> Behaviour:
        async def behaviour(_messages: object, context: Any) -> Any:
            try:
                with self._calls.place(address_of(context.peer())):
                    async for message in self._received(handler, context):
                        return await (handler.unary_unary or handler.unary_stream)(message, context)
            except JobExecError as error:
                await context.abort(*status_of(error))
            raise asyncio.CancelledError("The client has sent no message.")

        return behaviour

    def _answers(self, handler: Any) -> Behaviour:
        async def behaviour(_messages: object, context: Any) -> AsyncIterator[Any]:
            try:
                with self._calls.place(address_of(context.peer())):
                    async for answer in handler.stream_stream(self._received(handler, context), context):
                        yield answer
            except JobExecError as error:
                await context.abort(*status_of(error))

        return behaviour

    async def _received(self, handler: Any, context: Any) -> AsyncIterator[Any]:
        """Yield the messages of a call; stop when none arrives for a while. Raises Overloaded and BadRequest."""
        while True:
            message = await self._receiving.message(context)
            if message is NOTHING:
                return
            if (size := len(message)) > _MOST_BYTES:
                del message  # the error's traceback would keep it in memory
                raise Overloaded(f"The message: expected at most {_MOST_BYTES} bytes, got {size}.")
            with parsing():
                request = handler.request_deserializer(message)
            yield request


class Receiving:
    """Receives messages, :data:`MESSAGES` at a time.

    A call that sends none gives way to others, first of all those of the address with the most places. So silent calls
    cannot block a caller that does send a message.
    """

    def __init__(self) -> None:
        self._reads: dict[asyncio.Future[Any], str] = {}

    async def message(self, context: Any) -> Any:
        """The next message, or NOTHING if none arrives for a while. Raises Overloaded if the call had to give way."""
        await self._room()
        read = asyncio.ensure_future(context.read())
        self._reads[read] = address_of(context.peer())
        try:
            await asyncio.wait((read,), timeout=_PATIENCE)
        finally:
            gave_way = self._reads.pop(read, None) is None
            read.cancel()
        if gave_way and read.cancelled():
            raise Overloaded("Too many messages at once, and this one did not arrive in time; try again in a moment.")
        return read.result() if read.done() else NOTHING

    async def _room(self) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + _TURN
        while len(self._reads) >= MESSAGES:
            left = until - loop.time()
            if left > 0:
                await asyncio.wait(self._reads, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            else:
                self._give_way()

    def _give_way(self) -> None:
        places = Counter(self._reads.values())
        longest = max(self._reads, key=lambda read: places[self._reads[read]])  # the oldest if several are equal
        del self._reads[longest]
        longest.cancel()


class _Limited(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    """The handlers of a service, each wrapped by ``around``."""

    def __init__(self, handlers: Handlers, around: Callable[[Any], Handler]) -> None:
        self._handlers, self._around = handlers, around

    def service(self, details: grpc.HandlerCallDetails) -> Handler | None:
        found = self._handlers.service(details)
        return None if found is None else self._around(found)
