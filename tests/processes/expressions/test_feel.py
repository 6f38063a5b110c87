"""FEEL by tables, after the features that the compatibility kit of DMN lists."""

import json
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from jobexec.processes.expressions import EvaluationContext, EvaluationError, LimitExceeded, Months, parse
from jobexec.processes.expressions.evaluate import evaluate
from jobexec.processes.expressions.feel_functions import FEEL_FUNCTIONS, patterns
from jobexec.processes.expressions.feel_rules import RULES

VARIABLES = {
    "amount": 250,
    "price": 0.1,
    "name": "Ada",
    "nothing": None,
    "yes": True,
    "no": False,
    "order": {"id": 7, "customer": {"name": "Ada", "age": 36}, "items": [{"sku": "a", "n": 2}, {"sku": "b", "n": 5}]},
    "numbers": [3, 1, 2],
    "a b": "spaced",
    "list": ["x", "y"],
}
NOW = datetime(2026, 3, 29, 12, 30, tzinfo=UTC)


def value(source, variables=VARIABLES):
    """The value inside of FEEL, where it is no JSON yet."""
    return evaluate(parse(source, "feel").tree, RULES, variables, EvaluationContext(now=lambda: NOW))


def check(source, expected):
    found = value(source)
    assert found == expected
    assert type(found) is type(expected), f"{found!r} is a {type(found).__name__}"


def table(text):
    """Lines of ``source | expected``, both in FEEL: what they mean must be the same, also in its kind."""
    rows = [line.rsplit("|", 1) for line in text.strip().splitlines() if line.strip()]
    return [pytest.param(source.strip(), expected.strip(), id=source.strip()) for source, expected in rows]


def same(one, other):
    return (type(one) is type(other) or not {bool, type(None)} & {type(one), type(other)}) and one == other


