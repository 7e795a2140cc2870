"""The page in a real browser: a server on a port of this machine, and a Chromium that looks at it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from leftoff.web.page_server import PageServer, make_app, open_port
from leftoff.web.served import PageOptions, serve_folders

CHROMIUM = "/usr/bin/chromium"
QUIETLY = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
PATIENCE_MS = 60_000
TOKEN = "the-token-of-the-tests"
# Every screen, with the runs of a night (``tests.web.night``).
SCREENS = {
    "home": "/",
    "home, filtered": "/?status=failed&text=orders",
    "steps": "/p/atlas/runs/import-orders",
    "a version": "/p/atlas/runs/billing?at=7",
    "timeline": "/p/atlas/runs/import-orders/timeline",
    "graph": "/p/atlas/runs/manual-fr/graph",
    "history": "/p/atlas/runs/billing/history",
    "compare": "/p/atlas/runs/billing/compare?from=7&to=14",
    "step": "/p/atlas/runs/import-orders/step?step=load",
    "files": "/p/atlas/runs/import-orders/artifacts?path=out/README.md",
    "session": "/p/atlas/runs/claude-1f3a/session",
    "go on": "/p/atlas/runs/billing/go",
    "approve": "/p/atlas/runs/release-2.4/do/approve?step=sign-off&choice=publish",
    "go back": "/p/atlas/runs/billing/do/rollback?to=billing@7&files=1",
    "store": "/p/atlas/store?preview=1",
}
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]

expect.set_options(timeout=PATIENCE_MS)


class Site:
    """A server that can be stopped and started again, always at the same address."""

    def __init__(self, folders: Sequence[Path], **options: Any) -> None:
        self._folders = [str(folder) for folder in folders]
        self._options = PageOptions(token=TOKEN, key=b"k" * 32, **options)
        self._port = 0
        self.start()

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        sock = open_port("127.0.0.1", self._port)
        self._port = sock.getsockname()[1]
        ready = threading.Event()
        app = make_app(serve_folders(self._folders), self._options)
        self._server = PageServer(app, self._options.limits, ready.set)
        self._thread = threading.Thread(target=self._server.run, args=([sock],), daemon=True)
        self._thread.start()
        assert ready.wait(PATIENCE_MS / 1000)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(PATIENCE_MS / 1000)
        assert not self._thread.is_alive()


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIETLY, timeout=PATIENCE_MS)
        try:
            yield browser
        finally:
            browser.close()


class Visit:
    """Somebody who looks at a site. Whatever the browser complains of is kept: a policy that was broken, a script that
    failed."""

    def __init__(self, browser: Browser, site: Site, **context: Any) -> None:
        self.site = site
        self.complaints: list[str] = []
        given = {"viewport": {"width": 1280, "height": 900}, "timezone_id": "Europe/Paris", "locale": "en-GB"}
        self.context: BrowserContext = browser.new_context(**{**given, **context})
        self.context.set_default_timeout(PATIENCE_MS)
        self.page = self.open()
        self.page.goto(f"{site.base}/?token={TOKEN}")

    def open(self) -> Page:
        page = self.context.new_page()
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._heard)
        return page

    def _heard(self, message: Any) -> None:
        url = str(message.location.get("url"))
        # The page may ask what an action would do while it is done: then there is nothing to decide any more.
        decided = "404" in message.text and "/do/" in url
        if message.type in ("error", "warning") and not decided:
            self.complaints.append(f"{message.text} {url}")

    def go(self, path: str) -> Page:
        answer = self.page.goto(self.site.base + path)
        assert answer is not None and 200 == answer.status, f"{path}: {answer and answer.status}"
        return self.page

    def is_live(self) -> None:
        """The stream of events is open."""
        expect(self.page.locator(".live")).to_have_class("live is-live")

    def violations(self, *rules: str) -> list[str]:
        """What axe finds wrong on the page; by these rules alone, where some are given."""
        only = {"type": "rule", "values": rules} if rules else {"type": "tag", "values": RULES}
        found = Axe().run(self.page, options={"runOnly": only}).response["violations"]
        return [f"{one['id']}: {node['html'][:200]}" for one in found for node in one["nodes"]]

    def too_wide(self) -> int:
        """By how much the page is wider than its window."""
        return int(
            self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        )

    def close(self) -> None:
        self.context.close()
