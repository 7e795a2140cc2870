"""Convert a folder of PDFs, and lose no work in a crash or a power cut.

    python convert_pdfs.py                      converts the files of inbox/ (made on the first call) to pages/
    KILL_AT=inbox/c.pdf python convert_pdfs.py  dies of SIGKILL while it converts c.pdf

Call it again after a crash: it continues with the first file that is not done.
"""

import os
import signal
from pathlib import Path

import leftoff

INBOX, PAGES, SITE = Path("inbox"), Path("pages"), Path("site")


def find_pdfs() -> list[str]:
    """Return the files to convert. The result is recorded, so a later call works on the same list."""
    print("collecting")
    if not INBOX.exists():
        INBOX.mkdir()
        for name in ("a", "b", "c", "d"):
            (INBOX / f"{name}.pdf").write_text(f"%PDF-1.4 the {name} trail\n")
    return sorted(str(pdf) for pdf in INBOX.glob("*.pdf"))


def convert(pdf: str) -> Path:
    """Convert one file. Imagine that this is slow and costly."""
    print(f"converting {pdf}")
    if os.environ.get("KILL_AT") == pdf:
        os.kill(os.getpid(), signal.SIGKILL)
    PAGES.mkdir(exist_ok=True)
    page = PAGES / f"{Path(pdf).stem}.md"
    page.write_text(Path(pdf).read_text().replace("%PDF-1.4 ", "# "))
    return page


def publish() -> Path:
    """Write one index of all pages."""
    print("publishing")
    SITE.mkdir(exist_ok=True)
    index = SITE / "index.md"
    index.write_text("".join(page.read_text() for page in sorted(PAGES.glob("*.md"))))
    return index


with leftoff.run("convert-pdfs", title="Nature trail", steps=["collect", "convert", "publish"]) as run:
    pdfs = run.do("collect", find_pdfs)
    for pdf in run.each("convert", pdfs):
        run.artifact(convert(pdf))
    if not run.done("publish"):
        with run.step("publish"):
            run.artifact(publish())

print(f"{len(pdfs)} files converted, see {SITE}/index.md")
