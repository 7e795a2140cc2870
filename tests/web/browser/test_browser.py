"""The page in a real Chromium: each screen, each action, live, for everyone.

All in one file: each worker that gets some of these tests then has one browser, which is gone before other tests come.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from leftoff.engine.step_lifecycle import StepReport
from leftoff.operations.run_reports import report_step
from tests.cli.command import call, start, succeed
from tests.web.browser.site import SCREENS, Site, Visit, chromium
from tests.web.night import MINUTE, Night, a_night

HOSTILE = "<img src=x onerror=alert(1)>\"'&{{7*7}}</script>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as made:
        yield made


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Night]:
    made = a_night(tmp_path_factory.mktemp("night") / "atlas")
    yield made
    made.project.close()


@pytest.fixture(scope="module")
def site(night: Night) -> Iterator[Site]:
    made = Site([night.folder])
    yield made
    made.stop()


@pytest.fixture
def serve() -> Iterator[Callable[..., Site]]:
    """A site of the test's own. It ends behind its visitors, who would complain that it is away."""
    made: list[Site] = []

    def begin(*args: Any, **options: Any) -> Site:
        made.append(Site(*args, **options))
        return made[-1]

    yield begin
    for one in made:
        one.stop()


@pytest.fixture
def visit(browser: Browser, serve: Callable[..., Site]) -> Iterator[Callable[..., Visit]]:
    """Somebody who looks at a site; in the end nothing was complained of."""
    made: list[Visit] = []

    def come(site: Site, **context: Any) -> Visit:
        made.append(Visit(browser, site, **context))
        return made[-1]

    yield come
    for one in made:
        one.close()
    assert [] == [text for one in made for text in one.complaints]


# -- for everyone


@pytest.mark.parametrize("half", [0, 1])
def test_every_screen_is_for_everyone(site: Site, visit: Callable[..., Visit], half: int) -> None:
    """axe finds nothing on any of them, in light and in dark; from the smallest phone to the largest screen nothing is
    wider than the window."""
    somebody = visit(site, color_scheme="light")
    found = {}
    for name, path in list(SCREENS.items())[half::2]:
        page = somebody.go(path)
        wrong = somebody.violations()
        page.emulate_media(color_scheme="dark")
        wrong += somebody.violations("color-contrast")
        for width in (320, 3840):
            page.set_viewport_size({"width": width, "height": 800})
            wrong += [f"{width} and {somebody.too_wide()} more"] if somebody.too_wide() else []
        page.set_viewport_size({"width": 1280, "height": 900})
        page.emulate_media(color_scheme="light")
        found[name] = wrong
    assert {name: [] for name in found} == found


def test_the_keyboard(site: Site, visit: Callable[..., Visit]) -> None:
    """/ searches, j and k move, Enter opens; Escape leaves the field; the first Tab skips to the content."""
    page = visit(site).go("/?text=billing")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("/")
    expect(page.locator("[data-search]")).to_be_focused()
    page.keyboard.press("Escape")
    for key in "jjk":
        page.keyboard.press(key)
    first = page.locator("[data-row]").first
    expect(first).to_have_class(re.compile("is-chosen"))
    title = first.locator("a").first.inner_text()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text(title)


def test_times_are_in_the_readers_zone(site: Site, visit: Callable[..., Visit], night: Night) -> None:
    """The page says UTC; the reader sees their own clock, and the whole moment on hover."""
    page = visit(site, timezone_id="Asia/Tokyo").go("/p/atlas/runs/billing/history")
    when = page.locator("#history time").last
    expect(when).to_have_attribute("title", re.compile("(Japan|GMT[+]9|JST)"))
    expect(when).not_to_contain_text("UTC")


def test_without_a_script(site: Site, visit: Callable[..., Visit]) -> None:
    """Every screen shows what it has; a filter is a plain form."""
    page = visit(site, java_script_enabled=False).go("/")
    expect(page.locator("#needs h3").first).to_be_visible()
    page.fill("[data-search]", "orders")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("#needs h3")).to_have_text(["Orders of February"])


