"""What is kept, for how long, and what a run is carried in: archive, trash, prune, bundles, fsck."""
