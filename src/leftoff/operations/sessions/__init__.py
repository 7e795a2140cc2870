"""Sessions of agents, as their hooks tell of them: which run each works on, and what is kept there."""