def test_nothing_moves_for_those_who_do_not_want_it(site: Site, visit: Callable[..., Visit]) -> None:
    """No animation runs where less motion is asked for."""
    somebody = visit(site, reduced_motion="reduce")
    somebody.go("/")
    somebody.is_live()
    assert 0 == somebody.page.evaluate("document.getAnimations().length")


# -- what is on the screens


def test_home(site: Site, visit: Callable[..., Visit], night: Night) -> None:
    """What needs a person first, with what there is to decide; title and icon say how many."""
    page = visit(site).go("/")
    expect(page.locator(".card.need-dead")).to_contain_text("Its driver died")
    expect(page.locator("#works")).to_contain_text(re.compile(r"about 1\d min"))
    expect(page.locator("#works")).to_contain_text("Reading the lexer first.")
    number = page.locator("#about").get_attribute("data-need")
    expect(page).to_have_title(f"({number}) leftoff")
    expect(page.locator("link[rel=icon]")).to_have_attribute("href", re.compile(f"need={number}$"))


def test_steps_and_logs(site: Site, visit: Callable[..., Visit]) -> None:
    """A step is searched for, its time stands beside its estimate, its log has its colours."""
    page = visit(site).go("/p/atlas/runs/import-orders")
    expect(page.locator("table.steps")).to_contain_text("80 %")
    page.fill("main [data-search]", "LOAD")
    page.get_by_label("Status").select_option("failed")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("table.steps tbody tr")).to_have_count(1)
    page.get_by_role("link", name="load").last.click()
    expect(page.locator(".log")).to_contain_text("error")
    page.get_by_role("link", name="Attempt 1").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert "import-orders-load.log" == download.value.suggested_filename


def test_history_is_opened_and_compared(site: Site, visit: Callable[..., Visit]) -> None:
    """Any checkpoint as the run at that moment, any two side by side."""
    page = visit(site).go("/p/atlas/runs/billing/history")
    page.get_by_label("Compare from version 7").check()
    page.get_by_label("Compare to version 14").check()
    page.get_by_role("button", name="Compare").click()
    expect(page.locator(".tree .changed").last).to_contain_text("freeze, then copy")
    expect(page.locator(".diff .plus").first).to_contain_text("numeric")
    page.go_back()
    page.get_by_role("link", name="error copy").click()
    expect(page.locator(".then")).to_contain_text("as it was at version 9")
    expect(page.locator("table.steps .is-failed")).to_contain_text("totals differ in 3 invoices")


def test_files_are_shown_and_never_executed(site: Site, visit: Callable[..., Visit]) -> None:
    """As text, whatever is written in them."""
    page = visit(site).go("/p/atlas/runs/import-orders/artifacts?path=out/README.md")
    expect(page.locator("pre.log")).to_contain_text("<b>not bold</b>")
    page.get_by_role("link", name="out/orders.csv").click()
    expect(page.locator("pre.log")).to_contain_text("<b>Mallory</b>")


def test_hostile_names(
    tmp_path: Path, browser: Browser, visit: Callable[..., Visit], serve: Callable[..., Site]
) -> None:
    """A title, workflow, branch, step, variable, note, error, file: all of it is text, everywhere."""
    night = Night(tmp_path / "atlas")
    who = night.start(
        HOSTILE, "r", branch=HOSTILE, title=HOSTILE, steps=[HOSTILE.replace("/", "")], agent=HOSTILE
    )
    night.project.close()
    night = Night(tmp_path / "atlas")
    from leftoff.operations.run_reports import add_note, set_variables

    set_variables(night.project, who, {"<b>x</b>": HOSTILE, "y": {HOSTILE: [HOSTILE]}})
    add_note(night.project, who, HOSTILE)
    night.step(
        who,
        HOSTILE.replace("/", ""),
        MINUTE,
        "fail",
        error=HOSTILE,
        outputs=[night.write("<b>.html", HOSTILE)],
    )
    night.project.close()
    site = serve([night.folder])
    somebody = visit(site)
    somebody.page.on("dialog", lambda dialog: somebody.complaints.append(dialog.message))
    for path in (
        "",
        "/timeline",
        "/graph",
        "/history",
        "/compare",
        "/artifacts?path=<b>.html",
        "/session",
        "/go",
    ):
        page = somebody.go(f"/p/atlas/runs/r{path}")
        expect(page.locator("h1")).to_have_text(HOSTILE)
        assert 0 == page.locator("main img, main b, main script").count()
    page = somebody.go("/")
    expect(page.locator("h3").first).to_have_text(HOSTILE)


