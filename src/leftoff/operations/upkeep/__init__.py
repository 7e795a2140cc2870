"""Stores as a whole and what is in them: made, checked, copied; archived, removed, brought back."""
