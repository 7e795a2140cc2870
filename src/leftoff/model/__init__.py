"""Values only: records, runs, versions, state, codec, digest. Nothing here does I/O or asks the time."""
