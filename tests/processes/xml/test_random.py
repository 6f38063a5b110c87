"""Damaged files are read or refused: whatever is removed, moved or renamed, there is no other error."""

import copy
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from jobexec.processes.definition import InvalidProcess
from jobexec.processes.xml import read
from jobexec.processes.xml.safe import parse
from tests.processes.support.bpmn import NAMESPACES, definitions
from tests.processes.xml.test_files import FILES

TREES = {path.stem: parse(path.read_bytes()) for path in FILES}
NAMES = ["id", "isExecutable", "sourceRef", "attachedToRef", "messageRef", "triggeredByEvent", "wobble"]
VALUES = ["", "x", "true", "${", "${a b}", "=1 +", "${a}", "=a", "\u00fc" * 50]


def remove(element, name, value):
    element.getparent().remove(element)


def repeat(element, name, value):
    element.getparent().append(copy.deepcopy(element))


def wrap(element, name, value):
    element.getparent().replace(element, inner := etree.Element(element.tag, dict(element.attrib)))
    inner.append(element)


def rename(element, name, value):
    element.tag = element.getroottree().getroot().tag.replace("definitions", name)


def change_attribute(element, name, value):
    element.set(name, value)


def remove_attributes(element, name, value):
    for each in list(element.attrib):
        del element.attrib[each]


def change_text(element, name, value):
    element.text = value


DAMAGES = [remove, repeat, wrap, rename, change_attribute, remove_attributes, change_text]


@pytest.mark.gate
@given(
    st.sampled_from(sorted(TREES)),
    st.lists(
        st.tuples(st.sampled_from(DAMAGES), st.integers(1, 200), st.sampled_from(NAMES), st.sampled_from(VALUES)),
        min_size=1,
        max_size=5,
    ),
)
def test_damaged_files(name, damages):
    root = copy.deepcopy(TREES[name])
    for damage, at, attribute, value in damages:
        elements = list(root.iter())
        if len(elements) == 1:
            break
        damage(elements[min(at, len(elements) - 1)], attribute, value)
    with suppress(InvalidProcess):
        read(etree.tostring(root))


@given(st.binary(max_size=200))
def test_any_bytes(data):
    with pytest.raises(InvalidProcess):
        read(data)


@pytest.mark.parametrize("dialect", sorted(NAMESPACES))
def test_sub_processes_as_deep_as_elements_may_be(dialect):
    content = "".join(f'<subProcess id="s{at}"><startEvent id="t{at}"/>' for at in range(97)) + "</subProcess>" * 97
    with pytest.raises(InvalidProcess, match="No flow leads to it"):
        read(definitions(f'<process id="p" isExecutable="true">{content}</process>', dialect))
