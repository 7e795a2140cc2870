"""Values only: records, runs, versions, state, codec, digest, upgrades. Nothing here does I/O or asks the time."""
