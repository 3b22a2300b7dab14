"""Hooks of the site's generator: every page keeps the path that it has in the repository.

The generator takes one folder of documents, and README.md, ARCHITECTURE.md and CHANGELOG.md lie outside of it.  With all of
them at their own paths a link that is right in the repository is right on the site, and nothing is rewritten.
"""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel

PAGES = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The files of docs/ below docs/, and beside them the pages of the repository's root and the example notebooks, to download."""
    root = Path(config.docs_dir).parent
    paths = [*(root / page for page in PAGES if (root / page).exists()), *(root / "examples").glob("*.ipynb")]
    for file in list(files):
        if file.abs_src_path and Path(file.abs_src_path).is_relative_to(config.docs_dir):
            files.remove(file)
            if file.inclusion.is_included():
                paths.append(Path(file.abs_src_path))
    for path in paths:
        made = File.generated(config, path.relative_to(root).as_posix(), abs_src_path=str(path))
        made.inclusion = InclusionLevel.INCLUDED
        files.append(made)
    return files


def on_serve(server: object, config: MkDocsConfig, builder: object) -> object:
    """`mkdocs serve` builds again when a page of the root or a docstring changes."""
    root = Path(config.docs_dir).parent
    for watched in [root / "src", *(root / page for page in PAGES if (root / page).exists())]:
        server.watch(str(watched))  # type: ignore[attr-defined]
    return server
