"""One-off state files that follow no protocol."""