LOGIC = """
true and true | true
true and false | false
false and nothing | false
nothing and false | false
true and nothing | null
nothing and nothing | null
1 and true | null
1 and false | false
true or nothing | true
nothing or true | true
false or nothing | null
false or false | false
"x" or true | true
not(true) | false
not(false) | true
not(nothing) | null
not(1) | null
true and true and false | false
false or false or true | true
true or true and false | true
(true or true) and false | false
"""
COMPARISON = """
1 = 1 | true
1 = 1.0 | true
1 != 2 | true
1 = 2 | false
"a" = "a" | true
"a" = "b" | false
"a" != "b" | true
1 = "1" | null
true = 1 | null
null = null | true
null = 1 | false
1 != null | true
null != null | false
[1, 2] = [1, 2] | true
[1, 2] = [2, 1] | false
[1, [2]] = [1, [2]] | true
{a: 1} = {a: 1} | true
{a: 1} = {a: 2} | false
{a: 1, b: 2} = {b: 2, a: 1} | true
1 < 2 | true
2 <= 2 | true
3 > 2 | true
2 >= 3 | false
"a" < "b" | true
1 < "b" | null
null < 1 | null
true < false | null
[1] < [2] | null
price = 0.1 | true
price < 0.1 | false
price <= 0.1 | true
0.1 + 0.2 = 0.3 | true
5 between 1 and 10 | true
1 between 1 and 1 | true
0 between 1 and 10 | false
null between 1 and 2 | null
5 between 1 and 10 and true | true
amount between 200 and 200 + 100 | true
"""
IN = """
1 in [1..5] | true
1 in (1..5] | false
1 in ]1..5] | false
5 in [1..5] | true
5 in [1..5) | false
5 in [1..5[ | false
3 in (1..5) | true
"c" in ["a".."d"] | true
3 in [1, 2, 3] | true
4 in [1, 2, 3] | false
4 in [[1..5], 9] | true
3 in > 2 | true
3 in < 2 | false
3 in (> 5, < 4) | true
3 in (1, 2, 3) | true
3 in ([1..2], [3..4]) | true
3 in (= 3) | true
3 in (!= 3) | false
3 in 3 | true
null in (null) | true
null in [1..5] | null
"x" in [1..5] | null
3 in (> 5, null) | false
[1] in [[1], [2]] | true
date("2026-01-15") in [date("2026-01-01")..date("2026-01-31")] | true
amount in (> 200) and yes | true
"""
ARITHMETIC = """
1 + 2 * 3 | 7
(1 + 2) * 3 | 9
10 - 2 - 3 | 5
7 / 2 | 3.5
6 / 2 | 3
1 / 0 | null
0 / 0 | null
2 ** 10 | 1024
2 ** -1 | 0.5
2 ** 0.5 > 1.41 | true
0 ** 0 | 1
0 ** -1 | null
(10 ** -6000) ** 0 | 1
(-8) ** 0.5 | null
-2 ** 2 | 4
2 * -3 | -6
--3 | 3
-(1 + 2) | -3
- nothing | null
-"a" | null
1 + null | null
1 + "a" | null
"a" + 1 | null
true + 1 | null
"a" + "b" | "ab"
"a" - "b" | null
[1] + [2] | null
0.1 + 0.2 | 0.3
1.0 + 1 | 2
.5 + .5 | 1
1e3 | 1000
1.5E-1 | 0.15
99999999999999999 + 1 | 100000000000000000
10 ** 33 + 1 | 1000000000000000000000000000000001
10 ** 40 + 1 = 10 ** 40 | true
10 ** 7000 | null
price * 3 | 0.3
amount / 4 | 62.5
1/3 * 3 | 0.9999999999999999999999999999999999
"""
PATHS = """
order.id | 7
order.customer.name | "Ada"
order.customer.nothing | null
order.nothing.name | null
missing | null
missing.name | null
name.length | null
order.items.sku | ["a", "b"]
order.items[n > 2].sku | ["b"]
order.items[1].sku | "a"
order.items[-1].sku | "b"
order.items[3] | null
order.items[0] | null
`a b` | "spaced"
{`a b`: 1}.`a b` | 1
{a b: 1}.`a b` | 1
{"a": {b: [1, 2]}}.a.b[2] | 2
{a: 1, b: a + 1, c: a + b} | {a: 1, b: 2, c: 3}
{} | {}
{a: nothing} | {a: null}
{null: 1}.null | 1
"""
FILTERS = """
[1, 2, 3][item > 1] | [2, 3]
[1, 2, 3][1] | 1
[1, 2, 3][-3] | 1
[1, 2, 3][4] | null
[1, 2, 3][1.5] | null
[][1] | null
[][item > 1] | []
[1, 2, 3][true] | [1, 2, 3]
[1, 2, 3][false] | []
[1, 2, 3][null] | []
[1, 2, 3][item = amount] | []
[{a: 1}, {a: 2}][a = 2] | [{a: 2}]
[{a: 1}, {a: 2}][item.a = 2].a | [2]
[{item: 1}, {item: 2}][item = 2] | [{item: 2}]
[1, 2, 3, 4][item > 1][item < 4] | [2, 3]
numbers[numbers[2]] | 3
5[1] | 5
5[item > 3] | [5]
nothing[1] | null
[[1, 2], [3]][1][2] | 2
[1, "a", 2][item > 1] | [2]
"""
CONTROL = """
if yes then 1 else 2 | 1
if no then 1 else 2 | 2
if nothing then 1 else 2 | 2
if 1 then 1 else 2 | 2
if no then 1 else if yes then 2 else 3 | 2
(if yes then 1 else 2) + 1 | 2
if yes then 1 else 2 + 10 | 1
for x in [1, 2, 3] return x * 2 | [2, 4, 6]
for x in 1..3 return x | [1, 2, 3]
for x in 3..1 return x | [3, 2, 1]
for x in -1..1 return x | [-1, 0, 1]
for x in [1, 2], y in [10, 20] return x + y | [11, 21, 12, 22]
for x in 1..3, y in x..3 return y | [1, 2, 3, 2, 3, 3]
for x in [] return x | []
for x in nothing return x | null
for x in 5 return x | [5]
for x in [1..3] return x | [1, 2, 3]
for x in 0..4 return if x = 0 then 1 else x * partial[-1] | [1, 1, 2, 6, 24]
for x in [[1, 2], [3]] return count(x) | [2, 1]
for order in [1] return order | [1]
some x in [1, 2, 3] satisfies x > 2 | true
some x in [1, 2, 3] satisfies x > 3 | false
some x in [] satisfies x > 3 | false
some x in [1, null] satisfies x > 3 | null
some x in [5, null] satisfies x > 3 | true
some x in [1, 2], y in [2, 3] satisfies x = y | true
every x in [1, 2, 3] satisfies x > 0 | true
every x in [1, 2, 3] satisfies x > 1 | false
every x in [] satisfies x > 1 | true
every x in [1, null] satisfies x > 0 | null
every x in [null, 1] satisfies x > 1 | false
every x in nothing satisfies x > 1 | null
some x in 1..10 satisfies x = 10 | true
"""
TYPES = """
1 instance of number | true
1.5 instance of number | true
"a" instance of string | true
true instance of boolean | true
true instance of number | false
[1] instance of list | true
{} instance of context | true
null instance of Null | true
null instance of number | false
null instance of Any | false
1 instance of Any | true
@"2026-01-01" instance of date | true
@"2026-01-01T00:00:00" instance of date and time | true
@"2026-01-01" instance of date and time | false
@"PT1H" instance of days and time duration | true
@"P1M" instance of years and months duration | true
@"10:00:00" instance of time | true
name instance of string and amount instance of number | true
"""
STRINGS = r"""
string length("Ada") | 3
string length("") | 0
string length("\U01F40E") | 1
string length("\uD83D\uDC0E") | 1
string length(1) | null
"a\"b" | "a\"b"
"\u0041" | "A"
"a\tb" != "a b" | true
substring("foobar", 3) | "obar"
substring("foobar", 3, 3) | "oba"
substring("foobar", -2, 1) | "a"
substring("foobar", 0) | null
substring("foobar", 10) | ""
substring(string: "foobar", start position: 3, length: 2) | "ob"
substring(start position: 3, string: "foobar") | "obar"
upper case("aBc4") | "ABC4"
lower case("aBc4") | "abc4"
substring before("foobar", "bar") | "foo"
substring before("foobar", "xyz") | ""
substring before("foobar", "") | ""
substring after("foobar", "ob") | "ar"
substring after("foobar", "xyz") | ""
substring after("foobar", "") | "foobar"
contains("foobar", "of") | false
contains("foobar", "ob") | true
contains("foobar", null) | null
starts with("foobar", "fo") | true
ends with("foobar", "r") | true
ends with("foobar", 1) | null
trim("  a b ") | "a b"
split("a;b;;c", ";") | ["a", "b", "", "c"]
split("a.b", "\.") | ["a", "b"]
split("a b", "\s") | ["a", "b"]
split("a", "") | null
split("a.b", ".") | ["a", "b"]
split("John Doe", "\s") | ["John", "Doe"]
to base64("FEEL") | "RkVFTA=="
to base64("é") | "w6k="
to base64(1) | null
string length(uuid()) | 36
uuid() = uuid() | false
string join(["a", "b"], "-") | "a-b"
string join(["a", null, "c"]) | "ac"
string join([], "-") | ""
string join(["a", "b"], ", ", "[", "]") | "[a, b]"
string join(["a", "b"], null, "<") | "<ab"
string join(["a", 1]) | null
is blank(" ") | true
is(1, 1.0) | true
is(1, "1") | false
is([1, true], [1, 1]) | false
is({a: [1]}, {a: [1.0]}) | true
is({a: 1}, {a: true}) | false
is([@"10:00:00Z"], [@"10:00:00"]) | false
is(null, null) | true
is(@"10:00:00Z", @"10:00:00") | false
is(@"2026-01-01T10:00:00Z", @"2026-01-01T12:00:00+02:00") | false
is(@"2026-01-01", @"2026-01-01") | true
to json({a: 1.5, b: [null, true, "x\"é"]}) | "{\"a\":1.5,\"b\":[null,true,\"x\\\"é\"]}"
to json(@"2026-01-02") | "\"2026-01-02\""
from json("{\"a\": [1, 2.5, null]}") | {a: [1, 2.5, null]}
from json("\"a\"") | "a"
from json("nope") | null
from json("NaN") | null
from json("1e400") | null
from json("\"\\ud800\"") | null
string(1.50) | "1.5"
string(null) | null
string("a") | "a"
string([1, "a", {b: null}]) | "[1, \"a\", {b:null}]"
string(true) | "true"
string(@"2026-01-02") | "2026-01-02"
string(@"PT90M") | "PT1H30M"
string(@"P14M") | "P1Y2M"
string(100000000000000000000) | "100000000000000000000"
number("1500.5") | 1500.5
number("1,500.5", ",", ".") | 1500.5
number("1.500,5", ".", ",") | 1500.5
number("1 500", " ") | 1500
number("a") | null
number("1", ",", ",") | null
number(from: "1 500,5", grouping separator: " ", decimal separator: ",") | 1500.5
"""
NUMBERS = """
decimal(1/3, 2) | 0.33
decimal(1.5, 0) | 2
decimal(2.5, 0) | 2
decimal(1234, -2) | 1200
decimal(1, 9000) | null
floor(1.5) | 1
floor(-1.5) | -2
floor(-1.56, 1) | -1.6
ceiling(1.5) | 2
ceiling(-1.5) | -1
ceiling(-1.56, 1) | -1.5
round up(5.5, 0) | 6
round up(-5.5, 0) | -6
round down(5.5, 0) | 5
round down(-5.5, 0) | -5
round half up(5.5, 0) | 6
round half up(-5.5, 0) | -6
round half down(5.5, 0) | 5
round half down(1.251, 1) | 1.3
abs(-10) | 10
abs(-0.5) | 0.5
abs(@"-PT5H") = @"PT5H" | true
modulo(12, 5) | 2
modulo(-12, 5) | 3
modulo(12, -5) | -3
modulo(-12, -5) | -2
modulo(10.1, 4.5) | 1.1
modulo(1, 0) | null
sqrt(16) | 4
sqrt(-1) | null
log(1) | 0
log(0) | null
exp(0) | 1
exp(100000) | null
odd(5) | true
odd(2) | false
even(2) | true
even(-5) | false
floor("a") | null
"""
PATTERNS = r"""
matches("foobar", "^fo*b") | true
matches("foobar", "o.b") | true
matches("foobar", "^bar") | false
matches("FOO", "foo") | false
matches("FOO", "foo", "i") | true
matches("a\nb", "^b", "m") | true
matches("a\nb", "a.b") | false
matches("a\nb", "a.b", "s") | true
matches(null, "a") | null
matches(input: "abc", pattern: "b") | true
replace("abcd", "(ab)|(a)", "[1=$1][2=$2]") | "[1=ab][2=]cd"
replace("0123456789", "(\d{3})(\d{3})(\d{4})", "($1) $2-$3") | "(012) 345-6789"
replace("abracadabra", "bra", "*") | "a*cada*"
replace("Price 5", "(?:\d)", "\$$0") | "Price $5"
replace("ABC", "b", "-", "i") | "A-C"
replace("äöü", "ö", "漢") | "ä漢ü"
extract("references are 1234, 1256, 1378", "12[0-9]*") | ["1234", "1256"]
extract("none", "[0-9]+") | []
split("a1b22c", "\d+") | ["a", "b", "c"]
split("a, b;c", "[,;]\s*") | ["a", "b", "c"]
split("12ab", "\d") | ["", "", "ab"]
split("abc", "x*") | ["a", "b", "c", ""]
replace("a\nb\nc", "^", "> ", "m") | "> a\n> b\n> c"
replace("a\nb", "$", ";", "m") | "a;\nb;"
replace("foo bar", "\b", "_") | "_foo_ _bar_"
replace("abb", "b*", "-") | "-a--"
count(extract("foo bar", "\b")) | 4
split("foo bar", "\b") | ["foo", " ", "bar", ""]
"""
LISTS = """
list contains([1, 2], 2) | true
list contains([1, null], null) | true
list contains([1, 2], "2") | false
count([1, 2]) | 2
count([]) | 0
count(nothing) | null
min([3, 1, 2]) | 1
min(3, 1, 2) | 1
min([]) | null
min([1, "a"]) | null
max("b", "a") | "b"
max(@"2026-01-01", @"2026-01-02") = @"2026-01-02" | true
sum([1, 2.5]) | 3.5
sum(1, 2) | 3
sum([]) | null
sum(["a"]) | null
product(2, 3, 4) | 24
mean([1, 2, 6]) | 3
mean(1) | 1
median(8, 2, 5, 3, 4) | 4
median([6, 1, 2, 3]) | 2.5
median([]) | null
stddev(2, 4, 7, 5) | 2.081665999466132735282297706979931
stddev(1) | null
mode(6, 3, 9, 6, 6) | [6]
mode([6, 1, 9, 6, 1]) | [1, 6]
mode([]) | []
all([true, true]) | true
all([true, null]) | null
all([false, null]) | false
all([]) | true
all(true, false) | false
any([false, true]) | true
any([false, null]) | null
any([]) | false
sublist([4, 5, 6], 1, 2) | [4, 5]
sublist([4, 5, 6], 2) | [5, 6]
sublist([4, 5, 6], -2) | [5, 6]
sublist([4], 5) | null
append([1], 2) | [1, 2]
append([1], [2]) | [1, [2]]
concatenate([1], [2, 3]) | [1, 2, 3]
concatenate([1], 2) | null
insert before([1, 3], 1, 2) | [2, 1, 3]
insert before([1], 3, 2) | null
remove([1, 2, 3], 2) | [1, 3]
remove([1], 2) | null
reverse([1, 2, 3]) | [3, 2, 1]
index of([1, 2, 3, 2], 2) | [2, 4]
index of([1], 5) | []
union([1, 2], [2, 3]) | [1, 2, 3]
distinct values([1, 2, 1, "1", null, null]) | [1, 2, "1", null]
duplicate values([1, 2, 1, 3, 3]) | [1, 3]
flatten([[1, [2]], [[[3]]], 4]) | [1, 2, 3, 4]
append([1], 2, 3) | [1, 2, 3]
append([1], [2], null) | [1, [2], null]
append(list: [1], item: 2) | [1, 2]
partition([1, 2, 3, 4, 5], 2) | [[1, 2], [3, 4], [5]]
partition([], 2) | []
partition([1], 0) | null
sort([3, 1, 2]) | [1, 2, 3]
sort(["b", "a"]) | ["a", "b"]
sort([1, "a"]) | null
is empty([]) | true
is empty([null]) | false
list contains(list: [1], element: 1) | true
sum(order.items.n) | 7
"""
CONTEXTS = """
get value({a: 1}, "a") | 1
get value({a: 1}, "b") | null
get value({a: {b: 2}}, ["a", "b"]) | 2
get entries({a: 1}) | [{key: "a", value: 1}]
get entries({a: 1, b: 2}).key | ["a", "b"]
context put({a: 1}, "b", 2) | {a: 1, b: 2}
context put({a: 1}, "a", 2) | {a: 2}
context put({a: {b: 1}}, ["a", "c"], 2) | {a: {b: 1, c: 2}}
context put({}, ["a", "b"], 1) | {a: {b: 1}}
context merge([{a: 1}, {b: 2}]) | {a: 1, b: 2}
context merge({a: 1}, {a: 2}) | {a: 2}
context([{key: "a", value: 1}]) | {a: 1}
context([{key: "a", value: 1}, {key: "a", value: 2}]) | null
context([{key: "a"}]) | null
get or else(nothing, 1) | 1
get or else(2, 1) | 2
is defined(nothing) | false
is defined(amount) | true
"""
TEMPORAL = """
date("2026-02-30") | null
date("26-02-03") | null
date("2026-01-01T10:00:00") | null
date(2026, 1, 2) = @"2026-01-02" | true
date(2026, 13, 2) | null
date(@"2026-01-02T10:00:00") = @"2026-01-02" | true
time("25:00:00") | null
time(10, 30, 0) = @"10:30:00" | true
time(10, 30, 0, @"PT1H") = @"10:30:00+01:00" | true
date and time("2026-01-02") = @"2026-01-02T00:00:00" | true
date and time(@"2026-01-02", @"10:00:00") = @"2026-01-02T10:00:00" | true
date and time(@"2026-01-02T10:00:00Z", "Europe/Berlin") = @"2026-01-02T11:00:00@Europe/Berlin" | true
duration("P1D") = @"PT24H" | true
duration("P1Y") = @"P12M" | true
duration("P1Y1D") | null
duration("P") | null
duration("PT") | null
duration("-PT5M") = -@"PT5M" | true
@"P1D" = @"P1M" | null
@"2026-01-01" + @"P1D" = @"2026-01-02" | true
@"2026-01-31" + @"P1M" = @"2026-02-28" | true
@"2026-01-31" - @"P1M" = @"2025-12-31" | true
@"2026-03-01" - @"2026-02-01" = @"P28D" | true
@"P1D" + @"2026-01-01" = @"2026-01-02" | true
@"9999-12-31" + @"P1D" | null
@"2026-01-01" + 1 | null
@"2026-01-01" + @"2026-01-01" | null
@"2026-03-29T01:30:00@Europe/Berlin" + @"PT1H" = @"2026-03-29T03:30:00@Europe/Berlin" | true
@"2026-03-29T12:00:00@Europe/Berlin" - @"2026-03-28T12:00:00@Europe/Berlin" = @"PT23H" | true
@"10:00:00+01:00" = @"09:00:00Z" | true
@"10:00:00@UTC" = @"10:00:00Z" | true
@"10:00:00@Europe/Paris" > @"09:00:00@Europe/Paris" | true
@"10:00:00@Europe/Paris" - @"09:00:00@Europe/Paris" = @"PT1H" | true
@"10:00:00@Europe/Paris" - @"10:00:00Z" | null
@"10:00:00@Europe/Paris" = @"10:00:00@Europe/Berlin" | null
@"10:00:00@Europe/Paris" < @"10:00:00" | null
time(now()) > time("09:00:00@Europe/Berlin") | null
max([@"10:00:00@Europe/Paris", @"10:00:00Z"]) | null
@"10:00:00@Europe/Paris" in [@"09:00:00Z"..@"11:00:00Z"] | null
@"9999-12-31T23:59:59-05:00" > now() | true
@"0001-01-01T00:00:00+02:00" < now() | true
@"9999-12-31T23:59:59-05:00" - @"9999-12-31T23:59:59-04:00" = @"PT1H" | true
@"9999-12-31T23:59:59@America/New_York" > @"9999-12-31T23:59:59Z" | true
@"0001-01-01T00:00:00@Asia/Tokyo" < @"0001-01-01T00:00:00Z" | true
date and time(@"9999-12-31T23:59:59-05:00", "Europe/Berlin") | null
-@"P999999999DT23H59M59S" | null
@"P1M" * 10 ** 6000 | null
10 ** 6000 * @"P1M" | null
@"P1M" / 10 ** -6000 | null
@"P999999999Y" + @"P999999999Y" | null
-@"P999999999Y" - @"P999999999Y" | null
string(@"P1M" * 10 ** 6000) | null
@"P5M" * 0.5 = @"P2M" | true
@"2026-01-01T10:00:00Z" = @"2026-01-01T11:00:00+01:00" | true
@"2026-01-01T10:00:00Z" < @"2026-01-01T10:30:00+01:00" | false
@"2026-01-01T10:00:00Z" = @"2026-01-01T10:00:00" | null
@"2026-01-01T10:00:00Z" > @"2026-01-01T10:00:00" | null
@"23:00:00" + @"PT2H" = @"01:00:00" | true
@"01:00:00" - @"PT2H" = @"23:00:00" | true
@"10:00:00" - @"09:00:00" = @"PT1H" | true
@"PT1H" * 2 = @"PT2H" | true
2 * @"PT1H" = @"PT2H" | true
@"PT1H" / 2 = @"PT30M" | true
@"PT1H" / @"PT30M" | 2
@"P1Y" / @"P1M" | 12
@"P1Y" / 5 = @"P2M" | true
@"P1M" * 2.5 = @"P2M" | true
@"PT1H" / 0 | null
@"PT0S" / 0 | null
@"P1Y" / 0 | null
@"P0M" / 0 | null
@"P0M" / @"P0M" | null
@"PT1H" - @"PT2H" = @"-PT1H" | true
@"PT1H" < @"PT2H" | true
@"P1M" < @"P1D" | null
@"2026-01-02".year | 2026
@"2026-01-02".month | 1
@"2026-01-02".day | 2
@"2026-01-02".weekday | 5
@"2026-01-02T10:20:30".hour | 10
@"10:20:30".minute | 20
@"10:20:30+02:00".time offset = @"PT2H" | true
@"10:20:30".time offset | null
@"2026-01-02T10:20:30@Europe/Berlin".timezone | "Europe/Berlin"
@"P1DT2H3M4S".days | 1
@"P1DT2H3M4S".hours | 2
@"P1DT2H3M4S".minutes | 3
@"P1DT2H3M4S".seconds | 4
@"-P1DT2H".days | -1
@"P14M".years | 1
@"P14M".months | 2
@"-P14M".years | -1
@"-P14M".months | -2
day of week(@"2026-01-02") | "Friday"
day of year(@"2026-02-01") | 32
week of year(@"2026-01-01") | 1
month of year(@"2026-01-02") | "January"
last day of month(@"2024-02-10") = @"2024-02-29" | true
years and months duration(@"2025-01-15", @"2026-03-14") = @"P1Y1M" | true
years and months duration(@"2026-03-14", @"2025-01-15") = @"-P1Y1M" | true
now() = @"2026-03-29T12:30:00Z" | true
today() = @"2026-03-29" | true
string(@"2026-01-02T10:20:30.5+02:00") | "2026-01-02T10:20:30.5+02:00"
string(@"10:00:00Z") | "10:00:00Z"
string(@"-P1DT1S") | "-P1DT1S"
string(@"PT0S") | "PT0S"
string(@"P0M") | "P0M"
"""
RANGES = """
before(1, 10) | true
before(10, 1) | false
before([1..5], 6) | true
before([1..5), [5..9]) | true
before([1..5], [5..9]) | false
after(10, 1) | true
meets([1..5], [5..9]) | true
meets([1..5), [5..9]) | false
met by([5..9], [1..5]) | true
overlaps([1..5], [3..9]) | true
overlaps([1..5), [5..9]) | false
overlaps before([1..5], [4..10]) | true
overlaps before([3..4], [1..2]) | false
overlaps before([1..3], (3..5]) | false
overlaps before([1..5], (3..8]) | true
overlaps before([1..5), [1..5]) | false
overlaps before([1..5], (1..5]) | true
overlaps before([1..9], [2..8]) | false
overlaps after([4..10], [1..5]) | true
overlaps after([3..4], [1..2]) | false
overlaps after((3..8], [1..5]) | true
overlaps after([1..2], ["a".."b"]) | null
includes([1..10], 5) | true
includes([1..10], [1..5]) | true
includes((1..10], [1..5]) | false
during(5, [1..10]) | true
starts(1, [1..10]) | true
starts(1, (1..10]) | false
finishes(10, [1..10]) | true
started by([1..10], 1) | true
started by((1..10], 1) | false
started by([1..10], [1..5]) | true
finished by([1..10], [5..10]) | true
finished by([1..10), 10) | false
coincides([1..5], [1..5]) | true
coincides(3, 4) | false
before(1, "a") | null
[1..5].start | 1
(1..5].start included | false
["a"..1] | null
"""
TABLES = {
    "logic": LOGIC,
    "comparison": COMPARISON,
    "in": IN,
    "arithmetic": ARITHMETIC,
    "paths": PATHS,
    "filters": FILTERS,
    "control": CONTROL,
    "types": TYPES,
    "strings": STRINGS,
    "patterns": PATTERNS,
    "numbers": NUMBERS,
    "lists": LISTS,
    "contexts": CONTEXTS,
    "temporal": TEMPORAL,
    "ranges": RANGES,
}


