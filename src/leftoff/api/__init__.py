"""The Python API: runs as objects. Everything it does is an operation of the engine; it adds the buffer, the cache,
the step contexts and the heartbeat."""
