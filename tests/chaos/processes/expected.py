"""What instances must have done when they end: for each process and each of its ends, how often each task was done."""

#: The branches of the flow that is wide.
BRANCHES = tuple(f"w{number}" for number in range(12))
#: Ends of flows have no names: the tasks say which way was taken.
ENDS: dict[str, dict[str, dict[str, int]]] = {
    "chaos-fork": {"done": {"hotel": 1, "flight": 1, "concert": 1, "taxi": 1, "after": 1}},
    "chaos-late": {"done": {"wait": 1, "paid": 1, "book": 1}, "too-late": {"remind": 1}},
    "chaos-gate": {"answered": {"answer": 1, "yes": 1}, "unanswered": {"silence": 1, "no": 1}},
    "chaos-call": {"done": {"child": 1, "after": 1}, "failed": {"sorry": 1}},
    "chaos-called": {"checked": {"left": 1, "right": 1, "check": 1}},
    "chaos-items": {"done": {"beside": 4, "one-by-one": 3}},
    "chaos-doomed": {},
    "chaos-chain": {"": {"a": 1, "b": 1, "c": 1}},
    "chaos-wide": {"": {**dict.fromkeys(BRANCHES, 1), "c": 1}},
    "chaos-flow": {
        "approved": {"a": 1, "b": 1, "c": 1, "wait": 1, "d": 1},
        "timed out": {"a": 1, "b": 1, "c": 1, "e": 1},
    },
}
#: What writes a row in the transaction of its step.
IN_STEPS = frozenset(
    [
        "hotel",
        "flight",
        "concert",
        "taxi",
        "after",
        "paid",
        "book",
        "remind",
        "yes",
        "no",
        "sorry",
        "left",
        "right",
        "check",
        "beside",
        "one-by-one",
        "broken",
    ]
)
#: What runs outside, and what undoes it.
OUTSIDE = ("a", "b", "c", "d", "e", *BRANCHES)
UNDONE = ("a", "b", "c")
