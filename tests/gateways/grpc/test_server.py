"""What a gateway is besides its calls: health, reflection, TLS, who is let in, the code made of the .proto."""

import json

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from jobexec.gateways.grpc import gateway_pb2 as pb
from jobexec.gateways.grpc.options import Options
from jobexec.operations.manage.gateway_clients import create_client
from tests.support import grpc_code

Code = grpc.StatusCode


def code_of(call, **fields):
    with pytest.raises(grpc.RpcError) as caught:
        call(**fields)
    return caught.value.code()


@pytest.mark.gate
@pytest.mark.transactional
@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("name", ["", "gateway_protocol.Gateway"])
def test_health(gateway, name):
    stub = health_pb2_grpc.HealthStub(gateway.client.channel)
    request = health_pb2.HealthCheckRequest(service=name)
    assert stub.Check(request, timeout=60).status == health_pb2.HealthCheckResponse.SERVING
    watching = iter(stub.Watch(request, timeout=60))
    assert next(watching).status == health_pb2.HealthCheckResponse.SERVING
    gateway.gateway.stop()  # does not wait for who watches
    assert next(watching).status == health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.mark.transactional
@pytest.mark.databases("sqlite")
def test_reflection_shows_the_interface(gateway):
    stub = reflection_pb2_grpc.ServerReflectionStub(gateway.client.channel)
    requests = [
        reflection_pb2.ServerReflectionRequest(list_services=""),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol="gateway_protocol.Gateway"),
    ]
    services, file = stub.ServerReflectionInfo(iter(requests), timeout=60)
    assert "gateway_protocol.Gateway" in [each.name for each in services.list_services_response.service]
    assert file.file_descriptor_response.file_descriptor_proto == [pb.DESCRIPTOR.serialized_pb]


@pytest.mark.transactional
class TestAccess:
    @pytest.fixture
    def keys(self, alias):
        return {"GATEWAY_AUTH": "required", "GATEWAY_DATABASE": alias}

    def worker(self, gateway, **fields):
        _, secret = create_client(gateway.alias, name="shop", **fields)
        return gateway.another(metadata=(("authorization", f"Bearer {secret}"),))

    @pytest.mark.databases("sqlite", "postgresql")
    @pytest.mark.parametrize("given", [(), (("authorization", ""),), (("authorization", "Bearer guessed"),)])
    def test_without_credentials_nobody_gets_in(self, gateway, given):
        gateway.make("payment")
        client = gateway.another(metadata=given)
        assert code_of(lambda: client.activate("payment")) == Code.UNAUTHENTICATED
        assert code_of(lambda: list(client.stream("payment"))) == Code.UNAUTHENTICATED
        for name in ("CompleteJob", "FailJob", "ThrowError", "UpdateJobRetries", "UpdateJobTimeout"):
            assert code_of(getattr(client, name), jobKey=1) == Code.UNAUTHENTICATED
        assert code_of(client.UpdateJobPriority, jobKey=1, priority=1) == Code.UNAUTHENTICATED
        assert code_of(client.ResolveIncident, incidentKey=1) == Code.UNAUTHENTICATED
        assert code_of(client.Topology) == Code.UNAUTHENTICATED

    @pytest.mark.databases("sqlite")
    def test_a_client_gets_what_is_its_own(self, gateway):
        ours, theirs = gateway.make("payment", tenant_id="acme"), gateway.make("payment", tenant_id="other")
        client = self.worker(gateway, types=["payment"], tenants=["acme"])
        assert [job.key for job in client.activate("payment", 9)] == [ours.job_key]
        assert code_of(lambda: client.activate("mail")) == Code.PERMISSION_DENIED
        assert code_of(lambda: client.activate("payment", tenantIds=["other"])) == Code.PERMISSION_DENIED
        assert code_of(client.CompleteJob, jobKey=theirs.job_key) == Code.NOT_FOUND
        client.CompleteJob(jobKey=ours.job_key)
        assert code_of(client.UpdateJobRetries, jobKey=ours.job_key, retries=1) == Code.PERMISSION_DENIED
        assert code_of(client.ResolveIncident, incidentKey=1) == Code.PERMISSION_DENIED

    @pytest.mark.databases("sqlite")
    def test_too_many_requests_are_told_to_pause_but_may_hand_in(self, gateway, no_refill):
        made = gateway.make("payment")
        client = self.worker(gateway, max_requests_per_second=1)
        assert len(client.activate("payment")) == 1
        assert code_of(lambda: client.activate("payment")) == Code.RESOURCE_EXHAUSTED
        client.CompleteJob(jobKey=made.job_key)


