"""JUEL by tables: the coercions of the Unified Expression Language, on JSON."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from jobexec.processes.expressions import EvaluationContext, EvaluationError, InvalidExpression, Months, parse

NOW = datetime(2026, 3, 29, 12, 30, tzinfo=UTC)
VARIABLES = {
    "amount": 250,
    "price": 9.5,
    "exact": Decimal("0.1"),
    "name": "Ada",
    "blank": "",
    "nothing": None,
    "yes": True,
    "no": False,
    "list": ["a", "b", {"c": [1, 2]}],
    "order": {"id": 7, "empty": "e", "customer": {"name": "Ada"}, "a-b": 1, "1": "one"},
    "day": date(2026, 1, 2),
    "later": date(2026, 2, 2),
    "moment": datetime(2026, 1, 2, 10, tzinfo=UTC),
    "naive": datetime(2026, 1, 2, 10),
    "pause": timedelta(minutes=90),
    "term": Months(14),
    "äpfel": 3,
    "$x": 4,
}
CONTEXT = EvaluationContext(
    functions={"shop.price": lambda order, factor=1: order["id"] * factor, "upper": lambda text: text.upper()},
    objects={
        "execution": {"id": "e1", "businessKey": "4711", "currentActivityId": "pay"},
        "task": {"assignee": "ada", "name": None},
    },
    now=lambda: NOW,
)


def value(source, variables=VARIABLES):
    return parse(source, "juel").evaluate(variables, CONTEXT)


CASES = [
    # literals
    ("${1}", 1),
    ("${1.5}", 1.5),
    ("${.5}", 0.5),
    ("${1.}", 1.0),
    ("${1e3}", 1000.0),
    ("${2.5E-1}", 0.25),
    ("${'a'}", "a"),
    ('${"a"}', "a"),
    (r"${'it\'s'}", "it's"),
    (r'${"\"\\"}', '"\\'),
    ("${'}'}", "}"),
    ("${'${x}'}", "${x}"),
    ("${true}", True),
    ("${false}", False),
    ("${null}", None),
    ("#{amount}", 250),
    # names and paths
    ("${amount}", 250),
    ("${ amount }", 250),
    ("${äpfel}", 3),
    ("${$x}", 4),
    ("${order.id}", 7),
    ("${order.customer.name}", "Ada"),
    ("${order['customer']['name']}", "Ada"),
    ("${order['a-b']}", 1),
    ("${order[1]}", "one"),
    ("${order.empty}", "e"),
    ("${order.missing}", None),
    ("${order.missing.name}", None),
    ("${nothing.name}", None),
    ("${nothing[0]}", None),
    ("${list[0]}", "a"),
    ("${list['1']}", "b"),
    ("${list[2].c[1]}", 2),
    ("${list[3]}", None),
    ("${list[-1]}", None),
    ("${list[nothing]}", None),
    # arithmetic
    ("${1 + 2 * 3}", 7),
    ("${(1 + 2) * 3}", 9),
    ("${10 - 2 - 3}", 5),
    ("${7 / 2}", 3.5),
    ("${6 / 2}", 3.0),
    ("${6 div 4}", 1.5),
    ("${7 % 3}", 1),
    ("${7 mod 3}", 1),
    ("${-7 % 3}", -1),
    ("${7 % -3}", 1),
    ("${7.5 % 2}", 1.5),
    ("${-amount}", -250),
    ("${- -1}", 1),
    ("${'3' + 4}", 7),
    ("${'3.5' + 4}", 7.5),
    ("${'1e2' + 0}", 100.0),
    ("${nothing + 1}", 1),
    ("${nothing + nothing}", 0),
    ("${blank + 1}", 1),
    ("${-'5'}", -5),
    ("${exact + 1}", Decimal("1.1")),
    ("${exact + price}", Decimal("9.6")),
    ("${exact / 3}", Decimal("0.03333333333333333333333333333333333")),
    ("${exact % 0.03}", Decimal("0.01")),
    ("${price * 2}", 19.0),
    # comparison
    ("${1 == 1}", True),
    ("${1 == 1.0}", True),
    ("${1 eq 2}", False),
    ("${1 != 2}", True),
    ("${1 ne 1}", False),
    ("${1 == '1'}", True),
    ("${'a' == 'a'}", True),
    ("${'a' == 'A'}", False),
    ("${name == 'Ada'}", True),
    ("${yes == true}", True),
    ("${yes == 'true'}", True),
    ("${'TRUE' == yes}", True),
    ("${no == ''}", True),
    ("${nothing == null}", True),
    ("${nothing == 0}", False),
    ("${nothing != null}", False),
    ("${list == list}", True),
    ("${order == list}", False),
    ("${day == '2026-01-02'}", True),
    ("${day == later}", False),
    ("${1 < 2}", True),
    ("${2 lt 1}", False),
    ("${2 <= 2}", True),
    ("${2 le 1}", False),
    ("${2 > 1}", True),
    ("${1 gt 2}", False),
    ("${2 >= 3}", False),
    ("${3 ge 3}", True),
    ("${'a' < 'b'}", True),
    ("${'10' < 9}", False),
    ("${'10' < '9'}", True),
    ("${1.5 < 2}", True),
    ("${exact < 1}", True),
    ("${nothing < 1}", False),
    ("${nothing > 1}", False),
    ("${nothing <= 1}", False),
    ("${nothing <= nothing}", True),
    ("${nothing >= null}", True),
    ("${nothing < nothing}", False),
    ("${day < later}", True),
    ("${day < '2026-01-03'}", True),
    ("${moment <= moment}", True),
    ("${pause > pause}", False),
    # logic
    ("${yes && yes}", True),
    ("${yes and no}", False),
    ("${no || yes}", True),
    ("${no or no}", False),
    ("${!yes}", False),
    ("${not no}", True),
    ("${!nothing}", True),
    ("${'true' && yes}", True),
    ("${'yes' || no}", False),
    ("${no && missing}", False),
    ("${yes || missing}", True),
    ("${yes || no && no}", True),
    ("${(yes || no) && no}", False),
    ("${not no && no}", False),
    ("${1 < 2 == true}", True),
    ("${1 + 1 == 2 && 2 < 3}", True),
    # empty
    ("${empty nothing}", True),
    ("${empty blank}", True),
    ("${empty name}", False),
    ("${empty list}", False),
    ("${empty order.missing}", True),
    ("${empty 0}", False),
    ("${not empty list}", True),
    ("${!empty list && yes}", True),
    ("${empty name || yes}", True),
    # choice
    ("${yes ? 1 : 2}", 1),
    ("${no ? 1 : 2}", 2),
    ("${nothing ? 1 : 2}", 2),
    ("${no ? 1 : no ? 2 : 3}", 3),
    ("${yes ? no ? 1 : 2 : 3}", 2),
    ("${amount > 100 ? 'big' : 'small'}", "big"),
    ("${yes ? 1 : missing}", 1),
    ("${yes || no ? 1 : 2}", 1),
    # text
    ("", ""),
    ("plain", "plain"),
    ("$", "$"),
    ("${name}!", "Ada!"),
    ("Order ${order.id} of ${name}", "Order 7 of Ada"),
    ("#{name}#{name}", "AdaAda"),
    ("${yes}${nothing}${price}", "true9.5"),
    ("${exact} ${amount}", "0.1 250"),
    ("x${list[2]}", 'x{"c": [1, 2]}'),
    ("x${day} ${pause} ${term}", "x2026-01-02 PT1H30M P1Y2M"),
    ("x${moment}", "x2026-01-02T10:00:00+00:00"),
    (r"\${name}", "${name}"),
    (r"\#{name} ${name}", "#{name} Ada"),
    (r"a\b ${name}", r"a\b Ada"),
    (r"\\${name}", r"\${name}"),
    ("$name ${name} }", "$name Ada }"),
    ("PT${amount}S", "PT250S"),
    # functions
    ("${shop.price(order)}", 7),
    ("${shop.price(order, 2) + 1}", 15),
    ("${upper(name)}", "ADA"),
    ("${upper(order.customer.name)}", "ADA"),
    ("${now()}", NOW),
    ("${dateTime()}", NOW),
    # execution and task
    ("${execution.id}", "e1"),
    ("${execution.businessKey}", "4711"),
    ("${execution.getBusinessKey()}", "4711"),
    ("${execution.getCurrentActivityId()}", "pay"),
    ("${execution.getVariable('amount')}", 250),
    ("${execution.getVariable('missing')}", None),
    ("${execution.hasVariable('nothing')}", True),
    ("${execution.hasVariable('missing')}", False),
    ("${execution.getVariable('order').id}", 7),
    ("${task.assignee == 'ada'}", True),
    ("${task.getAssignee()}", "ada"),
    ("${task.name}", None),
]


@pytest.mark.parametrize(("source", "expected"), CASES)
def test_value(source, expected):
    found = value(source)
    assert found == expected
    assert type(found) is type(expected), f"{found!r} is a {type(found).__name__}"


@pytest.mark.parametrize(
    ("source", "position", "reason"),
    [
        ("${missing}", 2, "there is no variable 'missing'"),
        ("${amount + missing}", 11, "there is no variable 'missing'"),
        ("${name.length}", 6, "a string has no property 'length'"),
        ("${amount[0]}", 8, "a number has no items"),
        ("${list[0.5]}", 6, "expected a whole number as index, found 0.5"),
        ("${list['x']}", 6, "'x' is not a number"),
        ("${'a' + 1}", 6, "'a' is not a number"),
        ("${1 == 'a'}", 4, "'a' is not a number"),
        ("${yes + 1}", 6, "expected a number, found a boolean"),
        ("${yes == 1 ? 1 : 2}", 6, "expected a number, found a boolean"),
        ("${list < order}", 7, "cannot be compared"),
        ("${moment < naive}", 9, "cannot be compared"),
        ("${day < pause}", 6, "cannot be compared"),
        ("${1 ? 2 : 3}", 4, "expected true or false, found a number"),
        ("${!1}", 2, "expected true or false, found a number"),
        ("${1 / 0}", 4, "division by zero"),
        ("${1 % 0}", 4, "division by zero"),
        ("${exact / 0}", 8, "division by zero"),
        ("${1e308 * 10}", 8, "inf is not a value of expressions"),
        ("${-list}", 2, "expected a number, found a list"),
        ("${shop.gift(order)}", 2, "'shop.gift' is not a registered function"),
        ("${list.size()}", 2, "'list.size' is not a registered function"),
        ("${execution.getVariable(1)}", 2, "expected the name of a variable"),
    ],
)
def test_evaluation_errors(source, position, reason):
    with pytest.raises(EvaluationError) as caught:
        value(source)
    assert reason in caught.value.reason
    assert (caught.value.source, caught.value.position) == (source, position)


@pytest.mark.parametrize(
    ("source", "position", "reason"),
    [
        ("${}", 2, "expected an expression between the braces"),
        ("${ }", 3, "expected an expression between the braces"),
        ("${", 2, "expected '}', found the end"),
        ("${a", 3, "expected '}', found the end"),
        ("${a +}", 5, "expected a value, found the end"),
        ("${a b}", 4, "expected an operator or the end, found 'b'"),
        ("${(a}", 4, "expected ')', found the end"),
        ("${a[1}", 5, "expected ']', found the end"),
        ("${a.}", 4, "expected a name, found the end"),
        ("${a.1}", 3, "expected an operator or the end, found 0.1"),
        ("${a ? b}", 7, "expected ':', found the end"),
        ("${'abc}", 2, "the string that begins with ' has no end"),
        (r"${'\n'}", 2, "is not an escape of JUEL"),
        ("${a @ b}", 4, "unexpected character '@'"),
        ("${a = b}", 4, "unexpected character '='"),
        ("${a & b}", 4, "unexpected character '&'"),
        ("${div}", 2, "expected a value, found 'div'"),
        ("${a instanceof b}", 4, "'instanceof' asks for a class of Java"),
        ("${a} #{b}", 5, "cannot be mixed"),
        ("${execution}", 2, "'execution' is not a value"),
        ("${service.run(execution)}", 14, "'execution' is not a value"),
        ("${execution.engineServices}", 2, "execution has no property 'engineServices'"),
        ("${execution.setVariable('a', 1)}", 2, "execution.setVariable() is not available"),
        ("${execution.getProcessEngine()}", 2, "execution has no property 'processEngine'"),
        ("${task.complete()}", 2, "task.complete() is not available"),
        ("${a[0].run()}", 10, "a method of a value cannot be called"),
        ("${run()()}", 7, "a method of a value cannot be called"),
        ("${1e999}", 2, "too large"),
    ],
)
def test_errors_have_a_position(source, position, reason):
    with pytest.raises(InvalidExpression) as caught:
        parse(source, "juel")
    assert reason in caught.value.reason
    assert (caught.value.source, caught.value.position) == (source, position)


def test_the_message_of_an_error():
    with pytest.raises(EvaluationError) as caught:
        value("${amount > limit}")
    assert str(caught.value) == "'${amount > limit}', character 12: there is no variable 'limit'."


def test_objects_that_are_not_available():
    with pytest.raises(EvaluationError, match="'task' is not available here"):
        parse("${task.assignee}", "juel").evaluate({}, EvaluationContext(objects={"execution": {}}))
    with pytest.raises(EvaluationError, match=r"'execution\.tenantId' is not available here"):
        parse("${execution.tenantId}", "juel").evaluate({}, EvaluationContext(objects={"execution": {"id": "1"}}))
    with pytest.raises(EvaluationError, match="the current time is not available here"):
        parse("${now()}", "juel").evaluate({})


def test_a_function_of_the_project_replaces_a_built_in_one():
    assert parse("${now()}", "juel").evaluate({}, EvaluationContext(functions={"now": lambda: 5})) == 5


def test_what_a_function_raises_passes_through():
    def fails():
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        parse("${fails()}", "juel").evaluate({}, EvaluationContext(functions={"fails": fails}))


def test_functions_are_known_before_evaluation():
    expression = parse("${shop.price(order) + now() + execution.getVariable('a') + tax(1)}", "juel")
    assert expression.functions == {"shop.price", "tax"}
    assert parse("=sum([1]) + tax(1)", "feel").functions == {"tax"}


def test_equal_sources_are_parsed_once():
    assert parse("${a + 1}", "juel") is parse("${a + 1}", "juel")


def test_conditions_are_true_or_false():
    assert parse("${amount > 100}", "juel").holds(VARIABLES)
    assert not parse("=amount > 1000", "feel").holds(VARIABLES)
    for source, language, found in [
        ("${name}", "juel", "a string"),
        ("=missing > 1", "feel", "null"),
        ("=1", "feel", "a number"),
    ]:
        with pytest.raises(EvaluationError, match=f"a condition must be true or false, and this is {found}"):
            parse(source, language).holds(VARIABLES)


def test_an_error_inside_a_function_keeps_its_own_place():
    inner = parse("${missing}", "juel")
    context = EvaluationContext(functions={"inner": lambda: inner.evaluate({})})
    with pytest.raises(EvaluationError) as caught:
        parse("x ${inner()}", "juel").evaluate({}, context)
    assert (caught.value.source, caught.value.position) == ("${missing}", 2)
