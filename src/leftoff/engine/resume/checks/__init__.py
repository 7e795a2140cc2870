"""The checks: each compares one part of the world with what a run says of it."""
