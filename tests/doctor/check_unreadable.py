#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Says where peerpin doctor takes what it cannot read for a fact: check_unreadable.py DOCTOR

Each reading of a recorded host, also of what the host does not have, is refused in turn, with EACCES and with EIO. Which
checks use it is found out by giving it other texts: a check whose words change uses it. One that uses it
may not be OK without it, and may not fail where it does not fail with some text of it.
"""

import json
import re
import subprocess
import sys
import tempfile

import make_hosts
from make_hosts import Error

TEXTS = ("0", "1", "fail x EIO", "libx.so rw", "mlx5_0 hca_handle=2 hca_object=2000", Error("ENOENT"))

# What fails in these tells something of the host: an adapter that may not be opened, a file that is no program.
ERRORS_ARE_FACTS = r"identity/host|verbs/[^/]*/open|program/path|program/run|command/.*|option/.*"


def good():
    """Each check has something to look at, and all is well."""
    host = next(make_hosts.programs())[0]
    for name, text in make_hosts.dgx()[0].readings.items():
        if name.startswith("command/"):
            host.say(name, text)
    return host


def without_probe():
    return make_hosts.not_probed()[0]


def no_way():
    return make_hosts.peermem_missing()[0]


def unregistered():
    return make_hosts.unregistered()[0]


class Doctor:
    def __init__(self, program, folder):
        self.program = program
        self.folder = folder

    def ask(self, host, *options):
        host.readings["identity/host"] = "asked"
        host.write(self.folder, "asked")
        command = [self.program, "--json", "--from", f"{self.folder}/asked.dump", *options]
        whole = json.loads(subprocess.run(command, capture_output=True, check=False).stdout)
        return {check["id"]: (check["result"], check["found"]) for check in whole["checks"]}, whole["status"]

    def names(self, host):
        """All that is asked for."""
        self.ask(host, "--dump", f"{self.folder}/names")
        with open(f"{self.folder}/names", encoding="utf-8") as lines:
            return [line[3:-1] for line in lines if line.startswith("== ") and not line.startswith("== option/")]

    def with_reading(self, host, name, value):
        kept = dict(host.readings)
        host.readings[name] = value
        if isinstance(value, Error) and value == "ENOENT":
            del host.readings[name]
        told = self.ask(host)
        host.readings = kept
        return told


def examine(doctor, host, thorough, least):
    """What is wrong. Not thorough: only of what fails. At least so often a check has to change its words."""
    base, status = doctor.ask(host)
    count = 0
    for name in doctor.names(host):
        if re.fullmatch(ERRORS_ARE_FACTS, name):
            continue
        for error in ("EACCES", "EIO") if thorough else ("EACCES",):
            refused, now = doctor.with_reading(host, name, Error(error))
            if now == 1 and status != 1:
                yield f"without {name} ({error}) the conclusion is that it does not work"
            count += sum(refused[check] != base[check] for check in refused)
            doubtful = [check for check in refused if refused[check][0] in (("OK", "FAIL") if thorough else ("FAIL",))]
            if error == "EACCES":
                others = [doctor.with_reading(host, name, text)[0] for text in TEXTS] if doubtful else []
            for check in doubtful:
                verdict, found = refused[check]
                used = [other[check] for other in others if other[check] != base[check]] + [base[check]]
                if verdict == "OK" and len(used) > 1:
                    yield f"{check} is OK without {name} ({error}): {found}"
                if verdict == "FAIL" and any(other[0] != "FAIL" for other in used):
                    yield f"{check} fails without {name} ({error}): {found}"
    if count < least:
        yield f"only {count} checks changed their words"


def main():
    with tempfile.TemporaryDirectory() as folder:
        doctor = Doctor(sys.argv[1], folder)
        for make, least in ((good, 400), (without_probe, 200), (no_way, 200), (unregistered, 200)):
            for wrong in examine(doctor, make(), make is good, least):
                print(f"{make.__name__}: {wrong}")


if __name__ == "__main__":
    main()
