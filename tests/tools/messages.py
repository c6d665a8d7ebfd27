#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""messages.py SOURCE PAGE -- prints each logged warning and error that PAGE does not have, and each of PAGE that the source does not have

A text in the first column of a table has a message if it is a part of the message."""
import pathlib
import re
import sys

LITERALS = r'"(?:[^"\\\\]|\\\\.)*"(?:\s*"(?:[^"\\\\]|\\\\.)*")*'


def logged(source):
    """Formats of warnings and errors in the C code; warnings of the launcher."""
    for file in sorted((source / "src").rglob("*.c")):
        for found in re.finditer(r"log_(?:message|once)\(\s*LOG_(?:WARN|ERROR),\s*(" + LITERALS + ")", file.read_text(encoding="utf-8")):
            yield "".join(re.findall(r'"((?:[^"\\\\]|\\\\.)*)"', found[1]))
    for found in re.finditer(r'\b(?:warn|warn_once) "([^"$]{12,})', (source / "scripts/peerpin.in").read_text(encoding="utf-8")):
        yield found[1]


def entries(page):
    """Patterns of the texts in the first columns; "[...]" stands for any text."""
    rows = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    return [re.compile(".*".join(map(re.escape, re.split(r" *\[\.\.\.\] *", text))))
            for row in rows for text in re.findall(r"`([^`]{12,})`", row.split("|")[1])]


def old(source, page):
    """Texts of the first table of messages that no literal of the source contains."""
    files = [*(source / "src").rglob("*.[ch]"), source / "scripts/peerpin.in"]
    literals = "\n".join(re.sub(r'"\s*\n\s*"', "", file.read_text(encoding="utf-8")) for file in files)
    rows = page.read_text(encoding="utf-8").split("\nLines of the table")[0].splitlines()
    for text in (text for row in rows if row.startswith("| `") and "of the dynamic linker" not in row
                 for text in re.findall(r"`([^`]{12,})`", row.split("|")[1])):
        if not all(part in literals for part in re.split(r" *\[\.\.\.\] *", text)):
            yield text


def main():
    known = entries(pathlib.Path(sys.argv[2]))
    messages = list(logged(pathlib.Path(sys.argv[1])))
    for message in messages:
        if re.search("[a-z]{3}", re.sub("%[a-z]+", "", message)) and not any(entry.search(message) for entry in known):
            print(message)
    for text in old(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])):
        print(f"not in the source: {text}")
    if len(messages) < 20:
        print(f"only {len(messages)} messages were found")


if __name__ == "__main__":
    main()
