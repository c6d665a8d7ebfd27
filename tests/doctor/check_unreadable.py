#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Reports where peerpin doctor takes an unreadable reading for a fact: check_unreadable.py DOCTOR

Each reading of a test host, present or absent, becomes unreadable in turn, with EACCES and with
EIO. A check whose output changes with other texts of the reading uses it. Such a check must not be
OK without the reading, and must not fail unless it fails with each text.
"""

import json
import re
import subprocess
import sys
import tempfile

import make_hosts
from make_hosts import Error

TEXTS = ("0", "1", "fail x EIO", "libx.so rw", "mlx5_0 hca_handle=2 hca_object=2000", Error("ENOENT"))

# Errors of these readings are facts about the host: an adapter without access, a file that is not
# a program.
ERRORS_ARE_FACTS = r"identity/host|verbs/[^/]*/open|program/path|command/.*|option/.*"


def good():
    """A host with a reading for each check, without problems."""
    host = next(make_hosts.programs())
    for name, text in make_hosts.dgx().readings.items():
        if name.startswith("command/"):
            host.set(name, text)
    return host


def without_probe():
    return make_hosts.not_probed()


def no_way():
    return make_hosts.peermem_missing()


def unregistered():
    return make_hosts.peermem_unregistered()


class Doctor:
    def __init__(self, program, folder):
        self.program = program
        self.folder = folder

    def results(self, host, *options):
        host.readings["identity/host"] = "host"
        host.write(self.folder)
        command = [self.program, "--json", "--from", f"{self.folder}/host.dump", *options]
        whole = json.loads(subprocess.run(command, capture_output=True, check=False).stdout)
        return {check["id"]: (check["result"], check["found"]) for check in whole["checks"]}, whole["status"]

    def names(self, host):
        """Names of all readings that the checks use."""
        self.results(host, "--dump", f"{self.folder}/names")
        with open(f"{self.folder}/names", encoding="utf-8") as lines:
            return [line[3:-1] for line in lines if line.startswith("== ") and not line.startswith("== option/")]

    def with_reading(self, host, name, value):
        kept = dict(host.readings)
        host.readings[name] = value
        if isinstance(value, Error) and value == "ENOENT":
            del host.readings[name]
        results = self.results(host)
        host.readings = kept
        return results


def examine(doctor, host, thorough, least):
    """Yields defects; without `thorough` only of failing checks. At least `least` results must change."""
    base, status = doctor.results(host)
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
                result, found = refused[check]
                used = [other[check] for other in others if other[check] != base[check]] + [base[check]]
                if result == "OK" and len(used) > 1:
                    yield f"{check} is OK without {name} ({error}): {found}"
                if result == "FAIL" and any(other[0] != "FAIL" for other in used):
                    yield f"{check} fails without {name} ({error}): {found}"
    if count < least:
        yield f"only {count} results changed"


def main():
    with tempfile.TemporaryDirectory() as folder:
        doctor = Doctor(sys.argv[1], folder)
        for make, least in ((good, 400), (without_probe, 200), (no_way, 200), (unregistered, 200)):
            for wrong in examine(doctor, make(), make is good, least):
                print(f"{make.__name__}: {wrong}")


if __name__ == "__main__":
    main()
