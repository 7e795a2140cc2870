"""The two halves of each comparison: leftoff through its public API, and each peer through its own."""
