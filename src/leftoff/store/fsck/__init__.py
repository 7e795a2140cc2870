"""Checking a store: every byte that can be checked, each problem with its place."""
