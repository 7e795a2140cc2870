"""Where work happens and who asks for it: the project, its settings, the caller."""