@pytest.mark.parametrize(("source", "expected"), [row for text in TABLES.values() for row in table(text)])
def test_means_the_same(source, expected):
    found, wanted = value(source), value(expected)
    assert same(found, wanted), f"{found!r}, expected {wanted!r}"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("1 + 1", 2),
        ("1.0", 1),
        ("0.5", Decimal("0.5")),
        ("1/3", Decimal("0.3333333333333333333333333333333333")),
        ("true", True),
        ("null = 1", False),
        ('"a"', "a"),
        ("null", None),
        ("[1, [2]]", [1, [2]]),
        ('{a: "x"}', {"a": "x"}),
        ('date("2026-01-02")', date(2026, 1, 2)),
        ('time("10:20:30.25")', time(10, 20, 30, 250000)),
        ('time("T10:20:30")', time(10, 20, 30)),
        ('date and time("2026-01-02T10:00:00Z")', datetime(2026, 1, 2, 10, tzinfo=UTC)),
        (
            'date and time("2026-01-02T10:00:00-05:30")',
            datetime(2026, 1, 2, 10, tzinfo=timezone(-timedelta(hours=5, minutes=30))),
        ),
        (
            '@"2026-07-02T10:00:00@Europe/Berlin"',
            datetime(2026, 7, 2, 10, tzinfo=ZoneInfo("Europe/Berlin")),
        ),
        ('duration("P1DT2H")', timedelta(days=1, hours=2)),
        ('duration("P1Y2M")', Months(14)),
        ('duration("P2W")', timedelta(weeks=2)),
        ('duration("PT0.5S")', timedelta(seconds=0.5)),
    ],
)
def test_values_are_those_of_python(source, expected):
    check(source, expected)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("0.1 + 0.2", 0.3),
        ("0.1 + 0.2 = 0.3", True),
        ("amount * 1.19", 297.5),
        ("amount * 1.2", 300),
        ("1/3", 0.3333333333333333),
        ("1e40", 1e40),
        ("-1e-400", 0.0),
        ("[0.5, {a: [price * 1.5]}]", [0.5, {"a": [0.15]}]),
        ("{a: 1.5}.a", 1.5),
        ("[1.5, 2][1]", 1.5),
        ("if yes then 1.5 else 2", 1.5),
        ('date("2026-01-02")', "2026-01-02"),
        ("now()", "2026-03-29T12:30:00Z"),
        ("time(now())", "12:30:00Z"),
        ('@"10:00:00@Europe/Berlin"', "10:00:00@Europe/Berlin"),
        ('@"2026-07-02T10:00:00@Europe/Berlin"', "2026-07-02T10:00:00+02:00"),
        ('@"2026-07-02T10:00:00.25"', "2026-07-02T10:00:00.25"),
        ('duration("P1Y2M")', "P1Y2M"),
        ('-duration("P1DT2H")', "-P1DT2H"),
        ("[1..3]", "[1..3]"),
        ("{a: (1.5..2], b: [now()]}", {"a": "(1.5..2]", "b": ["2026-03-29T12:30:00Z"]}),
    ],
)
def test_a_result_is_json(source, expected):
    found = parse(source, "feel").evaluate(VARIABLES, EvaluationContext(now=lambda: NOW))
    assert found == expected
    assert type(found) is type(expected), f"{found!r} is a {type(found).__name__}"
    assert json.loads(json.dumps(found)) == expected


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ('assert(amount, amount > 300, "too little")', "too little"),
        ("assert(nothing, nothing != null)", "the condition of assert() is not true"),
        ('matches("a", "(")', "matches() takes a regular expression of RE2, got '(': missing )"),
        ('matches("a", "(?=a)")', "invalid perl operator"),
        ('matches("a", "a", "x")', "matches() knows the flags i, m and s, got 'x'"),
        ('replace("a", "a", "$1")', "replace() takes $0 to $0 and \\$ in a replacement, got '$1'"),
        ('replace("a", "a", "$")', "in a replacement, got '$'"),
        ('split("a", "(a")', "split() takes a regular expression of RE2"),
    ],
)
def test_an_evaluation_that_fails(source, reason):
    with pytest.raises(EvaluationError) as caught:
        value(source)
    assert reason in str(caught.value)


