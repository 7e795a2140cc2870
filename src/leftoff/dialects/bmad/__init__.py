"""bmad: `state.json` in a folder per run, its events, its files."""
