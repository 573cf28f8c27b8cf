"""Prints the licences of everything that is linked into the programs.

usage: licences.py TREE FOLDER...

TREE is the output of `cargo tree`, one crate a line (`NAME vVERSION ...`), and standard input that of
`cargo metadata`. Each FOLDER belongs to a library that is not a crate: it is called
NAME_VERSION and contains the texts of its licences. Fails if a crate comes without a text.
"""

import collections
import html
import json
import pathlib
import re
import sys

# The beginnings of the names of files with licences.
NAMES = ("LICEN", "COPYING", "COPYRIGHT", "NOTICE", "UNLICEN")
# Folders of a crate without code that is linked.
UNUSED = {"target", "tests", "examples", "benches", "doc", "docs"}
LINE = "=" * 80


def plain(page):
    """Returns the text of an HTML page: that of the standard library's licences."""
    return re.sub(r"\n\s*\n+", "\n\n", html.unescape(re.sub(r"<[^>]*>", "", page)))


def texts(folder):
    """Yields the texts of the licences of a folder and of the sources that it embeds."""
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        named = path.name.upper().startswith(NAMES) or path.name == "copyright"
        if named and path.is_file() and not UNUSED & set(parts[:-1]) and path.suffix not in (".rs", ".py"):
            text = path.read_text(encoding="utf-8", errors="replace")
            yield (plain(text) if path.suffix == ".html" else text).strip()


def linked_crates(tree, metadata):
    """Returns name, version, licence and folder of each crate in the tree, without our own."""
    wanted = {tuple(line.split()[:2]) for line in tree.read_text().splitlines() if line.strip()}
    for package in metadata["packages"]:
        is_wanted = (package["name"], "v" + package["version"]) in wanted
        if is_wanted and package["source"]:
            folder = pathlib.Path(package["manifest_path"]).parent
            yield package["name"], package["version"], package["license"] or "see its text", folder


def main():
    """Prints the list and the texts."""
    tree, folders = pathlib.Path(sys.argv[1]), [pathlib.Path(f) for f in sys.argv[2:]]
    parts = list(linked_crates(tree, json.load(sys.stdin)))
    for folder in folders:
        name, _, version = folder.name.rpartition("_")
        parts.append((name, version, "see its text", folder))
    users = collections.OrderedDict()
    print("Third-party software in lagtrace\n\nname, version, licence:\n")
    for name, version, licence, folder in sorted(parts):
        print(f"  {name} {version}: {licence}")
        found = list(texts(folder))
        if not found:
            sys.exit(f"error: {name} {version} has no text of its licence")
        for text in found:
            users.setdefault(text, []).append(f"{name} {version}")
    for text, names in users.items():
        print(f"\n{LINE}\n{', '.join(dict.fromkeys(names))}\n{LINE}\n\n{text}")


if __name__ == "__main__":
    main()