def test_assert_returns_the_value():
    assert value('assert(amount, amount > 200, "too little")') == 250


def test_a_random_number():
    assert all(0 <= value("random number()") < 1 for _ in range(100))


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ('matches("a", "a")', "'matches' is not a registered function"),
        ('split("ab", "a|b")', "split() by a regular expression needs google-re2: install jobexec with the extra re2"),
    ],
)
def test_patterns_without_re2(monkeypatch, source, reason):
    monkeypatch.setattr(patterns, "re2", None)
    monkeypatch.delitem(FEEL_FUNCTIONS._by_name, "matches")
    with pytest.raises(EvaluationError) as caught:
        value(source)
    assert reason in str(caught.value)
    assert value('split("a b", "\\s")') == ["a", "b"]


@pytest.mark.parametrize("source", ["1e400", "[-1e400]", "{a: 1e300 * 1e300}"])
def test_a_result_that_json_has_no_number_for(source):
    with pytest.raises(LimitExceeded, match=r"400|600") as caught:
        parse(source, "feel").evaluate({})
    assert "is too large for a number of JSON" in caught.value.reason
    assert caught.value.source == source


def test_a_variable_stays_what_the_project_has_made_it():
    orders = [{"price": Decimal("0.10")}]
    for source, expected in (("orders", orders), ("orders[1].price", Decimal("0.10")), ("orders[1].price * 2", 0.2)):
        found = parse(source, "feel").evaluate({"orders": orders})
        assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize("source", ["= amount > 100", "=amount>100", "  =\n amount > 100", "amount > 100"])
