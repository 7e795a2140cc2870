"""The cases; each module registers its own when imported."""
