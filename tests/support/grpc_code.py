"""Makes the Python modules of the gRPC gateway out of its .proto: ``python -m tests.support.grpc_code``.

It needs grpcio-tools, and an old one: what 1.62 makes is loaded by every protobuf from 4.25 on, whereas what a newer
one makes refuses a protobuf that is two major versions younger, and a grpcio that is older. So make it in an
environment of its own::

    python3.12 -m venv /tmp/tools && /tmp/tools/bin/pip install "grpcio-tools==1.62.3" "setuptools<81"
    /tmp/tools/bin/python -m tests.support.grpc_code
"""

from __future__ import annotations

import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROTO = "jobexec/gateways/grpc/gateway.proto"

_SHARED, _OWN = "_descriptor_pool.Default()", "_descriptor_pool.DescriptorPool()"


def protoc(*options: str) -> None:
    """Run the compiler of protobuf that grpcio-tools brings, over our .proto. Raises RuntimeError if it fails."""
    from grpc_tools import protoc as tool

    code = tool.main(["protoc", f"--proto_path={ROOT}", *options, PROTO])
    if code:
        raise RuntimeError(f"protoc ended with {code}")


def descriptor_set(folder: str) -> bytes:
    """What the .proto says, as a serialized FileDescriptorSet."""
    path = Path(folder) / "gateway.desc"
    protoc(f"--descriptor_set_out={path}")
    return path.read_bytes()


def generate(folder: Path) -> None:
    """Write the three modules below ``folder``.

    They get a pool of descriptors of their own: a project may load a client for Zeebe in the same process, which
    brings messages of the same names.
    """
    protoc(f"--python_out={folder}", f"--pyi_out={folder}", f"--grpc_python_out={folder}")
    module = folder / PROTO.replace(".proto", "_pb2.py")
    text = module.read_text()
    assert _SHARED in text, "grpcio-tools makes other code than it did"
    module.write_text(text.replace(_SHARED, _OWN))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        generate(Path(name))
        for file in (Path(name) / PROTO).parent.iterdir():
            (ROOT / PROTO).with_name(file.name).write_text(file.read_text())
