"""Questions to a person at a terminal, and what is done about the answers."""
