"""leftoff.toml: right words are taken, wrong ones are named with their place."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from leftoff.engine.settings import Settings, load
from leftoff.errors import Invalid

EVERYTHING = """
store = "postgresql://db/leftoff"
lock_timeout = "5s"

[redaction]
enabled = true
allow = ["next_password_hint", "db.password"]
names = ["badge number"]
patterns = ['EMP-\\d{6}']

[heartbeat]
interval = "10s"
quiet = "5m"
stalled = 900

[files]
max_file = "2 MiB"
max_total = "500 KB"

[run]
stop_timeout = "1m"

[retention]
auto = true

[protocol]
name = "bmad"

[verify.levels]
"age.stale" = "warn"

[agents.claude]
command = "claude"
"""


def write(folder: Path, text: str) -> str:
    (folder / "leftoff.toml").write_text(text)
    return str(folder)


def test_no_file_gives_the_defaults(tmp_path: Path) -> None:
    """A project without leftoff.toml has the documented defaults, and redacts."""
    found = load(str(tmp_path))
    assert found.store is None
    assert (30, 600, 1800) == (found.heartbeat.interval, found.heartbeat.quiet, found.heartbeat.stalled)
    assert (1024**2, 256 * 1024**2) == (found.files.max_file, found.files.max_total)
    assert 10 == found.run.stop_timeout
    assert 30 == found.lock_timeout
    assert {} == found.section("retention")
    assert ({"redacted": True}, [[]]) == found.redactor().scrub("password", "x")


def parsed(text: str) -> Settings:
    """The settings of a file with this text; an error names the file without its folder."""
    with TemporaryDirectory() as folder:
        try:
            return load(write(Path(folder), text))
        except Invalid as error:
            error.message = error.message.replace(f"{folder}/", "")
            raise


def test_old_names_are_read() -> None:
    """Sections and keys that had another name before mean the same; a file cannot give both names."""
    old = parsed(
        '[mirror]\ndialect = "bmad"\n[capture]\nmax_file = 7\n[run]\ngrace = 3\n[supervise]\nevery = 2\nlimit = 9\n'
    )
    assert {"name": "bmad"} == old.section("protocol")
    assert (7, 3, 2, 9) == (
        old.files.max_file,
        old.run.stop_timeout,
        old.supervise.interval,
        old.supervise.max_restarts,
    )
    with pytest.raises(Invalid, match=r"leftoff.toml:2:1: run.stop_timeout must be"):
        parsed("[run]\ngrace = true\n")
    with pytest.raises(Invalid, match=r"leftoff.toml:2:1: grace and stop_timeout are the same setting"):
        parsed("[run]\ngrace = 3\nstop_timeout = 3\n")


def test_empty_file_gives_the_defaults(tmp_path: Path) -> None:
    """An empty file changes nothing."""
    groups = ("store", "lock_timeout", "heartbeat", "files", "redaction", "run")
    none, empty = load("/nowhere/at/all"), load(write(tmp_path, ""))
    assert [getattr(none, name) for name in groups] == [getattr(empty, name) for name in groups]


@pytest.mark.usefixtures("trusted")
def test_everything_can_be_set(tmp_path: Path) -> None:
    """Every known setting is read, with amounts in seconds and bytes, and sections of later layers as written."""
    found = load(write(tmp_path, EVERYTHING))
    assert "postgresql://db/leftoff" == found.store
    assert (10, 300, 900) == (found.heartbeat.interval, found.heartbeat.quiet, found.heartbeat.stalled)
    assert (2 * 1024**2, 500_000) == (found.files.max_file, found.files.max_total)
    assert 60 == found.run.stop_timeout
    assert 5 == found.lock_timeout
    assert {"auto": True} == found.section("retention")
    assert {"name": "bmad"} == found.section("protocol")
    assert {"levels": {"age.stale": "warn"}} == found.section("verify")
    assert {"claude": {"command": "claude"}} == found.section("agents")
    with pytest.raises(KeyError):
        found.section("heartbeat")


def test_redaction_is_passed_on(tmp_path: Path) -> None:
    """What is allowed and added reaches the redactor, which is made once."""
    found = load(write(tmp_path, EVERYTHING))
    redactor = found.redactor()
    assert redactor is found.redactor()
    assert [["b"], ["badge_number"]] == sorted(
        redactor.scrub("db", {"b": "EMP-123456", "badge_number": "x", "password": "y"})[1]
    )
    off = load(write(tmp_path, "[redaction]\nenabled = false"))
    assert "x" == off.redactor().scrub("password", "x")[0]


def test_read_once_per_version_of_the_file(tmp_path: Path) -> None:
    """The same settings come back until the file changes, is replaced, or goes."""
    project = write(tmp_path, 'store = "a"')
    first = load(project)
    assert first is load(project)
    write(tmp_path, 'store = "bb"')
    assert "bb" == load(project).store
    before = os.stat(tmp_path / "leftoff.toml")
    (tmp_path / "new").write_text('store = "cc"')
    os.utime(tmp_path / "new", ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(tmp_path / "new", tmp_path / "leftoff.toml")
    assert "cc" == load(project).store
    os.remove(tmp_path / "leftoff.toml")
    assert load(project).store is None


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ('stor = "x"', 'toml:1:1: there is no section or setting "stor"', 'Did you mean "store"?'),
        ("\n\n[redacton]\nenabled = true", 'toml:3:1: there is no section or setting "redacton"', '"redaction"?'),
        ("[heartbeat]\n\nintervall = 3", 'toml:3:1: [heartbeat] has no key "intervall"', '"interval"?'),
        ("[ heartbeat ] # beats\nQuiet = 3", 'toml:2:1: [heartbeat] has no key "Quiet"', '"quiet"?'),
        ("heartbeat.stale = 3", 'toml:1:1: [heartbeat] has no key "stale"', '"stalled"?'),
        ("\nheartbeat = { pulse = 3 }", 'toml:2:1: [heartbeat] has no key "pulse"', "Known: interval, quiet"),
        ("[files]\nmax_fil = 3", 'toml:2:1: [files] has no key "max_fil"', '"max_file"?'),
        ('[files]\n"max_sum" = 3', 'toml:2:1: [files] has no key "max_sum"', "Known: git, max_file"),
        ("[zebra]", 'toml:1:1: there is no section or setting "zebra"', "Known: agents, files, heartbeat"),
    ],
)  # fmt: skip
def test_unknown_words(text: str, message: str, hint: str) -> None:
    """A section or key that does not exist is named with its line and the nearest right word."""
    with pytest.raises(Invalid) as caught:
        parsed(text)
    assert caught.value.message.startswith(f"leftoff.{message}")
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("store = 3", "toml:1:1: store must be text, not 3.", ".leftoff"),
        ('store = ""', "toml:1:1: store must be text", ""),
        ('[redaction]\nenabled = "yes"', "toml:2:1: redaction.enabled must be true or false, not 'yes'.", "true"),
        ('[redaction]\nallow = "a"', "toml:2:1: redaction.allow must be a list of texts", '["a", "b"]'),
        ("[redaction]\nnames = [1]", "toml:2:1: redaction.names must be a list of texts", ""),
        ('[redaction]\nnames = [" "]', "toml:2:1: redaction.names must be a list of texts", ""),
        ("[redaction]\npatterns = ['a', '([']", "toml:2:1: '([' is not a regular expression", "single quotes"),
        ("[redaction]\npatterns = ['a*']", "toml:2:1: 'a*' matches every text.", "+ instead of *"),
        ("retention = 3", "toml:1:1: retention is a section, not a value.", "[retention]"),
        ("[[files]]\nmax_file = 3", "toml:1:1: files is a section, not a value.", "[files]"),
        ('[heartbeat]\nquiet = "5 years"', "toml:2:1: heartbeat.quiet must be an amount, not '5 years'.", '"7d"'),
        ("[heartbeat]\nquiet = true", "toml:2:1: heartbeat.quiet must be an amount, not True.", ""),
        ("[heartbeat]\nquiet = -1", "toml:2:1: heartbeat.quiet must be an amount, not -1.", ""),
        ("[heartbeat]\nquiet = 0", "toml:2:1: heartbeat.quiet must be an amount, not 0.", ""),
        ("[heartbeat]\nquiet = nan", "toml:2:1: heartbeat.quiet must be an amount, not nan.", ""),
        ('[files]\nmax_file = "MiB"', "toml:2:1: files.max_file must be an amount", '"1 MiB"'),
        ('[files]\nmax_file = "1 mile"', "toml:2:1: files.max_file must be an amount", ""),
        ("[heartbeat]\nquiet = 20", "toml:2:1: heartbeat.interval (30 s) must be less than heartbeat.quiet", ""),
        ("[heartbeat]\nquiet = '1h'", "toml:2:1: heartbeat.quiet (3600 s) must be less than heartbeat.stall", ""),
    ],
)  # fmt: skip
def test_wrong_values(text: str, message: str, hint: str) -> None:
    """A value of the wrong kind is named with its line, its setting and an example of a right one."""
    with pytest.raises(Invalid) as caught:
        parsed(text)
    assert caught.value.message.startswith(f"leftoff.{message}")
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("store = leftoff", "leftoff.toml:1:9: "),
        ("a = 1\n\n[heartbeat\n", "leftoff.toml:3:11: "),
        ('a = "x', "leftoff.toml:1:"),
        ("a = 1\na = 2", "leftoff.toml:2:"),
        ('a = """\nx\ny', "leftoff.toml:3:2: "),
    ],
)
def test_bad_toml(text: str, place: str) -> None:
    """What is not TOML is named with line and column."""
    with pytest.raises(Invalid, match="this is not TOML") as caught:
        parsed(text)
    assert caught.value.message.startswith(place)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("1", 1),
        ("0.5", 0.5),
        ('"30"', 30),
        ('"30s"', 30),
        ('"10m"', 600),
        ('"1.5 h"', 5400),
        ('"7d"', 604800),
    ],
)
def test_durations(written: str, seconds: float) -> None:
    """A duration is a number of seconds, or a number with its unit."""
    text = f"[heartbeat]\ninterval = 0.1\nquiet = 0.2\nstalled = {written}"
    assert seconds == parsed(text).heartbeat.stalled


