"""claude: one file per checkpoint, its parallel operations, its prompt."""
