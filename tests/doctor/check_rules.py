#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Reports names in the doctor's tables that no table has, and values that no rule uses: check_rules.py FOLDER

FOLDER is src/tools/doctor. The grammar of conditions and texts is in rules.h.
"""

import pathlib
import re
import sys

ROW = re.compile(r"^([A-Z_]+)\(((?:\"(?:[^\"\\]|\\.)*\"|[^\")]|\)(?!\n|\s*/\*))*)\)", re.M)
TERM = re.compile(r"!?([a-z_0-9]+)([=~<>:\[]?)([^ |]*)")


def literals(text):
    return [bytes(part, "utf-8").decode("unicode_escape") for part in re.findall(r'"((?:[^"\\]|\\.)*)"', text)]


def names_of(condition):
    """Names in a condition."""
    for term in re.split(r"[ |]+", condition.strip()):
        name, sign, operand = TERM.fullmatch(term).groups()
        yield name
        if sign in "<>" and operand[:1].isalpha():
            yield operand
        if sign == "[" and (second := operand.rstrip(")").split(",")[1])[:1].isalpha():
            yield second


def names_in(text):
    """Names in a text or in the name of a reading."""
    return re.findall(r"\{([a-z_0-9]+)[|?:}]", text)


def main():
    folder = pathlib.Path(sys.argv[1])
    tables = {name: (folder / f"{name}.def").read_text(encoding="utf-8") for name in ("readings", "words", "facts")}
    rules = "".join(file.read_text(encoding="utf-8") for file in sorted(folder.glob("rules/*.def")))
    defined = {name for text in tables.values() for name in re.findall(r"^(?:READING|WORDS|FACT)\((\w+),", text, re.M)}
    used = set()
    for text in (*tables.values(), rules):
        for kind, row in ROW.findall(text):
            parts = literals(row)
            if kind in ("CHECK", "FACT", "EACH"):
                continue
            if kind != "READING" and parts and parts[0]:
                used.update(names_of(parts[0]))
            if "IMPLIED" in kind or "WITHOUT" in kind:
                used.update(re.findall(r'^"[^"]*",\s*"(\w+)"', row))
            used.update(name for part in parts for name in names_in(part))
    sources = "".join(file.read_text(encoding="utf-8") for file in folder.glob("*.c")) + tables["facts"]
    used.update(name for name in defined if f'"{name}"' in sources)
    if len(used) < 150:
        print(f"only {len(used)} names were found")
    for name in sorted(used - defined):
        print(f"no table has {name}")
    for name in sorted(defined - used - {"spare"}):
        print(f"no rule uses {name}")


if __name__ == "__main__":
    main()