def test_the_sign_of_zeebe_is_optional(source):
    assert value(source) is True


def test_comments_and_line_breaks():
    assert value("1 + // one\n 2 /* and\n two */ + 3") == 6


def test_names_of_keywords_in_backticks():
    assert value("`if` + 1", {"if": 2}) == 3


def test_functions_of_the_project():
    context = EvaluationContext(functions={"shop.price": lambda order, factor: order["id"] * factor})
    assert parse("=shop.price(order, 2) + 1", "feel").evaluate(VARIABLES, context) == 15


@pytest.mark.parametrize(
    ("source", "position", "reason"),
    [
        ("", 0, "expected an expression"),
        ("=", 1, "expected an expression"),
        ("1 +", 3, "expected a value, found the end"),
        ("1 2", 2, "expected an operator or the end, found 2"),
        ("(1", 2, "expected ')', found the end"),
        ("[1, ", 4, "expected a value, found the end"),
        ("[1..2", 5, "expected ']', ')' or '['"),
        ("{a 1}", 3, "expected ':'"),
        ("{a: 1, a: 2}", 0, "given twice"),
        ('"abc', 0, "has no end"),
        ("a ~ b", 2, "unexpected character '~'"),
        ("if a then b", 11, "expected 'else'"),
        ("for x in y", 10, "expected 'return'"),
        ("some x in y return 1", 12, "expected 'satisfies'"),
        ("a instance of thing", 2, "'thing' is not a type"),
        ('@"2026-02-30"', 0, "is neither a date"),
        ("abs(1, 2)", 0, "abs() cannot be called with these arguments; expected abs(n)"),
        ("append([1])", 0, "expected append(list, item)"),
        ("substring(1)", 0, "substring(string, start position, length)"),
        ("substring(text: 1)", 0, "cannot be called with these arguments"),
        ("substring(string: 1, 2)", 0, "a name for all arguments or for none"),
        ("shop.price(order: 1)", 0, "takes its arguments by position"),
        ("function(x) x", 0, "does not execute functions"),
        ("a.b[1](2)", 6, "only a function can be called"),
        ("x in (1, ", 9, "expected a value"),
        ("1 between 2", 11, "expected 'and'"),
        ('"\\U110000"', 0, "is not a character"),
        ('"\\uD800"', 0, "half a surrogate"),
        ("1e99999", 0, "too large"),
    ],
)
def test_errors_have_a_position(source, position, reason):
    with pytest.raises(ValueError) as caught:
        parse(source, "feel")
    assert reason in caught.value.reason
    assert caught.value.position == position
    assert caught.value.source == source
