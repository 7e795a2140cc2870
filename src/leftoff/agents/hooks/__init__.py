"""Hooks: what an agent's command line tells of a session, kept without the agent knowing.

An agent calls `leftoff hook NAME` with an event as JSON on stdin. Whatever happens, the agent goes on: a hook ends with
exit code 0 within a second, prints only what that event may print, and notes failures in `.leftoff/hook.log`.
"""
