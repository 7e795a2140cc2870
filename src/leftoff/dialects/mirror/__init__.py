"""The mirror: a protocol's files kept in step with the store, in both directions."""
