"""What XML can do to a server, and what is accepted of it."""

import time

import pytest

from jobexec.processes.definition import InvalidProcess
from jobexec.processes.xml import read, text_of
from jobexec.processes.xml.safe import MAX_ATTRIBUTE, MAX_BYTES, MAX_ELEMENTS, MAX_LEVELS, parse
from tests.processes.support.bpmn import around, problems, process

ROOT = '<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL">'
LAUGHS = "".join(f'<!ENTITY l{at} "{f"&l{at - 1};" * 10}">' for at in range(1, 10))
INCLUDE = 'xmlns:xi="http://www.w3.org/2001/XInclude"'

ATTACKS = {
    "doctype": (f"<!DOCTYPE definitions>{ROOT}</definitions>", "A DOCTYPE is not accepted"),
    "billion laughs": (
        f'<!DOCTYPE d [<!ENTITY l0 "lol">{LAUGHS}]>{ROOT}<process id="&l9;"/></definitions>',
        "A DOCTYPE is not accepted",
    ),
    "quadratic blowup": (
        f'<!DOCTYPE d [<!ENTITY a "{"a" * 50_000}">]>{ROOT}{"&a;" * 10_000}</definitions>',
        "A DOCTYPE is not accepted",
    ),
    "a file": (
        f'<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/passwd">]>{ROOT}<process id="p">&x;</process></definitions>',
        "A DOCTYPE is not accepted",
    ),
    "the network": (
        f'<!DOCTYPE d SYSTEM "http://127.0.0.1:9/evil.dtd">{ROOT}</definitions>',
        "A DOCTYPE is not accepted",
    ),
    "a parameter entity": (
        f'<!DOCTYPE d [<!ENTITY % x SYSTEM "http://127.0.0.1:9/x"> %x;]>{ROOT}</definitions>',
        "A DOCTYPE is not accepted",
    ),
    "default attributes": (
        f'<!DOCTYPE d [<!ATTLIST process isExecutable CDATA "true">]>{ROOT}</definitions>',
        "A DOCTYPE is not accepted",
    ),
    "an undefined entity": (f"{ROOT}&x;</definitions>", "not well-formed"),
    "a stylesheet": (f'<?xml-stylesheet type="text/xsl" href="x.xsl"?>{ROOT}</definitions>', "'xml-stylesheet'"),
    "an instruction inside": (f"{ROOT}<process><?php x ?></process></definitions>", "The processing instruction 'php'"),
    "depth": (ROOT + "<process>" * 5000 + "</process>" * 5000 + "</definitions>", "nested more than 100 levels deep"),
    "many elements": (ROOT + '<message id="m"/>' * (MAX_ELEMENTS + 1) + "</definitions>", "more than 5,000 elements"),
    "a huge attribute": (
        f'{ROOT}<process id="{"x" * (MAX_ATTRIBUTE + 1)}"/></definitions>',
        "An attribute has more than 65,536 characters",
    ),
    "a huge file": (ROOT + " " * MAX_BYTES + "</definitions>", "expected at most 2,097,152"),
    "not closed": (f"{ROOT}<process>", "not well-formed"),
    "twice the same attribute": (f'{ROOT}<process id="a" id="b"/></definitions>', "not well-formed"),
    "an undeclared prefix": (f"{ROOT}<x:process/></definitions>", "not well-formed"),
    "two roots": (f"{ROOT}</definitions><definitions/>", "not well-formed"),
    "nothing": ("", "not well-formed"),
    "no XML": ('{"json": true}', "not well-formed"),
    "U+0000": (f"{ROOT}\x00</definitions>", "not well-formed"),
    "an odd encoding": (f'<?xml version="1.0" encoding="UTF-7"?>{ROOT}</definitions>', "The encoding UTF-7"),
    "EBCDIC": (f'<?xml version="1.0" encoding="cp037"?>{ROOT}</definitions>', "The encoding cp037"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_refused(name):
    document, reason = ATTACKS[name]
    started = time.thread_time()
    with pytest.raises(InvalidProcess) as caught:
        read(document.encode())
    (problem,) = caught.value.problems
    assert reason in problem.message
    assert problem.element == "file"
    assert time.thread_time() - started < 2


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_doctype_in_another_encoding(encoding):
    document = f'<?xml version="1.0" encoding="UTF-16"?><!DOCTYPE d [<!ENTITY x "y">]>{ROOT}&x;</definitions>'
    with pytest.raises(InvalidProcess, match=r"DOCTYPE|well-formed|encoding"):
        read(document.encode(encoding))


def test_xinclude_is_an_unknown_element():
    include = f'<xi:include {INCLUDE} href="file:///etc/passwd" parse="text"/>'
    found = problems(process(around(f'<task id="x"><documentation>d</documentation>{include}</task>')))
    assert found == [("x", "The element {http://www.w3.org/2001/XInclude}include is not supported here.")]


def test_xinclude_in_a_text_brings_no_file():
    include = f'<xi:include {INCLUDE} href="file:///etc/passwd" parse="text"/>'
    data = process(around(f'<task id="x"><documentation>a{include}b</documentation></task>'))
    (found,) = read(data).processes
    assert found.node("x").documentation == "ab"


def test_a_schema_is_not_loaded():
    located = 'xsi:schemaLocation="http://www.omg.org/spec/BPMN/20100524/MODEL http://127.0.0.1:9/BPMN20.xsd"'
    assert problems(process(around('<task id="x"/>')).replace(b'id="file"', f'id="file" {located}'.encode())) == []


@pytest.mark.parametrize(
    "prefix",
    ["", '<?xml version="1.0"?>', '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>', "\ufeff", "<!-- c -->"],
)
def test_accepted_beginnings(prefix):
    assert problems(prefix.encode() + process(around('<task id="x" name="größer"/>'))) == []


@pytest.mark.parametrize(
    ("encoding", "declared"),
    [
        ("utf-16", "UTF-16"),
        ("utf-16-le", "UTF-16"),
        ("utf-16-be", "utf-16"),
        ("utf-16", ""),
        ("latin-1", "ISO-8859-1"),
        ("utf-8", "utf-8"),
        ("utf-8-sig", ""),
        ("utf-8", ""),
    ],
)
def test_encodings(encoding, declared):
    """Whatever a file is read from, its text is UTF-8, and the text of UTF-8 is unchanged."""
    text = process(around('<task id="x" name="größer"/>')).decode()
    document = f'<?xml version="1.0" encoding="{declared}"?>{text}' if declared else text
    data = document.encode(encoding)
    stored = text_of(data)
    for each in (data, stored.encode()):
        assert read(each).processes[0].node("x").name == "größer"
    if encoding.startswith("utf-8"):
        assert stored.encode() == data
    else:
        assert stored == document.replace(f'encoding="{declared}"', 'encoding="UTF-8"')


def test_comments_are_left_out_of_texts():
    script = '<scriptTask id="x" scriptFormat="juel"><script>${1 <!-- one --> + 1}</script></scriptTask>'
    (found,) = read(process(around(script))).processes
    assert "".join(found.node("x").work.expression.text.split()) == "${1+1}"


def test_limits_are_inclusive():
    parse((ROOT + '<message id="m"/>' * (MAX_ELEMENTS - 1) + "</definitions>").encode())
    parse((ROOT + "<a>" * (MAX_LEVELS - 1) + "</a>" * (MAX_LEVELS - 1) + "</definitions>").encode())


def test_lines_of_problems():
    with pytest.raises(InvalidProcess) as caught:
        read(f"\n\n<!DOCTYPE d>{ROOT}</definitions>".encode())
    assert caught.value.problems[0].line == 3


def test_another_root():
    (problem,) = problems(b"<html/>")
    assert problem == ("file", "The file begins with html; expected BPMN 2.0 definitions.")
    assert "has no process" in problems(f"{ROOT}</definitions>".encode())[0][1]
