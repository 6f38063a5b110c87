"""Variables between Camunda 7's typed form and plain JSON."""

import json

import pytest

from jobexec.gateways.rest.camunda7.errors import EngineError
from jobexec.gateways.rest.camunda7.variables import file_of, to_json, to_typed, with_notes

DATE = "2015-10-06T16:34:42.000+0200"


def there_and_back(type, value, **info):
    stored = to_json({"x": {"type": type, "value": value, "valueInfo": info}})
    assert json.loads(json.dumps(stored)) == stored
    return to_typed(stored)["x"]


@pytest.mark.parametrize(
    "type, value",
    [
        ("String", "ein Text"),
        ("String", ""),
        ("String", DATE),
        ("Boolean", True),
        ("Boolean", False),
        ("Integer", 5),
        ("Integer", -(2**31)),
        ("Long", 5),
        ("Long", 2**40),
        ("Short", 5),
        ("Double", 1.5),
        ("Double", 2.0),
        ("Null", None),
        ("Integer", None),
        ("Date", None),
        ("Date", DATE),
        ("Json", '{"a":[1,2.5,null]}'),
        ("Json", "[]"),
        ("Json", '"only a text"'),
        ("Json", "5"),
        ("Xml", "<a/>"),
        ("Bytes", "aGVsbG8="),
    ],
)
def test_a_client_gets_back_what_it_sent(type, value):
    assert there_and_back(type, value) == {"type": type, "value": value, "valueInfo": {}}
    assert there_and_back(type.lower(), value) == {"type": type, "value": value, "valueInfo": {}}


def test_numbers_keep_whether_they_are_double():
    assert isinstance(there_and_back("double", 2)["value"], float)
    assert isinstance(to_json({"x": {"type": "Integer", "value": 2.0}})["x"], int)


def test_texts_of_other_types_are_converted():
    given = {"n": ("Integer", "5"), "b": ("Boolean", "TRUE"), "d": ("Double", "1e3"), "s": ("String", 5)}
    typed = {name: {"type": type, "value": value} for name, (type, value) in given.items()}
    assert to_json(typed) == {"n": 5, "b": True, "d": 1000.0, "s": "5"}


def test_without_a_type_the_value_is_what_it_is():
    assert to_json({"a": {"value": 5}, "b": {"value": {"c": [1]}}, "d": {}}) == {"a": 5, "b": {"c": [1]}, "d": None}


def test_plain_values_get_the_type_that_they_look_like():
    stored = {"t": "x", "b": True, "i": 5, "l": 2**31, "d": 0.5, "n": None, "o": {"ä": 1}, "a": [1], "huge": 2**70}
    typed = {name: (each["type"], each["value"]) for name, each in to_typed(stored).items()}
    assert typed == {
        "t": ("String", "x"),
        "b": ("Boolean", True),
        "i": ("Integer", 5),
        "l": ("Long", 2**31),
        "d": ("Double", 0.5),
        "n": ("Null", None),
        "o": ("Json", '{"ä":1}'),
        "a": ("Json", "[1]"),
        "huge": ("Json", str(2**70)),
    }


def test_who_asks_for_values_gets_objects_as_they_are():
    typed = to_typed({"o": {"a": 1}, "l": [1]}, deserialize=True)
    assert (typed["o"]["type"], typed["o"]["value"]) == ("Object", {"a": 1})
    assert typed["o"]["valueInfo"]["objectTypeName"] == "java.util.LinkedHashMap"
    assert (typed["l"]["value"], typed["l"]["valueInfo"]["objectTypeName"]) == ([1], "java.util.ArrayList")


def test_objects_that_were_given_as_they_are_come_back_so():
    stored = {"o": {"a": 1}, "l": [1]}
    assert to_json(to_typed(stored, deserialize=True)) == stored
    assert to_json({"o": {"type": "Json", "value": {"a": 1}}}) == {"o": {"a": 1}}


def test_objects_keep_how_they_were_serialized():
    info = {"objectTypeName": "com.example.Order", "serializationDataFormat": "application/json"}
    stored = to_json({"order": {"type": "Object", "value": '{"id":7}', "valueInfo": info}})
    assert stored["order"] == {"id": 7}, "Django reads it as JSON"
    assert to_typed(stored)["order"] == {"type": "Object", "value": '{"id":7}', "valueInfo": info}
    assert to_typed(stored, deserialize=True)["order"]["value"] == {"id": 7}
    other = info | {"serializationDataFormat": "application/x-java-serialized-object"}
    assert there_and_back("Object", "rO0ABXQ=", **other) == {"type": "Object", "value": "rO0ABXQ=", "valueInfo": other}


