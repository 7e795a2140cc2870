# FROM THE LEAD, 16:05. Read, then delete this file (never commit it).
# Main holds h9's install and h10's agent action, and your commits up to 288e8d3 are merged with "ours" (your versions of
# install and headless were set aside; your install property test passes on h9's). MERGE MAIN NOW
# (`git stash; git fetch /work/main main && git merge FETCH_HEAD; git stash pop`) and work ONLY on hooks, sessions and captures:
# findings 4-9, 20, 21, 23, 24, 26, 27, 28, 30, 31 of /tmp/r3/review7.md.
this is no Python: read the comment above, then delete this file
