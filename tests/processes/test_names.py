"""The public names of the package: one list, loaded when one of them is used."""

import subprocess
import sys

import pytest
from asgiref.sync import SyncToAsync

from jobexec import processes
from jobexec.processes import api


def test_every_name_of_the_list_is_there_and_no_other():
    assert processes.__all__ == api.__all__ == sorted(api.__all__)
    for name in api.__all__:
        assert getattr(processes, name) is getattr(api, name)
    for name in ("nothing", "__wrapped__"):
        with pytest.raises(AttributeError, match=name):
            getattr(processes, name)


def test_each_verb_has_its_twin_for_async_callers():
    twins = {name for name in api.__all__ if isinstance(getattr(api, name), SyncToAsync)}
    home = "jobexec.processes.operations"
    verbs = {name for name in api.__all__ if getattr(api, name).__module__.startswith(home)} - twins
    assert twins == {f"a{name}" for name in verbs - {"modify"}}  # it only collects what is to be changed
    for name in twins:
        assert getattr(api, name).func is getattr(api, name[1:])


@pytest.mark.gate
def test_the_package_loads_no_models_and_its_modules_are_found():
    code = (
        "import sys; import jobexec.processes; from jobexec.processes import apps, engine; "
        "assert not hasattr(jobexec.processes, 'models'); "
        "assert 'jobexec.processes.api' not in sys.modules; assert 'jobexec.models' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
