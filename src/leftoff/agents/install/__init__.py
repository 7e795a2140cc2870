"""Set up a coding agent: hooks, the MCP server, a skill and two commands, and remove them again.

``recipes`` says what each agent needs and where. ``settings_text`` edits the text of a settings file. ``install_plan``
computes every change first, then writes. ``install_check`` reports whether the hooks fire.
"""
