"""Taking in documents: finding them, reading them, and a report of what came of each."""
