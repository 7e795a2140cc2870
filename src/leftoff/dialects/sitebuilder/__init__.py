"""sitebuilder: one checkpoint per task, a status page, a message to the orchestrator."""
