"""Repairing a store: what is damaged is set aside, what is whole is kept."""
