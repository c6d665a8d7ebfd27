# SPDX-License-Identifier: BSD-3-Clause
"""Prints the table of docs/internals/forms.md: clients, their forms of registration, and what peerpin does.

usage: table.py FORMS.DEF STATISTICS.DEF
"""
import re
import sys
import textwrap


def arguments(text, macro):
    """The quoted or plain arguments of each row, with the macro's name, in the file's order."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    for name, row in re.findall(rf"^({macro})\((.*)\)$", text, flags=re.M):
        yield name, [quoted or plain for quoted, plain in re.findall(r'"([^"]*)"|([\w]+)', row)]


def ending(outcomes, labels):
    if len({outcome for outcome, least in outcomes}) != 1:
        sys.exit(f"several outcomes in one row: {outcomes}")
    outcome = outcomes[0][0]
    if outcome == "served":
        return "served" if any(least for _, least in outcomes) else "registered by each request (`synchronous`)"
    if outcome == "refused":
        return "forwarded, and refused as without peerpin"
    label = labels.get(outcome)
    return f"forwarded: `{outcome}`" + (f" ({label})" if label else "")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        forms = file.read()
    with open(sys.argv[2], encoding="utf-8") as file:
        labels = {row[0]: row[1] for _, row in arguments(file.read(), "REASON")}
    versions, uses = {}, []
    for macro, row in arguments(forms, "CLIENT|USE|FORM"):
        if macro == "CLIENT":
            versions[row[0]] = row[1]
        elif macro == "USE":
            uses.append((row[0], row[1], []))
        else:
            uses[-1][2].append((row[2], int(row[3])))
    print("| client | form | peerpin |\n| --- | --- | --- |")
    for clients, how, outcomes in uses:
        if not clients or not outcomes:
            continue
        unknown = set(clients.split(", ")) - set(versions) - {"any"}
        if unknown:
            sys.exit(f"no CLIENT: {unknown}")
        print(f"| {clients} | {how} | {ending(outcomes, labels)} |")
    known = "; ".join(f"{name} {version}" for name, version in versions.items() if version)
    others = ", ".join(name for name, version in versions.items() if not version)
    sources = f"Sources that were read: {known}. Version not recorded: {others}."
    print("\n" + textwrap.fill(sources, 120, break_on_hyphens=False))


main()