def test_a_file_comes_without_its_content():
    info = {"filename": "a.txt", "mimeType": "text/plain", "encoding": "UTF-8"}
    stored = to_json({"doc": {"type": "File", "value": "aGVsbG8=", "valueInfo": info}})
    assert to_typed(stored)["doc"] == {"type": "File", "value": None, "valueInfo": info}
    assert file_of(stored, "doc") == (b"hello", info)
    assert file_of({"doc": "aGVsbG8="}, "doc") is None, "a text is no file"
    assert file_of(stored, "other") is None


def test_transient_is_nothing_to_remember():
    assert to_json({"a": {"type": "String", "value": "x", "valueInfo": {"transient": True}}}) == {"a": "x"}
    assert to_json({"a": {"type": "Date", "value": DATE, "valueInfo": {"transient": True}}})["a$type"] == {
        "type": "Date"
    }


def test_what_plain_json_tells_has_no_note():
    given = {"s": ("String", "x"), "i": ("Integer", 1), "j": ("Json", "{}"), "d": ("Double", 0), "n": ("Null", None)}
    stored = to_json({name: {"type": type, "value": value} for name, (type, value) in given.items()})
    assert set(stored) == set(given)


@pytest.mark.parametrize("value, type", [(5, "Integer"), ("no date", "String"), ({"a": 1}, "Json")])
def test_a_note_about_an_earlier_value_does_not_count(value, type):
    stored = to_json({"due": {"type": "Date", "value": DATE}}) | {"due": value}
    assert to_typed(stored)["due"]["type"] == type
    assert "due$type" not in to_typed(stored)


def test_notes_of_another_kind_are_variables():
    assert to_typed({"cost$type": "net", "a$type": {"b": 1}}).keys() == {"cost$type", "a$type"}
    assert to_typed({"a": 5, "a$type": {"type": "Unheard"}}).keys() == {"a"}


def test_a_number_that_no_double_can_be():
    assert to_typed({"a": 10**400, "a$type": {"type": "Double"}})["a"]["type"] == "Json"


def test_names_are_asked_for_with_their_notes():
    assert with_notes(["a", "b"]) == ["a", "a$type", "b", "b$type"]


@pytest.mark.parametrize(
    "given, message",
    [
        ({"type": "Integer", "value": "five"}, "Cannot convert value 'five' of type 'Integer' of variable 'x'"),
        ({"type": "Integer", "value": 2**31}, "out of range"),
        ({"type": "Integer", "value": 1.5}, "expected an integer"),
        ({"type": "Integer", "value": True}, "expected an integer"),
        ({"type": "Short", "value": 2**15}, "out of range"),
        ({"type": "Boolean", "value": 1}, "expected true or false"),
        ({"type": "Double", "value": "NaN"}, "expected a finite number"),
        ({"type": "String", "value": {}}, "expected a string"),
        ({"type": "Json", "value": 5}, "expected JSON in a string"),
        ({"type": "Object", "value": {}, "valueInfo": {"serializationDataFormat": "other"}}, "expected a serialized"),
        ({"type": "Json", "value": "{"}, "Cannot convert value '{' of type 'Json'"),
        ({"type": "Json", "value": "NaN"}, "NaN is not JSON"),
        ({"type": "Date", "value": "tomorrow"}, "Cannot convert value 'tomorrow'"),
        ({"type": "Date", "value": "2015-10-06T16:34:42"}, "expected a date like"),
        ({"type": "File", "value": "aGVsbG8="}, "expected a filename"),
        ({"type": "Bytes", "value": "?"}, "Cannot convert value '?'"),
        ({"type": "Wood", "value": 1}, "Unsupported value type 'Wood'"),
        ({"type": "Date", "value": DATE, "valueInfo": [1]}, "variables.x.valueInfo: expected an object"),
        (5, "variables.x: expected an object with a value, got 5."),
        (None, "variables.x: expected an object with a value, got null."),
    ],
)
def test_what_cannot_be_is_refused_with_the_name(given, message):
    with pytest.raises(EngineError) as caught:
        to_json({"x": given})
    assert message in caught.value.message
    assert caught.value.status == 400
