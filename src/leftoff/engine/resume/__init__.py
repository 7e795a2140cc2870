"""Checking the world before a run goes on, and saying why it may or may not.

Each check is a small unit: it looks at one thing and gives findings. A finding has a level, a stable code, a sentence,
a hint, and what it is about. The worst level is the verdict: `resume` goes on, `warn` goes on and says so, `ask` needs
a person, `refuse` cannot go on. What is read from the store is read in one snapshot; what waits (git, files, an issue
tracker) is asked outside of it, several at once.
"""
