"""Looking on while others work: what changes, what steps print, which runs died."""
