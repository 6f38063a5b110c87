"""A certificate authority for tests, which uses the command openssl."""

import shutil
import subprocess
from pathlib import Path

import pytest


class Authority:
    """A certificate authority; ``ca`` is the file with its own certificate."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("openssl") is None:
            pytest.skip("there is no command openssl to make certificates")
        self.folder, self.ca = folder, folder / "ca.pem"
        self._new("ca", "authority", "-x509", "-days", "1", "-out", str(self.ca))

    def issue(self, name: str) -> tuple[Path, Path]:
        """Return the files of a certificate for this name and of its key."""
        request, names, certificate = (self.folder / f"{name}.{end}" for end in ("csr", "ext", "pem"))
        self._new(name, name, "-out", str(request))
        names.write_text(f"subjectAltName=DNS:{name}\n")
        line = ["x509", "-req", "-in", str(request), "-CA", str(self.ca), "-CAkey", str(self.folder / "ca.key")]
        _openssl(*line, "-CAcreateserial", "-days", "1", "-extfile", str(names), "-out", str(certificate))
        return certificate, self.folder / f"{name}.key"

    def _new(self, file: str, name: str, *options: str) -> None:
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        _openssl("req", *key, "-keyout", str(self.folder / f"{file}.key"), "-subj", f"/CN={name}", *options)


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
