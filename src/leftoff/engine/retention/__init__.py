"""What is kept, for how long, and what a run is carried in: prune, archive, bundles, fsck."""
