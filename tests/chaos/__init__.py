"""A cluster that is killed, paused, cut off and argued with, and a judge that reads what it did.

    python -m tests.chaos --nodes 4 --seconds 60 --seed 7

`__main__` starts it, `driver` plays it: `nodes` are real executors, `faults` what befalls them, `people` those who
enqueue and interfere. Every process writes a `journal` outside of the job tables. At the end `state` reads the
database, `history` puts both together, and `rules` say what is wrong. `breaks` are guards of jobexec that can be taken
away on purpose, to see that the judge notices. `docs/explanation/chaos.md` says what is proven, and how.
"""
