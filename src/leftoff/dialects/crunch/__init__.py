"""crunch: a YAML file per checkpoint, one run per issue, its configuration."""
