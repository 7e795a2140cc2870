"""`leftoff serve` as a process: it says where it is, answers, and ends when it is told to."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import urllib.request
from pathlib import Path

from tests.cli.command import LEFTOFF, call, environment
from tests.cli.runs import started
from tests.workflow.driving import until


def test_a_real_start(tmp_path: Path) -> None:
    """It prints an address that signs in, serves, and ends with Ctrl-C, also while a page is open."""
    started(tmp_path)
    command = [str(LEFTOFF), "serve", "--port", "0", "--json"]
    env = environment(LEFTOFF_WEB_TOKEN="as-it-was-said")
    with subprocess.Popen(
        command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None and server.stderr is not None
        url = json.loads(server.stdout.readline())["url"]
        base, _, token = url.partition("?token=")
        assert "as-it-was-said" == token
        opened = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        assert b"release" in opened.open(url).read()
        stream = opened.open(f"{base}api/events")
        assert stream.readline().startswith(b"retry")
        server.send_signal(signal.SIGINT)
        said = server.stderr.read()
        stream.close()
    assert 130 == server.returncode
    assert "closed" in said and "Traceback" not in said and token not in said


def test_the_browser_that_is_opened(tmp_path: Path) -> None:
    """It gets the address that is printed, which signs in."""
    started(tmp_path)
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/part; mv {tmp_path}/part {tmp_path}/opened\n')
    browser.chmod(0o755)
    env = environment(LEFTOFF_WEB_TOKEN="as-it-was-said", BROWSER=str(browser))
    command = [str(LEFTOFF), "serve", "--port", "0", "--json", "--open"]
    with subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        printed = json.loads(server.stdout.readline())["url"]
        until((tmp_path / "opened").exists, "a browser")
        url = (tmp_path / "opened").read_text().strip()
        same = printed == url
        opened = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        assert b"release" in opened.open(url).read()
        server.send_signal(signal.SIGINT)
    assert 130 == server.returncode and same


def test_a_name_is_not_a_pattern(tmp_path: Path) -> None:
    """One that fits every name would let in those that somebody else pointed at this machine."""
    for name in ("*", "*.example.org"):
        assert 2 == call("serve", "--allow-host", name, "--port", "0", cwd=tmp_path).code


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    """It says so, and what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = call("serve", "--port", str(taken.getsockname()[1]), cwd=tmp_path)
    assert 5 == done.code and "taken by another program" in done.err and "--port 0" in done.err


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    """What is wrong with it is said, and nothing of options that nobody gave."""
    (tmp_path / "file").touch()
    for folder, wrong in (
        ("nowhere", "There is no folder nowhere."),
        ("file", "file is a file, not a folder."),
    ):
        done = call("serve", folder, cwd=tmp_path)
        assert 2 == done.code and wrong in done.err and "--project" not in done.err
    done = call("ls", cwd=tmp_path, LEFTOFF_PROJECT="nowhere")
    assert 2 == done.code and "LEFTOFF_PROJECT names it." in done.err


def test_without_the_extra(tmp_path: Path) -> None:
    """It says how to get it."""
    (tmp_path / "starlette.py").write_text("raise ModuleNotFoundError('no', name='starlette')")
    done = call("serve", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert 4 == done.code and "pip install 'leftoff[web]'" in done.err
