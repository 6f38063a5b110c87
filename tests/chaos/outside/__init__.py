"""Workers outside of Django that are killed and paused, gateways and executors that die, and a judge of all of it.

    python -m tests.chaos.outside --seconds 20 --seed 7

The sibling of :mod:`tests.chaos` for external jobs. `driver` plays it: `life` is that of a worker that talks over
gRPC, REST or straight to the operations (`talk`), `gateway` a gateway, `people` make jobs and interfere, `faults`
befall all of them. `instrument` makes gateways tell whom they gave what. `state` reads the database at the end,
`history` puts it together with the journal, `rules` say what is wrong, and `breaks` are guards that can be taken away
to see that.
"""
