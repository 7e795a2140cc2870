"""Durable functions: ``@leftoff.step`` and ``@leftoff.workflow``.

The idea is replay. A workflow is an ordinary function that is called again from its first line when its run is resumed.
Each finished step that it calls returns its recorded result instead of running. So a step must be recognised: its
identity is a path, made of the branches it is in and the number of the call within the innermost one. A digest of its
arguments says whether it is still the same call.

=================  ==============================================================================
``durable``        what users write: decorators, options, and steps and workflows as objects
``running``        making calls, in threads or coroutines: one, ``map``, ``defer``
``calls``          one call: replay it, or begin, record, repeat it; nothing waits in there
``replay``         an execution: where its calls are made, whether they follow the record, how it ends
``durable_runs``   which run a call of ``run`` or ``resume`` continues
=================  ==============================================================================
"""
