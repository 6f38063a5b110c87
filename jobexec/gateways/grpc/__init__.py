"""The gateway over gRPC: the protocol of Zeebe's job workers. Needs the extra ``grpc``."""
