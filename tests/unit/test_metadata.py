"""What the wheel says about itself: to pip, and to the readers of its page on PyPI."""

import re
import subprocess
import sys
import tomllib
from importlib.util import find_spec

import pytest
from packaging.metadata import Metadata

import jobexec
from tests.support.suite.databases import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
README = (ROOT / "README.md").read_text()
NEEDED = ("pyproject.toml", "README.md", "jobexec/__init__.py", *PROJECT["license-files"])
_BUILD = "import sys; from setuptools.build_meta import prepare_metadata_for_build_wheel as p; print(p(sys.argv[1]))"


@pytest.fixture(scope="module")
def metadata(tmp_path_factory):
    return built(copied(tmp_path_factory.mktemp("source")), tmp_path_factory.mktemp("made"))


def copied(source):
    for name in NEEDED:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes((ROOT / name).read_bytes())
    return source


def built(source, made):
    """The metadata as the build backend writes it, read as strictly as PyPI reads it."""
    if find_spec("setuptools") is None:
        pytest.skip("setuptools is not installed (extra test)")
    command = [sys.executable, "-W", "error", "-c", _BUILD, str(made)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return Metadata.from_email((made / done.stdout.split()[-1] / "METADATA").read_bytes(), validate=True)


def test_name_version_and_python(metadata):
    assert (metadata.name, str(metadata.version)) == ("jobexec", jobexec.__version__)
    oldest = ".".join(map(str, (3, 11)))
    assert [str(each) for each in metadata.requires_python] == [f">={oldest}"]
    assert f"Programming Language :: Python :: {oldest}" in metadata.classifiers


def test_the_classifiers_name_the_versions_that_the_gate_runs(metadata):
    gate = (ROOT / ".ci" / "run").read_text()
    tested = set(re.findall(r"python_of (3\.\d+)", gate)) | set(re.findall(r"django~=(\d\.\d)\.0", gate))
    named = {each.rpartition(" :: ")[2] for each in metadata.classifiers if re.search(r":: \d\.\d+$", each)}
    assert len(tested) == 4 and tested <= named
    assert all(version in README for version in named if version.startswith(("5", "6")))


def test_the_license_and_its_files(metadata):
    assert metadata.license_expression == "MIT AND LicenseRef-bpmn.io"
    assert [each for each in metadata.classifiers if each.startswith("License ::")] == []  # the expression says it
    assert metadata.license_files == PROJECT["license-files"]


def test_the_extras_and_what_they_bring(metadata):
    assert sorted(metadata.provides_extra) == sorted(PROJECT["optional-dependencies"])
    brought = {each.name for each in metadata.requires_dist if each.marker is None}
    assert brought == {"django", "isodate", "django-admin-rangefilter", "psycopg", "cronsim"}
    for extra in PROJECT["optional-dependencies"]:
        assert [each for each in metadata.requires_dist if each.marker and each.marker.evaluate({"extra": extra})]
    assert {str(each.specifier)[:2] for each in metadata.requires_dist} <= {">=", ""}, "lower bounds only"


def test_the_description_is_the_readme(metadata):
    assert metadata.description_content_type == "text/markdown"
    assert metadata.description.strip() == README.strip()
    assert len(metadata.summary) < 512 and "\n" not in metadata.summary


def test_a_release_knows_the_address_of_the_repository(tmp_path_factory):
    source = copied(tmp_path_factory.mktemp("source"))
    addressed = [sys.executable, str(ROOT / ".ci" / "address.py"), str(source)]
    subprocess.run([*addressed, "https://example.org/shop/jobexec/"], check=True, timeout=60)
    metadata = built(source, tmp_path_factory.mktemp("made"))
    assert metadata.project_urls == {
        "Source": "https://example.org/shop/jobexec",
        "Documentation": "https://example.org/shop/jobexec/blob/HEAD/docs/index.md",
        "Changelog": "https://example.org/shop/jobexec/blob/HEAD/CHANGELOG.md",
        "Issues": "https://example.org/shop/jobexec/issues",
    }
    text = metadata.description
    assert "![The dashboard" in text
    assert "](https://example.org/shop/jobexec/raw/HEAD/docs/images/admin/dashboard-light.png)" in text
    assert "](https://example.org/shop/jobexec/blob/HEAD/docs/how-to/install.md#choose-extras)" in text
    assert [link for link in re.findall(r"]\(([^)]*)\)", text) if not link.startswith("https://")] == []
    relative = re.sub(r"https://example\.org/shop/jobexec/(raw|blob)/HEAD/", "", text)
    assert relative.strip() == README.strip()


@pytest.mark.parametrize("address", ["example.org/jobexec", "https://example.org", 'https://example.org/"', ""])
def test_what_is_no_address_is_refused(tmp_path, address):
    command = [sys.executable, str(ROOT / ".ci" / "address.py"), str(copied(tmp_path)), address]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1 and f"not {address!r}" in done.stderr
    assert (tmp_path / "README.md").read_text() == README


def test_the_readme_needs_no_more_than_a_renderer_of_markdown():
    markdown_it = pytest.importorskip("markdown_it")
    tokens = markdown_it.MarkdownIt("commonmark").enable("table").parse(README)
    every = [*tokens, *(child for token in tokens for child in token.children or ())]
    assert {token.type for token in every if token.type.startswith("html")} == set()
    texts = [token.content for token in every if token.type == "text"]
    assert [text for text in texts if re.search(r":::|\{\w+[:}]|\]\(", text)] == [], "of Sphinx only"
    links = [token.attrs.get("href") or token.attrs.get("src") for token in every if token.attrs]
    assert len(links) > 10 and all(links)
    gone = [link for link in links if "://" not in link and not (ROOT / link.partition("#")[0]).exists()]
    assert gone == []
