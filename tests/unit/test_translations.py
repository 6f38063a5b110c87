"""The catalogues: complete, compiled, and with the placeholders of the originals."""

import os
import re
import shutil
import subprocess
import sys

import polib
import pytest

from jobexec.models import JOB_TABLES, HistoryJob
from tests.support.suite.databases import ROOT

FOLDER = ROOT / "jobexec/locale"
LANGUAGES = sorted(path.name for path in FOLDER.iterdir() if path.is_dir())
PLACEHOLDER = re.compile(r"%\(\w+\)[sdfgr]|%[sdfg%]|\{\w*\}")


def catalogue(language):
    return polib.pofile(str(FOLDER / language / "LC_MESSAGES/django.po"))


def texts_of(entry):
    return list(entry.msgstr_plural.values()) if entry.msgid_plural else [entry.msgstr]


@pytest.mark.parametrize("language", LANGUAGES)
def test_everything_is_translated(language):
    missing = [entry.msgid for entry in catalogue(language) if entry.fuzzy or not all(texts_of(entry))]
    assert missing == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_so_are_the_states_of_jobs(language):
    known = {entry.msgid for entry in catalogue(language) if not entry.msgctxt}
    assert {table.state for table in (*JOB_TABLES, HistoryJob)} <= known


@pytest.mark.parametrize("language", LANGUAGES)
def test_nothing_is_obsolete(language):
    assert catalogue(language).obsolete_entries() == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_placeholders_are_those_of_the_original(language):
    for entry in catalogue(language):
        allowed = {*PLACEHOLDER.findall(entry.msgid), *PLACEHOLDER.findall(entry.msgid_plural)}
        for text in texts_of(entry):
            assert set(PLACEHOLDER.findall(text)) <= allowed, entry.msgid
        # The last plural form stands for most numbers, and must say how many.
        assert set(PLACEHOLDER.findall(texts_of(entry)[-1])) == set(
            PLACEHOLDER.findall(entry.msgid_plural or entry.msgid)
        ), entry.msgid


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_compiled_catalogue_is_that_of_the_text(language):
    compiled = polib.mofile(str(FOLDER / language / "LC_MESSAGES/django.mo"))
    assert {(entry.msgctxt, entry.msgid): texts_of(entry) for entry in compiled} == {
        (entry.msgctxt, entry.msgid): texts_of(entry) for entry in catalogue(language)
    }


@pytest.mark.skipif(shutil.which("xgettext") is None, reason="no xgettext (package gettext)")
def test_every_string_of_the_sources_is_in_the_catalogues(tmp_path):
    shutil.copytree(ROOT / "jobexec", tmp_path / "jobexec", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "django", "makemessages", "-l", "de", "--no-obsolete", "--add-location", "never"]
    # Its own settings: those of the tests cannot be imported from there.
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    subprocess.run(command, cwd=tmp_path / "jobexec", env=environment, check=True, capture_output=True)
    found = polib.pofile(str(tmp_path / "jobexec/locale/de/LC_MESSAGES/django.po"))
    in_sources = {(entry.msgctxt, entry.msgid) for entry in found if not entry.obsolete}
    for language in LANGUAGES:
        ours = {(entry.msgctxt, entry.msgid) for entry in catalogue(language) if not entry.obsolete}
        assert ours == in_sources
