"""The page: every run in a browser, live, and what a person may decide; a face over operations alone.

``app`` puts the routes together, ``security`` stands in front of all of them, ``screens`` are the pages (a view each,
in ``views``, and a template each), ``events`` the stream that makes pages live, ``server`` the process. Nothing here
knows a store; whatever is a rule is an operation.
"""
