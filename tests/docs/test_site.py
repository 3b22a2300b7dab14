"""The site of `make docs`: it is built without a warning, no link on it is dead, and no public name is missing from its reference."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from functools import cached_property
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pytest

for needed in ("mkdocs", "material", "mkdocstrings_handlers.python"):
    pytest.importorskip(needed, reason="the docs extra is not installed")

ROOT = Path(__file__).parents[2]


class _Page(HTMLParser):
    """What a page has to be linked to, and what it links to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            elif name in ("href", "src") and value:
                self.links.add(value)


class _Site:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def pages(self) -> dict[Path, _Page]:
        return {path: _Page(path) for path in self.folder.rglob("*.html") if path.name != "404.html"}  # the links of 404.html start at the host's root

    def dead_links(self) -> Iterator[str]:
        for path, page in self.pages.items():
            for link in sorted(page.links):
                if not urlsplit(link).scheme and not self._is_there(path, *urldefrag(link)):
                    yield f"{path.relative_to(self.folder)}: {link}"

    def _is_there(self, path: Path, place: str, anchor: str) -> bool:
        target = (path.parent / unquote(urlsplit(place).path)).resolve() if place else path
        if target.is_dir():
            target = target / "index.html"
        if not target.is_file():
            return False
        return not anchor or target.suffix != ".html" or anchor == "__top" or unquote(anchor) in self.pages[target].ids


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> _Site:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return _Site(folder)


def test_no_link_is_dead(site: _Site) -> None:
    assert list(site.dead_links()) == []


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text('<p id="here"><a href="#here">1</a> <a href="#gone">2</a> <a href="gone/">3</a> <a href="index.html#here">4</a>')
    assert list(_Site(tmp_path).dead_links()) == ["index.html: #gone", "index.html: gone/"]


def test_every_guide_has_its_page(site: _Site) -> None:
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / name for name in ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"))]
    missing = [page.name for page in pages if not (site.folder / page.relative_to(ROOT).with_suffix("") / "index.html").is_file()]
    assert not missing and (site.folder / "index.html").is_file()


def test_nothing_is_fetched_from_elsewhere(site: _Site) -> None:
    """Fonts, scripts and styles lie on the site: it can be read without a network."""
    fetched = {link for page in site.pages.values() for link in page.links if urlsplit(link).scheme and link.endswith((".js", ".css", ".woff2"))}
    assert not fetched


def _public_names() -> Iterator[str]:
    """Every public name, and every public member of every public class, under the name that users import."""
    for module in ("rowlock", "rowlock.tables", "rowlock.streaming", "rowlock.telemetry", "rowlock.exceptions"):
        space = importlib.import_module(module)
        for name in getattr(space, "__all__", None) or [n for n, v in vars(space).items() if inspect.isclass(v) and v.__module__ == module]:
            value = getattr(space, name)
            yield f"{module}.{name}"
            if inspect.isclass(value) and value.__module__.startswith("rowlock"):
                bases = [base for base in value.__mro__ if base.__module__.startswith("rowlock")]
                for base in bases if module == "rowlock.tables" else bases[:1]:  # what an error has from its base is described with the base
                    yield from (f"{module}.{name}.{member}" for member in vars(base) if not member.startswith("_"))


def test_no_public_name_is_missing_from_the_reference(site: _Site) -> None:
    described = {anchor for path, page in site.pages.items() if "reference" in path.parts for anchor in page.ids}
    missing = {name for name in _public_names() if name not in described}
    # What `rowlock` has from `rowlock.tables` is described there.
    elsewhere = {name for name in missing if name.replace("rowlock.", "rowlock.tables.", 1) in described}
    assert missing - elsewhere == set()


def test_the_first_page_is_short_and_names_what_users_look_for() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 120
    assert all(name in text for name in ("rowlock.enable(", "spark.sql(", 'format("delta")', "saveAsTable", "streams", "docs/sql.md", "docs/streams.md"))
    assert (
        len((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()) <= 120
        and len((ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()) <= 60
    )
