# FROM THE LEAD, 15:55. Read, then delete this file (never commit it).
# /work/main now has the issue 5 fixer's cf7d899 ("a protocol's doubts are findings...; a rewind asks before it goes back;
# a killed rollback is noticed"), which touches the same files as your ef69012. Commit what you have, then MERGE MAIN NOW
# (`git fetch /work/main main && git merge FETCH_HEAD`): ten files conflict (cli/decide, drive, execute, verb_resume,
# engine/pickup, engine/verify/verify, workflow/recover, resumption, verdict, verify). You know your change best: your one
# set of questions wins, their findings of dialects and of a cut-short rollback stay. Run tests/verify tests/workflow
# tests/cli/test_resume* tests/dialects afterwards, commit the merge, and tell nobody: the lead fetches it from /tmp/h8.
# Also yours by now: F28, F35, F37, F42, last part of F29 of /tmp/r3/review5.md (if not done).
this is no Python: read the comment above, then delete this file
