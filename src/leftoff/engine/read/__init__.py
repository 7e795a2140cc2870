"""Reading: the state of a run, what a REF names, listings, the brief, differences, history."""
