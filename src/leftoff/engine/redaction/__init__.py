"""Keeping secrets out of the store."""