@pytest.mark.parametrize(
    ("written", "size"),
    [("0", 0), ('"1 B"', 1), ('"500 KB"', 500_000), ('"1 MiB"', 1 << 20), ('"1.5mib"', 3 << 19), ('"2GiB"', 2 << 30)],
)  # fmt: skip
def test_sizes(written: str, size: int) -> None:
    """A size is a number of bytes, or a number with its unit, decimal or binary."""
    found = parsed(f"[files]\nmax_file = {written}").files.max_file
    assert size == found
    assert int is type(found)


def test_file_that_is_not_text(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 are named with their line; a mark of the byte order is none of our business."""
    (tmp_path / "leftoff.toml").write_bytes(b'a = 1\nstore = "\xff"')
    with pytest.raises(Invalid, match=r"leftoff\.toml:2:[0-9]+: this is not UTF-8"):
        load(str(tmp_path))
    (tmp_path / "leftoff.toml").write_bytes(b'\xef\xbb\xbfstore = "x"\r\n')
    assert "x" == load(str(tmp_path)).store


def test_file_that_is_none(tmp_path: Path) -> None:
    """A folder in the file's place is an error, not a default."""
    (tmp_path / "leftoff.toml").mkdir()
    with pytest.raises(Invalid, match=r"leftoff\.toml cannot be read"):
        load(str(tmp_path))


def test_error_names_the_file_in_full(tmp_path: Path) -> None:
    """Whoever runs a verb from elsewhere is told which file is meant."""
    with pytest.raises(Invalid, match=str(tmp_path / "leftoff.toml") + ":1:1: "):
        load(write(tmp_path, "x = 1"))
