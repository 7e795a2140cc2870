#!/usr/bin/env python3
"""The pictures of the page: a night's work is made, served and looked at in Chromium.

tools/screenshots.py          write those of the README and the docs to docs/pictures
tools/screenshots.py FOLDER   every screen at 360, 1280 and 2560 pixels, light and dark, to look at
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.web.browser.site import SCREENS, Site, Visit, chromium  # noqa: E402
from tests.web.night import a_night  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
SHOWN = {  # by file: the screen, the size of the window, the scheme
    "page-home.png": ("home", 1280, 860, "light"),
    "page-phone.png": ("home", 390, 780, "dark"),
    "page-timeline.png": ("timeline", 1280, 720, "light"),
}
WIDTHS, SCHEMES = (360, 1280, 2560), ("light", "dark")


def shoot(site: Site, pictures: dict[Path, tuple[str, int, int, str]], *, whole: bool) -> None:
    """Each picture: the screen, the size of the window, the scheme. ``whole``: as long as the page is."""
    with chromium() as browser:
        for path, (screen, width, height, scheme) in pictures.items():
            size = {"width": width, "height": height}
            visit = Visit(browser, site, viewport=size, color_scheme=scheme, reduced_motion="reduce")
            page = visit.go(SCREENS[screen])
            visit.is_live()
            page.screenshot(path=path, full_page=whole)
            visit.close()
            print(f"{path}: {path.stat().st_size // 1000} KB")


def main(words: list[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="leftoff-") as folder:
        os.environ["XDG_STATE_HOME"] = os.path.join(folder, "state")
        night = a_night(Path(folder, "atlas"))
        site = Site([night.folder])
        if words:
            Path(words[0]).mkdir(parents=True, exist_ok=True)
            every = {
                Path(words[0], f"{screen.replace(' ', '-')}-{width}-{scheme}.png"): (
                    screen,
                    width,
                    800,
                    scheme,
                )
                for screen in SCREENS
                for width in WIDTHS
                for scheme in SCHEMES
            }
            shoot(site, every, whole=True)
        else:
            shoot(site, {PICTURES / name: about for name, about in SHOWN.items()}, whole=False)
        site.stop()
        night.project.close()


if __name__ == "__main__":
    main(sys.argv[1:])
