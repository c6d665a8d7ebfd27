#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Says what is wrong with doctor's JSON and with the recorded hosts: check_verdicts.py EXPECTED-FOLDER JSON-FOLDER

The JSON has the verdicts of the text. Over all hosts each check is OK at least once and something else at least once: one
that cannot say both says nothing.
"""

import collections
import json
import pathlib
import re
import sys

SIGNS = {"OK": "OK", "-": "NOT NEEDED", "?": "UNKNOWN", "WARN": "WARN", "FAIL": "FAIL"}
KEYS = {"id", "group", "verdict", "found", "read", "why", "do", "needs", "more"}


def verdicts_of_text(text):
    lines = (re.match(r"(OK|-|\?|WARN|FAIL) +([a-z0-9-]+)  +\S", line) for line in text.split("\n"))
    return {found[2]: SIGNS[found[1]] for found in lines if found}


def main():
    expected, written = map(pathlib.Path, sys.argv[1:])
    seen = collections.defaultdict(set)
    for file in sorted(expected.glob("*.expected")):
        text = file.read_text(encoding="utf-8")
        whole = json.loads((written / f"{file.stem}.json").read_text(encoding="utf-8"))
        told = {check["id"]: check["verdict"] for check in whole["checks"]}
        if told != verdicts_of_text(text):
            print(f"{file.stem}: JSON and text differ: {set(told.items()) ^ set(verdicts_of_text(text).items())}")
        if text.rsplit("=> ", 1)[1].strip() != str(whole["status"]) or whole["conclusion"] not in text:
            print(f"{file.stem}: JSON has another conclusion")
        for check in whole["checks"]:
            seen[check["id"]].add(check["verdict"])
            if set(check) != KEYS or not check["found"] or not check["read"] or not check["why"]:
                print(f"{file.stem}: {check['id']} lacks something")
            if check["verdict"] in ("WARN", "FAIL") and not check["do"]:
                print(f"{file.stem}: {check['id']} does not say what to do")
    for name, verdicts in seen.items():
        # How devices order and split requests is told, and not judged.
        if "OK" not in verdicts or not verdicts & ({"UNKNOWN"} if name == "ordering" else {"WARN", "FAIL"}):
            print(f"{name} is only ever {sorted(verdicts)}")
    if len(seen) != 26:
        print(f"{len(seen)} checks were seen")


if __name__ == "__main__":
    main()
