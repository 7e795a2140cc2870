"""The same crashes played with leftoff and its peers: `make compare`."""
