"""The life of a run: started, forked, rolled back, finished; and the sessions that work on it."""
