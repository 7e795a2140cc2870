"""Workflow files and whatever works for them: running one, going on apart, ending it, the steps that agents do."""
