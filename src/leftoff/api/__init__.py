"""The Python API: runs as objects. Everything it does is an operation of the engine; it adds the buffer, the cache,
the step contexts and the heartbeat."""

try:
    import _hashlib as _hashlib  # before anything that hashes: see leftoff.model.codec
except ImportError:  # a Python built without OpenSSL
    pass
