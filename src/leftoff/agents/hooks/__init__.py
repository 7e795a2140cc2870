"""Hooks: the events of an agent's session, recorded without the agent knowing.

An agent calls `leftoff hook NAME` with an event as JSON on stdin. The hook exits 0, prints only what the event may
print, and logs errors in `.leftoff/hook.log`.
"""
