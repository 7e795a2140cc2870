"""GSD: `.planning/STATE.md`, a page whose position and last session are kept in step."""
