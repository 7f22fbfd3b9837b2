# SPDX-License-Identifier: Apache-2.0
"""What holds for README.md and for the pages of docs/: short paragraphs, short lines, links that lead somewhere."""

import posixpath
import re

MAX_PARAGRAPH_WORDS = 120
MAX_PAGE_COLUMNS = 140  # of what is neither table nor code
DESIGN = "docs/design/"
TIME = re.compile(r"\b\d[\d.,]*\s?(ns|us|µs|μs|ms)\b")
LINK = re.compile(r"\]\(([^)\s]+)\)")
ITEM = re.compile(r"\s*([-*]|\d+\.) ")


def is_page(path):
    return path.endswith(".md") and (path.startswith("docs/") or path.split("/")[-1] == "README.md")


def lines_of(text):
    """(number, line, kind) of each line; kind: text, table, code or blank. A heading is text that stands alone."""
    fenced, before = False, "blank"
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            fenced, kind = not fenced, "code"
        elif fenced or (line.startswith("    ") and before in ("blank", "code")):
            kind = "code" if line.strip() or fenced else "blank"
        elif not line.strip():
            kind = "blank"
        else:
            kind = "table" if line.lstrip().startswith("|") else "text"
        if kind != "blank":
            before = kind
        elif before != "code":
            before = "blank"
        yield number, line, kind


def paragraphs(text):
    """(number of the first line, words)"""
    first, words = 0, 0
    for number, line, kind in [*lines_of(text), (0, "", "blank")]:
        if kind != "text" or line.startswith("#") or ITEM.match(line):
            if words:
                yield first, words
            words = 0
        if kind == "text" and not line.startswith("#"):
            first = first if words else number
            words += len(line.split())


def anchors_of(text):
    """As GitHub makes them of headings."""
    found = set()
    for _, line, kind in lines_of(text):
        if kind == "text" and line.startswith("#"):
            words = re.sub(r"[^\w\- ]", "", line.lstrip("#").strip().lower())
            found.add(words.replace(" ", "-"))
    return found


def check_index(index, text, pages):
    """Every page of docs/ is found from its index."""
    folder = posixpath.dirname(index)
    linked = {posixpath.normpath(posixpath.join(folder, target.partition("#")[0])) for target in LINK.findall(text)}
    for page in sorted(set(pages) - linked - {index}):
        yield 1, "orphan-page", f"{page} is not linked here"


def check_page(path, text):
    for number, line, kind in lines_of(text):
        if kind == "text" and len(line) > MAX_PAGE_COLUMNS:
            yield number, "page-width", f"{len(line)} columns; at most {MAX_PAGE_COLUMNS}"
        if path.startswith(DESIGN) and (match := TIME.search(line)):
            yield number, "design-figure", f"{match[0]}: figures of time belong into docs/measured/ or docs/operate/"
    for number, words in paragraphs(text):
        if words > MAX_PARAGRAPH_WORDS:
            yield number, "paragraph", f"{words} words; at most {MAX_PARAGRAPH_WORDS}"


def check_links(path, text, read):
    """`read` gives the text of a file of the tree, "" for a folder, and None if there is none."""
    for number, line, kind in lines_of(text):
        for target in LINK.findall(line) if kind != "code" else ():
            if re.match(r"[a-z]+:", target):
                continue
            file, _, anchor = target.partition("#")
            full = posixpath.normpath(posixpath.join(posixpath.dirname(path), file)) if file else path
            linked = text if full == path else read(full)
            if linked is None:
                yield number, "broken-link", f"{target}: there is no {full}"
            elif anchor and anchor not in anchors_of(linked):
                yield number, "broken-link", f"{target}: {full} has no such heading"