# -- deciding


def test_approve(site: Site, visit: Callable[..., Visit], night: Night) -> None:
    """It is asked once, says what will happen, and is gone from those who look on."""
    onlooker, somebody = visit(site), visit(site)
    onlooker.go("/")
    onlooker.is_live()
    page = somebody.go("/")
    page.locator(".need-approval").get_by_role("link", name="Hold").click()
    expect(page.locator("main")).to_contain_text("Publish version 2.4 to all customers?")
    expect(page.get_by_label("hold")).to_be_checked()
    page.fill("textarea", "after the holidays")
    page.get_by_role("button", name="Approve").click()
    expect(page.locator(".told")).to_contain_text("sign-off is approved")
    expect(onlooker.page.locator(".need-approval")).to_have_count(0)
    record = night.store.read(lambda view: view.row(night.number("release-2.4"), "step", "sign-off"))
    assert record is not None and "completed" == record[1]


def test_unblock_fork_go_back_and_archive(site: Site, visit: Callable[..., Visit]) -> None:
    """Each says what it will do, does it, and tells so."""
    somebody = visit(site)
    page = somebody.go("/p/atlas/runs/story-17")
    page.get_by_role("link", name="Unblock").click()
    page.get_by_role("button", name="Unblock").click()
    expect(page.locator(".told")).to_contain_text("resolved")
    page = somebody.go("/p/atlas/runs/billing/history")
    page.locator("li[data-row]", has_text="before the copy").last.get_by_role("link", name="Fork").click()
    page.get_by_label("Branch of the new run").fill("another-way")
    page.get_by_role("button", name="Fork").click()
    expect(page.locator("header.run")).to_contain_text("another-way")
    page = somebody.go("/p/atlas/runs/billing/do/rollback?to=billing@7&files=1")
    expect(page.locator("main")).to_contain_text("schema.sql")
    page.get_by_role("button", name="Go back").click()
    expect(page.locator(".told")).to_be_visible()
    page = somebody.go("/p/atlas/runs/story-3")
    page.get_by_role("link", name="Archive").click()
    page.get_by_role("button", name="Archive").click()
    expect(page.locator(".told")).to_be_visible()


