"""Which tests belong to which guarantee, and how they test it: the table of the reliability page."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Guarantee:
    """One of the guarantees. `tests` are patterns of files below `tests`."""

    number: str
    words: str
    how: str
    tests: tuple[str, ...]


GUARANTEES = (
    Guarantee(
        "G1",
        "A commit that returned survives `kill -9` and a power cut.",
        "A parent process kills writers at random moments and at every system call of a commit, makes each system call "
        "fail with a full disk and an I/O error, and cuts the power of a disk image. Then it compares the store with "
        "what the writer had acknowledged.",
        (
            "crash/test_kill.py",
            "crash/test_power.py",
            "crash/test_syscalls.py",
            "crash/test_full_disk.py",
            "contract/*",
            "agents/test_spool.py",
            "postgres/test_failures.py",
            "postgres/test_faults.py",
            "postgres/test_failover.py",
        ),
    ),
    Guarantee(
        "G2",
        "A completed step does not run again; an interrupted one does.",
        "Drivers, launchers and steps are killed at random moments, at every system call, and at every line of the "
        "code that starts a step. Steps append to a log that the store does not know, so a second start is seen.",
        (
            "crash/test_runner*.py",
            "crash/test_namespaces.py",
            "workflow/test_functions_killed.py",
            "workflow/test_processes_*.py",
            "workflow/test_resume_*.py",
            "workflow/test_run_cut_off.py",
            "workflow/test_damaged_attempts.py",
            "agents/test_agent_kills.py",
            "api/test_steps.py",
        ),
    ),
    Guarantee(
        "G3",
        "A run has one driver. A driver that lost its lease cannot write.",
        "Two processes are led to each point between a check and a write, on SQLite and on PostgreSQL. Leases expire, "
        "machines lose their network, and drivers that were stopped wake up after another has taken over.",
        (
            "store/test_leases.py",
            "store/test_lock.py",
            "store/test_fork.py",
            "races/*",
            "postgres/test_driving.py",
            "postgres/test_machines.py",
            "postgres/test_clocks.py",
        ),
    ),
    Guarantee(
        "G4",
        "A read returns the value that was written, or an error.",
        "Bits flip, pages become zeros, and files lose their ends, in databases, blobs, bundles and attempt folders. "
        "Everything is read again. Random programs compare the store with a model in memory.",
        ("damage/*", "model/*", "bundle/test_damaged.py", "verify/test_damage.py", "unit/test_codec.py"),
    ),
    Guarantee(
        "G5",
        "Before a run resumes, outputs, tracked files, branch and definition are checked.",
        "Outputs are deleted, edited, replaced by links and restored. Branches are switched, definitions changed and "
        "work trees moved. The verdict and the plan are compared with a table of situations.",
        ("verify/*", "workspace/*", "workflow/test_resume_changed.py"),
    ),
    Guarantee(
        "G6",
        "Only a person decides an approval.",
        "Every face without a person tries to approve: `--yes`, pipes, hooks, MCP tools, the page without its token, "
        "and two people at once.",
        (
            "cli/test_approve.py",
            "cli/test_reject.py",
            "agents/test_mcp_rules.py",
            "workflow/test_resume_people.py",
            "races/test_decisions.py",
        ),
    ),
    Guarantee(
        "G7",
        "Opening a repository runs nothing and writes nothing outside of it until its owner agrees.",
        "Repositories arrive with stores, definitions, links and settings of a stranger. Commands are run in them "
        "without `leftoff trust`, and the files outside and the processes are watched.",
        ("cli/test_trust*.py", "cli/test_shared_store_folder.py", "workspace/test_hostile.py"),
    ),
    Guarantee(
        "G8",
        "Secrets by name or by shape are not stored.",
        "Credentials are planted in variables, results, notes, errors, logs and arguments of every face. Then all "
        "bytes of the project's files are searched for them.",
        ("*/test_redact*.py", "*/test_secrets*.py", "*/test_*_secrets.py"),
    ),
    Guarantee(
        "G9",
        "The page listens on loopback with a token. No other site can act through it.",
        "Requests come without a token, with a foreign host, origin or method, and with names that are HTML or paths.",
        ("web/test_security.py", "web/test_hostile.py"),
    ),
    Guarantee(
        "G10",
        "A failed command changes nothing, says what to do, and has a documented exit code.",
        "Commands get wrong words, wrong places, full and read-only disks, and are killed. The store is compared "
        "before and after. A rollback of files is killed at each of its system calls, and completed.",
        (
            "cli/test_exit_codes.py",
            "cli/test_wrong_*.py",
            "cli/test_nothing_here.py",
            "crash/test_full_disk.py",
            "crash/test_runner_disk.py",
            "crash/test_rollback_files.py",
            "workspace/test_failed_restore.py",
            "workspace/test_cut_short.py",
        ),
    ),
)
