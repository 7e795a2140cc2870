"""Agents without a screen: a step of a workflow that an agent does.

The step's command is ``leftoff.agents.headless.agent_step``: it starts the agent's own command line, reads what
that prints, and keeps the session's id in the step's record before the agent starts, so that a crash can resume the
conversation.
"""
