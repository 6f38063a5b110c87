"""The gateway over gRPC: the protocol of Zeebe's job workers. Needs the extra ``grpc``.

Read ``gateway.proto`` first: it is the interface. Then from the outside in:

===================  ======================================================================
``gateway``          a gateway: its thread, its port, its end
``service``          the calls of the interface, and what each asks of its client
``polls``, ``feeds`` what ActivateJobs and StreamActivatedJobs do until there is a job
``commands``         what workers say about a job
``call_context``            threads in which the database is asked, who is asking, giving back
``requests``         from messages to values, ``messages`` from values to messages
``codes``            which error is which status
===================  ======================================================================

``gateway_pb2`` and ``gateway_pb2_grpc`` are made by ``tests/support/grpc_code.py``.
"""
