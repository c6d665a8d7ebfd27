#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""messages.py SOURCE PAGE -- prints each message in the first columns of PAGE's tables that no literal of the source has

"[...]" in a message stands for any text. Warnings and errors have their own fix: the page has those that lead elsewhere."""
import pathlib
import re
import sys


def main():
    source, page = map(pathlib.Path, sys.argv[1:])
    files = [*(source / "src").rglob("*.[ch]"), source / "scripts/peerpin.in"]
    literals = "\n".join(re.sub(r'"\s*\n\s*"', "", file.read_text(encoding="utf-8")) for file in files)
    rows = page.read_text(encoding="utf-8").split("\n`man 7 peerpin`")[0].splitlines()
    texts = [text for row in rows if row.startswith("| `") and "of the dynamic linker" not in row
             for text in re.findall(r"`([^`]{12,})`", row.split("|")[1])]
    for text in texts:
        if not all(part in literals for part in re.split(r" *\[\.\.\.\] *", text)):
            print(f"not in the source: {text}")
    if len(texts) < 8:
        print(f"only {len(texts)} messages were found")


if __name__ == "__main__":
    main()
