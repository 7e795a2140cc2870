"""Durable functions: ``@leftoff.step`` and ``@leftoff.workflow``.

The idea is replay. A workflow is an ordinary function that is called again from its first line when its run is resumed;
each step that it calls and that is finished returns its recorded result instead of running. So a step must be known
again: its identity is a path, made of the branches it is in and the number of the call within the innermost one, and a
digest of its arguments says whether it is still the same call.

=================  =========================================================================
``decorators``     what users write; checks options where the function is defined
``options``        retries, timeouts, keys, versions
``callables``      a step or a workflow as an object: call it, ``map``, ``defer``, ``run``, ``resume``
``scope``          where a call is made: which run, which branch, which number
``call``           one call: replay it, or begin, record, repeat it; no waiting in there
``bodies``         making a call, in a thread or in a coroutine
``maps``           many calls at a time; ``crews`` has the threads
``handles``        calls that are under way while the workflow goes on
``opening``        which run a call of ``run`` or ``resume`` goes on with
``runs``           executing a workflow on that run
``flow``           such an execution: whether its calls follow what was recorded, and how it ends
``records``        what is written of a step, and when its start is told
``replayed``       a recorded failure as an exception
=================  =========================================================================
"""
