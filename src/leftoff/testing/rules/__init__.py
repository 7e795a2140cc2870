"""The stores' obligations, one module for each kind. ``leftoff.testing.contract`` puts them together."""
