"""Continuing a run: what is asked for, what is checked first, which answers it takes, and how it is opened again."""
