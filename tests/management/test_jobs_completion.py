"""The scripts of `manage.py jobs completion`, in real shells."""

import os
import shutil
import subprocess

import pytest

from jobexec.models import JobDefinition
from tests.support.factories import make_node
from tests.support.jobs_command import jobs

pytestmark = pytest.mark.usefixtures("engines")

#: In place of the project's command, for which the scripts ask for names.
FAKE = """#!/bin/sh
case "$*" in
    "jobs completion nodes") printf "berlin\\nbern\\n" ;;
    "jobs completion handlers") printf "shop.jobs.pay\\nshop.jobs.ship\\n" ;;
esac
"""
BASH = """
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _jobexec_jobs; echo "${COMPREPLY[@]}"
"""
ZSH = """
try() { emulate -L sh; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _jobexec_jobs; echo "${COMPREPLY[*]}" }
try "$@"
"""
FISH = """
complete -C "$argv"
"""
CALLS = {"bash": ["bash", "--norc"], "zsh": ["zsh", "-f"], "fish": ["fish", "--no-config"]}
ENDS = {"bash": BASH, "zsh": f"autoload -Uz compinit && compinit -u\n@SCRIPT@{ZSH}", "fish": FISH}


@pytest.fixture
def engines(settings, alias):
    settings.JOBEXEC = {"ENGINES": {alias: {}}, "CATEGORIES": ["default", "mail"]}


@pytest.mark.gate
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes(alias, shell, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    command = tmp_path / "manage.py"
    command.write_text(FAKE)
    command.chmod(0o755)
    code, script = jobs("completion", shell, alias=alias)
    end = ENDS[shell]
    file = tmp_path / "script"
    file.write_text(end.replace("@SCRIPT@", script) if "@SCRIPT@" in end else script + end)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}

    def completes(*words):
        call = [*CALLS[shell], str(file), *words]
        ended = subprocess.run(call, env=environment, capture_output=True, text=True, timeout=180)
        assert not ended.stderr
        # zsh compares with the word itself, later.
        return {
            word.split("\t")[0] for word in ended.stdout.replace(" ", "\n").splitlines() if word.startswith(words[-1])
        }

    assert code == 0
    assert completes("manage.py", "jobs", "sched") == {"schedules"}
    assert completes("manage.py", "jobs", "nodes", "pau") == {"pause"}
    assert completes("manage.py", "jobs", "nodes", "pause", "ber") == {"berlin", "bern"}
    assert completes("manage.py", "jobs", "list", "--handler", "shop") == {"shop.jobs.pay", "shop.jobs.ship"}
    assert completes("manage.py", "jobs", "list", "--state", "dead") == {"dead_letter"}
    assert completes("manage.py", "jobs", "requeue", "--category", "m") == {"mail"}
    assert completes("manage.py", "jobs", "suspend", "--scope", "t") == {"tenant"}
    assert completes("manage.py", "jobs", "list", "--watc") == {"--watch"}


def test_the_names_for_which_they_ask(alias):
    make_node(alias, "berlin")
    JobDefinition.objects.using(alias).create(pk="shop.jobs.charge", handler_type="shop.jobs.charge", category="a")
    JobDefinition.objects.using(alias).create(pk="jobexec.own", handler_type="jobexec.own", category="a")
    assert jobs("completion", "nodes", alias=alias) == (0, "berlin\n")
    names = jobs("completion", "handlers", alias=alias)[1].split()
    assert "shop.jobs.charge" in names and "jobexec.own" not in names