@pytest.mark.transactional
@pytest.mark.databases("sqlite")
class TestTls:
    @pytest.fixture
    def options(self, authority):
        certificate, key = authority.issue("localhost")
        return {"tls_cert": certificate, "tls_key": key}

    def test_connections_are_encrypted(self, gateway, authority):
        gateway.make("payment")
        credentials = grpc.ssl_channel_credentials(authority.ca.read_bytes())
        client = gateway.another(credentials=credentials, host="localhost")
        assert len(client.activate("payment")) == 1
        assert code_of(gateway.client.Topology) == Code.UNAVAILABLE  # it speaks no TLS


@pytest.mark.transactional
@pytest.mark.databases("sqlite")
class TestClientCertificates:
    @pytest.fixture
    def keys(self, alias):
        return {"GATEWAY_AUTH": "required", "GATEWAY_DATABASE": alias}

    @pytest.fixture
    def options(self, authority):
        certificate, key = authority.issue("localhost")
        return {"tls_cert": certificate, "tls_key": key, "client_ca": authority.ca}

    def connect(self, gateway, authority, name):
        certificate, key = (file.read_bytes() for file in authority.issue(name))
        credentials = grpc.ssl_channel_credentials(authority.ca.read_bytes(), key, certificate)
        return gateway.another(credentials=credentials, host="localhost")

    @pytest.mark.gate
    def test_the_name_in_the_certificate_is_the_client(self, gateway, authority):
        create_client(gateway.alias, name="shop")
        made = gateway.make("payment")
        client = self.connect(gateway, authority, "shop")
        assert [job.key for job in client.activate("payment")] == [made.job_key]
        stranger = self.connect(gateway, authority, "stranger")
        assert code_of(stranger.Topology) == Code.UNAUTHENTICATED

    def test_without_a_certificate_there_is_no_connection(self, gateway, authority):
        credentials = grpc.ssl_channel_credentials(authority.ca.read_bytes())
        assert code_of(gateway.another(credentials=credentials, host="localhost").Topology) == Code.UNAVAILABLE


@pytest.mark.parametrize(
    ("address", "target"), [("127.0.0.1", "127.0.0.1:26500"), ("::", "[::]:26500"), ("0.0.0.0", "0.0.0.0:26500")]
)
def test_addresses_as_grpc_writes_them(address, target):
    assert Options(address=address).target == target


def test_the_code_is_what_the_proto_says(tmp_path):
    pytest.importorskip("grpc_tools", reason="grpcio-tools makes the code of the .proto")
    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

    (said,) = FileDescriptorSet.FromString(grpc_code.descriptor_set(str(tmp_path))).file
    made = FileDescriptorProto.FromString(pb.DESCRIPTOR.serialized_pb)
    for file in (said, made):
        file.ClearField("source_code_info")
        for message in file.message_type:  # newer compilers write down the name in JSON
            for field in message.field:
                field.ClearField("json_name")
    assert said == made


def test_a_client_for_zeebe_may_live_in_the_same_process():
    """Its messages have the same names, and one pool of descriptors refuses the second."""
    from google.protobuf import descriptor_pool
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    pool = descriptor_pool.Default()
    with pytest.raises(KeyError):
        pool.FindMessageTypeByName("gateway_protocol.ActivatedJob")
    theirs = FileDescriptorProto(name="theirs.proto", package="gateway_protocol.theirs")
    theirs.message_type.add(name="ActivatedJob")
    pool.AddSerializedFile(theirs.SerializeToString())


def test_numbers_of_the_interface():
    """A slip of the pen in the .proto would speak another language; these are the numbers that clients know."""
    fields = {field.name: field.number for field in pb.ActivatedJob.DESCRIPTOR.fields}
    assert json.dumps(fields, sort_keys=True) == json.dumps(
        {
            **dict(zip(NAMES, range(1, 15), strict=True)),
            "kind": 16,
            "listenerEventType": 17,
            "tags": 18,
            "jobLeaseToken": 21,
        },
        sort_keys=True,
    )
    stream = {field.name: field.number for field in pb.StreamActivatedJobsRequest.DESCRIPTOR.fields}
    assert stream == {"type": 1, "worker": 2, "timeout": 3, "fetchVariable": 5, "tenantIds": 6}


NAMES = (
    "key",
    "type",
    "processInstanceKey",
    "bpmnProcessId",
    "processDefinitionVersion",
    "processDefinitionKey",
    "elementId",
    "elementInstanceKey",
    "customHeaders",
    "worker",
    "retries",
    "deadline",
    "variables",
    "tenantId",
)
