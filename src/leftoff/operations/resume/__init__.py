"""Going on with a run, and the verdict that is asked for first."""
