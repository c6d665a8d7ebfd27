#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""check_entries.py LIBRARY [DRIVER NEWER-DRIVER] -- UCX could patch the entries of the wrappers and of simulated drivers

UCX moves the first bytes of a function elsewhere and writes a jump in their place: on x86-64 5
bytes, or 12 for a distant target; on aarch64 16. UCX refuses a function that begins with an unknown
instruction, and then disables its GPU caches (its ucm/bistro/bistro_x86_64.c: supported
instructions). UCX 1.12.1 to 1.18.0 does not support the first instruction of drivers 575 and newer. Only drivers for x86-64 have such entries, and are required there.
"""
import re
import struct
import subprocess
import sys


def length_x86_64(code):
    """The length of the first instruction, 0 if UCX does not support it."""
    if code[:3] == b"\x48\x83\xec":  # sub $imm8, %rsp
        return 4
    return length_before_1_18_1(code)


def length_before_1_18_1(code):
    if 0x50 <= code[0] <= 0x5F:  # push, pop
        return 1
    if code[0] == 0x41 and 0x50 <= code[1] <= 0x5F:
        return 2
    if code[:3] == b"\x48\x81\xec":  # sub $imm32, %rsp
        return 7
    if code[:3] == b"\x48\x89\xe5":  # mov %rsp, %rbp
        return 3
    if code[:2] == b"\x48\x89" and code[2] & 0xC7 == 0x44:  # mov reg, disp8(sib)
        return 5
    if code[:2] == b"\x48\x89" and code[2] & 0xC7 == 0x84:  # mov reg, disp32(sib)
        return 8
    if 0xB8 <= code[0] <= 0xBF:  # mov $imm, %r32
        return 5
    if code[:2] == b"\x81\x3d":  # cmpl $imm, disp(%rip)
        return 10
    if 0x70 <= code[0] <= 0x7F:  # jcc
        return 2
    return 0


def length_aarch64(code):
    (word,) = struct.unpack("<I", code[:4])
    known = (
        word & 0xFFC00000 in (0xA9800000, 0xA9000000)  # stp
        or word & 0xFF800000 in (0xD2800000, 0xF2800000)  # movz, movk
        or word & 0xFFFFFC00 == 0x91000000  # mov from or to sp
        or word & 0xFFC00000 == 0xF9400000  # ldr, offset
        or word & 0x9F000000 == 0x90000000  # adrp
        or word & 0x7F20001F == 0x6B00001F  # cmp
    )
    return 4 if known else 0


MACHINES = {62: (length_x86_64, (5, 12)), 183: (length_aarch64, (16,))}


def can_be_patched(code, length_of, room):
    done = 0
    while done < room:
        length = length_of(code[done:])
        if not length:
            return False
        done += length
    return True


def segments(image):
    """(offset in the file, address, size) of each loaded segment."""
    (start,) = struct.unpack_from("<Q", image, 32)
    size, count = struct.unpack_from("<HH", image, 54)
    for i in range(count):
        kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", image, start + i * size)
        if kind == 1:
            yield offset, address, length


def entries_of(library):
    """(machine, [(name, first bytes)]) of the exported functions of CUDA."""
    with open(library, "rb") as file:
        image = file.read()
    names = subprocess.run(["nm", library], check=True, capture_output=True, text=True).stdout
    entries = []
    for address, name in re.findall(r"^([0-9a-f]+) [Tt] (cu[A-Z]\w+?)(?<!_linked)(?<!_pointed)(?<!_observed)$", names, re.M):
        where = int(address, 16)
        offset = next(o + where - a for o, a, size in segments(image) if a <= where < a + size)
        entries.append((name, image[offset : offset + 32]))
    return struct.unpack_from("<H", image, 18)[0], entries


def main():
    ours, *drivers = sys.argv[1:]
    machine, entries = entries_of(ours)
    length_of, rooms = MACHINES[machine]
    checks = [(name, code, length_of, room, True) for name, code in entries for room in rooms]
    if machine == 62:
        driver, newer = drivers
        older = length_before_1_18_1
        checks += [(n, code, older, room, True) for n, code in entries_of(driver)[1] for room in rooms]
        for name, code in entries_of(newer)[1]:
            checks += [(name, code, older, 5, False)] + [(name, code, length_of, room, True) for room in rooms]
    # Compiled prologues that UCX refuses: the decoder must refuse them, too.
    for code in (b"\xf3\x0f\x1e\xfa\x55\x48\x89\xe5", b"\x48\x89\xfd\x55\x48\x89\xe5"):
        checks.append(("compiled code", code + bytes(24), length_x86_64, 5, False))
    failed = 0
    for name, code, length_of, room, wanted in checks:
        if can_be_patched(code, length_of, room) != wanted:
            print(f"FAILED: {name} begins with {code[:16].hex()}")
            failed += 1
    if len(entries) < 80:
        print(f"FAILED: {len(entries)} entries are too few")
        failed += 1
    print(f"{len(checks) - failed} passed, {failed} failed, 0 skipped")
    return failed != 0


sys.exit(main())
