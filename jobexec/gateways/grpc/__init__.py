"""The gRPC gateway: the protocol of Zeebe's job workers. Needs the extra ``grpc``.

Read ``gateway.proto`` first: it defines the interface. Then from the outside in:

===================  ======================================================================
``gateway``          a gateway: its thread, its port, its shutdown
``service``          the calls of the interface, and the permission that each needs
``polls``            ActivateJobs: wait for a job
``stream_dispatch``  StreamActivatedJobs: distribute jobs among the open streams
``commands``         what workers report about a job
``call_context``     database threads, authentication, giving back jobs
``requests``         from messages to values, ``messages`` from values to messages
``codes``            the status code for each error
===================  ======================================================================

``tests/support/grpc_code.py`` generates ``gateway_pb2`` and ``gateway_pb2_grpc``.
"""
