"""Crawl a site as a durable function. A page that was fetched is not fetched again.

    python crawl.py               crawls a small site, which is made up here
    KILL_AT=/b python crawl.py    dies of SIGKILL while it fetches /b

Call it again after a crash: it continues with the first page that is not fetched.
"""

import os
import signal
import sys
from dataclasses import dataclass

import leftoff

SITE = {
    "/": ["/a", "/b"],
    "/a": ["/a/1", "/a/2"],
    "/b": ["/a", "/c"],
    "/a/1": [],
    "/a/2": ["/"],
    "/c": ["/b"],
}


@dataclass
class Page:
    """A fetched page. The record keeps its class: a resumed crawl gets `Page` objects."""

    url: str
    links: list[str]


@leftoff.step(retries=3, timeout="1m")
def fetch(url: str) -> Page:
    """Fetch one page. Imagine that this is slow and costly."""
    sys.stdout.write(f"fetching {url}\n")
    if os.environ.get("KILL_AT") == url:
        os.kill(os.getpid(), signal.SIGKILL)
    return Page(url, SITE[url])


@leftoff.step
def write_index(pages: list[Page]) -> str:
    """Write one line per page."""
    with open("index.txt", "w") as file:
        file.writelines(f"{page.url}: {len(page.links)} links\n" for page in pages)
    return file.name


@leftoff.workflow
def crawl(start: str) -> str:
    """Crawl breadth first, two pages at a time."""
    pages: dict[str, Page] = {}
    level = [start]
    while level:
        pages.update((page.url, page) for page in fetch.map(level, max_parallel=2))
        level = sorted({link for page in pages.values() for link in page.links} - set(pages))
    index = write_index(list(pages.values()))
    return f"{len(pages)} pages, see {index}"


if __name__ == "__main__":
    print(crawl.run("/"))