def test_reject_resume_stop_and_let_go(
    tmp_path: Path,
    serve: Callable[..., Site],
    visit: Callable[..., Visit],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the shell would do: a run goes on in the background, is stopped; an old one goes."""
    monkeypatch.setenv("LEFTOFF_TRUST", "1")
    (tmp_path / "flow.yaml").write_text(
        "name: flow\nsteps:\n  - {id: made, run: echo x > made.txt, outputs: [made.txt]}\n"
        "  - {id: ask, approval: Is it good?}\n"
        "  - {id: on, needs: [ask], run: 'while :; do sleep 0.1; done'}\n"
    )
    (tmp_path / "leftoff.toml").write_text('[retention]\ncompleted = "0d"\n')
    succeed("start", "old", "--run-id", "old", cwd=tmp_path)
    succeed("finish", "--run", "old", cwd=tmp_path)
    for run in ("no", "r"):
        call("run", "flow.yaml", "--run-id", run, cwd=tmp_path)
    succeed("approve", "r", "ask", cwd=tmp_path)
    (tmp_path / "made.txt").unlink()
    site = serve([tmp_path])
    somebody = visit(site)
    page = somebody.go(f"/p/{tmp_path.name}/runs/no")
    page.get_by_role("link", name="Reject").first.click()
    page.fill("textarea", "not yet")
    page.get_by_role("button", name="Reject").click()
    expect(page.locator("table.steps")).to_contain_text("not yet")
    page = somebody.go(f"/p/{tmp_path.name}/runs/r/do/resume")
    page.get_by_role("button", name="Resume").click()
    assert page.url.endswith("/do/resume")  # a question is open, and the browser says which
    page.get_by_label("bring the copy back").check()
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".told")).to_contain_text("continues")
    page.get_by_role("link", name="Stop").first.click()  # it is there as soon as the run is under way
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".told")).to_contain_text("is stopped")
    page = somebody.go(f"/p/{tmp_path.name}/store")
    page.get_by_role("link", name="Show what the rules").click()
    expect(page.locator("body")).to_contain_text("leftoff prune lets it go")
    assert (tmp_path / "made.txt").exists()


def test_the_store_is_checked(site: Site, visit: Callable[..., Visit]) -> None:
    """A button begins it; what came of it appears by itself."""
    page = visit(site).go("/p/atlas/store")
    page.get_by_role("button", name="Check now").click()
    expect(page.locator("#fsck")).to_contain_text("clean")


def test_read_only(night: Night, visit: Callable[..., Visit], serve: Callable[..., Site]) -> None:
    """Nothing to press that would change anything."""
    site = serve([night.folder], read_only=True)
    somebody = visit(site)
    for path in ("/", "/p/atlas/runs/import-orders", "/p/atlas/runs/billing/history", "/p/atlas/store"):
        page = somebody.go(path)
        assert 0 == page.locator("form[method=post], a[href*='/do/']").count()


# -- live


def test_live_while_a_workflow_runs_and_is_killed(
    tmp_path: Path, visit: Callable[..., Visit], serve: Callable[..., Site]
) -> None:
    """Two browsers see each step, then that it died; then, after the server was away, what happened meanwhile."""
    folder = tmp_path / "flow"
    folder.mkdir()
    (folder / "flow.yaml").write_text(
        "name: flow\nsteps:\n  - {id: one, run: echo first words}\n"
        "  - {id: two, run: 'echo waiting; while [ ! -e go ]; do sleep 0.05; done'}\n"
    )
    site = serve([folder])
    try:
        first, second = visit(site), visit(site, viewport={"width": 360, "height": 740})
        for one in (first, second):
            one.is_live()
        with open(os.devnull, "wb") as nowhere:
            driver = start(["run", "flow.yaml", "--run-id", "r"], folder, nowhere, nowhere)
        for one in (first, second):
            expect(one.page.locator("#works")).to_contain_text("two")
            expect(one.page.locator("#works")).to_contain_text("50 %")
        second.go("/p/flow/runs/r/step?step=two")
        expect(second.page.locator(".log")).to_contain_text("waiting")
        site.stop()
        expect(first.page.locator(".live")).to_contain_text("away")
        driver.send_signal(signal.SIGKILL)
        driver.wait()
        site.start()
        first.is_live()
        expect(first.page.locator(".need-dead")).to_contain_text("Its driver died")
        first.complaints.clear()  # that the server was away is no mistake of the page
        second.complaints.clear()
    finally:
        (folder / "go").touch()


def test_ten_tabs_of_one_browser(
    tmp_path: Path, visit: Callable[..., Visit], serve: Callable[..., Site]
) -> None:
    """All of them load and are live: also if one closes, and after the server was away."""
    succeed("start", "work", "--run-id", "r", "--steps", "a,b,c,d", cwd=tmp_path)
    site = serve([tmp_path])
    somebody = visit(site)
    tabs = [somebody.page, *(somebody.open() for _ in range(9))]
    for tab in tabs:
        tab.goto(f"{site.base}/p/{tmp_path.name}/runs/r")
    for tab in tabs:
        expect(tab.locator(".live")).to_have_class("live is-live")
    succeed("step", "done", "a", "--run", "r", cwd=tmp_path)
    for tab in tabs:
        expect(tab.locator("#head")).to_contain_text("1 of 4 steps")
    tabs.pop(0).close()
    tabs[0].reload()
    succeed("step", "done", "b", "--run", "r", cwd=tmp_path)
    for tab in tabs:
        expect(tab.locator("#head")).to_contain_text("2 of 4 steps")
    site.stop()
    for tab in tabs:
        expect(tab.locator(".live")).to_contain_text("The server is away")
    succeed("step", "done", "c", "--run", "r", cwd=tmp_path)
    site.start()
    for tab in tabs:
        expect(tab.locator(".live")).to_have_class("live is-live")
        expect(tab.locator("#head")).to_contain_text("3 of 4 steps")
    somebody.complaints.clear()  # that the server was away is no mistake of the page


HIDDEN = """
    delete window.SharedWorker;
    let hidden = false;
    Object.defineProperty(document, "hidden", { get: () => hidden });
    window.hide = (how) => { hidden = how; document.dispatchEvent(new Event("visibilitychange")); };
"""


def test_tabs_that_cannot_share_a_stream(
    tmp_path: Path, visit: Callable[..., Visit], serve: Callable[..., Site]
) -> None:
    """Each has its own while somebody looks at it, and then shows what happened meanwhile."""
    succeed("start", "work", "--run-id", "r", "--steps", "a,b", cwd=tmp_path)
    site = serve([tmp_path])
    somebody = visit(site)
    somebody.context.add_init_script(HIDDEN)
    tabs = []
    for _ in range(10):
        tabs.append(somebody.open())
        tabs[-1].goto(f"{site.base}/p/{tmp_path.name}/runs/r")
        expect(tabs[-1].locator(".live")).to_have_class("live is-live")
        tabs[-1].evaluate("hide(true)")
    succeed("step", "done", "a", "--run", "r", cwd=tmp_path)
    tabs[0].evaluate("hide(false)")
    expect(tabs[0].locator("#head")).to_contain_text("1 of 2 steps")
    expect(tabs[1].locator("#head")).to_contain_text("0 of 2 steps")
    succeed("step", "done", "b", "--run", "r", cwd=tmp_path)
    expect(tabs[0].locator("#head")).to_contain_text("2 of 2 steps")


def test_what_happens_is_seen_at_once(site: Site, visit: Callable[..., Visit], night: Night) -> None:
    """A step that ends moves the bar, while what somebody writes stays where it is."""
    somebody = visit(site)
    page = somebody.go("/p/atlas/runs/manual-fr")
    somebody.is_live()
    page.fill("main [data-search]", "half a wor")
    report_step(night.project, _named("manual-fr"), StepReport("done", "part-05"))
    expect(page.locator("#head")).to_contain_text("5 of 12 steps")
    expect(page.locator("main [data-search]")).to_have_value("half a wor")
    expect(page).to_have_title(re.compile("41 %"))


def test_several_projects_on_one_page(
    night: Night, tmp_path: Path, visit: Callable[..., Visit], serve: Callable[..., Site]
) -> None:
    """Each run says where it belongs; one project alone can be looked at."""
    other = Night(tmp_path / "zoo")
    who = other.start("feeding", "f", title="Feed the lions", steps=["a"])
    other.step(who, "a", MINUTE, "fail", error="no meat")
    from leftoff.operations.run_lifecycle import finish_run

    finish_run(other.project, who, "failed")
    other.project.close()
    site = serve([night.folder, other.folder])
    page = visit(site).go("/")
    expect(page.locator("#need-zoo-f")).to_contain_text("zoo · feeding")
    expect(page.locator("#needs")).to_contain_text("Orders of February")
    page.get_by_role("link", name="zoo", exact=True).click()
    expect(page.locator("#needs h3")).to_have_text(["Feed the lions"])


def _named(run_id: str) -> Any:
    from leftoff.engine.settings import Caller

    return Caller(named=run_id)
