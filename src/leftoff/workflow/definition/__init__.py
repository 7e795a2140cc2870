"""Definitions: a workflow file, read, checked, and as plain values."""
