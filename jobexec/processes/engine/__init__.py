"""Moves the tokens of process instances. Pure Python: the changes are values, which the caller stores.

``step(rows, event, environment)`` makes one step: from one event (``inputs``) until every token waits again. It gets
the rows of a call hierarchy (``tokens.Tokens``), all of them, and gives back what changed (``tokens.Changes``). It
writes nothing, and asks the ``environment`` for all that it does not know: expressions, handlers, definitions, ids, the
time.

=================  ================================================================================================
file               what it has
=================  ================================================================================================
``step``           how each event begins, and the loop
``arrivals``       one arrival of a token at an element: enter, begin, complete, depart
``tasks``          tasks in the step, outside, at workers, for people
``gateways``       decisions; the event-based gateway
``joins``          the parallel and the inclusive join
``loops``          multi-instances
``calls``          call activities
``scopes``         sub-processes, event sub-processes, terminate, the end of an instance
``boundary``       boundary events
``events``         arms timers, messages and signals
``triggers``       what happens when one of them arrives; throws signals
``errors``         errors, failures and escalations, and what catches them
``compensation``   records completed activities, and undoes them
``cancel``         ends what is not finished
``modify``         changes by operators
``moves``          what all of these share: rows, environment, agenda
=================  ================================================================================================

The engine relies on no other process changing these rows meanwhile. The code that stores them locks the root instance
first. A handler that is to run before the lock runs in a step on a copy of the rows: an environment whose ``call`` runs
the first handler and then raises, and which gives its result to the step under the lock.
"""
