"""Writing: the commit, what it applies, who may make it, and reports."""
