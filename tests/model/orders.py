#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# orders.py -- which memory orders the look-up needs: every execution of small programs, in C11's model and AArch64's
"""The C model is RC11 (C11 repaired: no value out of thin air), the other AArch64's as other-multi-copy-atomic axioms
without dependencies, which only makes it allow more. A program is compiled for it as GCC does: acquire LDAR, release
STLR, sequentially consistent LDAR and STLR, an acquire fence DMB ISHLD, other fences DMB ISH.
For each program all choices of a store for each load, and all orders of the stores to one place,
are tried. The models are written out here since Debian 12 has no tool that includes them; the last
programs below have known outcomes.

A thread is a list: ("W", place, value, order), ("R", place, order, register), ("F", order).
"""
import itertools
import sys

RELAXED, ACQUIRE, RELEASE, SEQ_CST = "relaxed", "acquire", "release", "seq_cst"
ACQUIRING, RELEASING = (ACQUIRE, SEQ_CST), (RELEASE, SEQ_CST)


def closure(size, pairs):
    """Reachability as a bit mask for each event."""
    reach = [0] * size
    for a, b in pairs:
        reach[a] |= 1 << b
    for middle in range(size):
        for a in range(size):
            if reach[a] >> middle & 1:
                reach[a] |= reach[middle]
    return reach


def acyclic(size, pairs):
    reach = closure(size, pairs)
    return not any(reach[a] >> a & 1 for a in range(size))


class Event:
    def __init__(self, number, thread, kind, place, value, order, register):
        self.number, self.thread, self.kind = number, thread, kind
        self.place, self.value, self.order, self.register = place, value, order, register


def events_of(initial, threads):
    events = [Event(i, -1, "W", place, value, RELAXED, None) for i, (place, value) in enumerate(initial.items())]
    for thread, steps in enumerate(threads):
        for step in steps:
            place = value = register = None
            if step[0] == "W":
                _, place, value, order = step
            elif step[0] == "R":
                _, place, order, register = step
            else:
                order = step[1]
            events.append(Event(len(events), thread, step[0], place, value, order, register))
    return events


def executions(initial, threads):
    """(events, program order, reads-from, store order) of each candidate."""
    events = events_of(initial, threads)
    program = [(a.number, b.number) for a in events for b in events
               if a.number < b.number and (a.thread == b.thread or a.thread == -1) and b.thread != -1]
    reads = [e for e in events if e.kind == "R"]
    stores = {place: [e for e in events if e.kind == "W" and e.place == place] for place in initial}
    orders = [[(s[0],) + rest for rest in itertools.permutations(s[1:])] for s in stores.values()]
    for chosen in itertools.product(*(stores[r.place] for r in reads)):
        source = {r.number: w for r, w in zip(reads, chosen)}
        for order in itertools.product(*orders):
            after = [(a.number, b.number) for line in order for i, a in enumerate(line) for b in line[i + 1:]]
            yield events, program, source, after


def relations(source, after):
    reads_from = [(w.number, r) for r, w in source.items()]
    before = [(r, b) for r, w in source.items() for a, b in after if a == w.number]
    return reads_from, before


def allowed_in_c(events, program, source, after):
    size = len(events)
    reads_from, from_reads = relations(source, after)
    po = set(program)
    communication = reads_from + after + from_reads
    # Synchronisation: a release store, or a fence before a store, with the load that reads it, or a fence after that.
    synchronises = []
    for w, r in reads_from:
        store, load = events[w], events[r]
        heads = [w] if store.order in RELEASING else []
        heads += [f.number for f in events if f.kind == "F" and f.order in RELEASING and f.thread == store.thread
                  and (f.number, w) in po]
        tails = [r] if load.order in ACQUIRING else []
        tails += [f.number for f in events if f.kind == "F" and f.order in ACQUIRING and f.thread == load.thread
                  and (r, f.number) in po]
        synchronises += [(h, t) for h in heads for t in tails]
    happens = closure(size, list(program) + synchronises)
    far = closure(size, communication)
    # Coherence: nothing that happens before x comes after it in the order of communication, and no cycle.
    for a in range(size):
        if happens[a] >> a & 1:
            return False
        for b in range(size):
            if happens[a] >> b & 1 and far[b] >> a & 1:
                return False
    # No value out of thin air.
    if not acyclic(size, list(program) + reads_from):
        return False
    # Sequential consistency, by RC11's psc.
    hb = {(a, b) for a in range(size) for b in range(size) if happens[a] >> b & 1}
    eco = {(a, b) for a in range(size) for b in range(size) if far[a] >> b & 1}
    same = {(a, b) for a, b in hb if events[a].place is not None and events[a].place == events[b].place}
    different = {(a, b) for a, b in po if events[a].place != events[b].place or events[a].place is None}
    scb = po | same | set(after) | set(from_reads)
    scb |= {(a, d) for a, b in different for c, d in different if (b, c) in hb}
    strict = [e.number for e in events if e.order == SEQ_CST]
    fences = [n for n in strict if events[n].kind == "F"]
    psc = set()
    for s in strict:
        starts = {s} | ({b for a, b in hb if a == s} if s in fences else set())
        for t in strict:
            ends = {t} | ({a for a, b in hb if b == t} if t in fences else set())
            if any(a in starts and b in ends for a, b in scb):
                psc.add((s, t))
    for s in fences:
        for t in fences:
            if (s, t) in hb or any((s, a) in hb and (b, t) in hb for a, b in eco):
                psc.add((s, t))
    return acyclic(size, psc)


def allowed_on_aarch64(events, program, source, after):
    size = len(events)
    reads_from, from_reads = relations(source, after)
    po = set(program)
    communication = reads_from + after + from_reads
    if not acyclic(size, [(a, b) for a, b in po if events[a].place is not None
                          and events[a].place == events[b].place] + communication):
        return False
    ordered = [(a, b) for a, b in communication if events[a].thread != events[b].thread]
    for a, b in po:
        first, second = events[a], events[b]
        if first.thread == -1:
            ordered.append((a, b))
            continue
        if first.kind == "R" and first.order in ACQUIRING:
            ordered.append((a, b))
        if second.kind == "W" and second.order in RELEASING:
            ordered.append((a, b))
        if first.kind == "W" and first.order in RELEASING and second.kind == "R" and second.order in ACQUIRING:
            ordered.append((a, b))
        for fence in events:
            if fence.kind != "F" or (a, fence.number) not in po or (fence.number, b) not in po:
                continue
            if fence.order != ACQUIRE or first.kind == "R":
                ordered.append((a, b))
    return acyclic(size, ordered)


MODELS = (("C", allowed_in_c), ("AArch64", allowed_on_aarch64))


def observable(model, initial, threads, forbidden):
    for execution in executions(initial, threads):
        events, _, source, _ = execution
        registers = {events[r].register: w.value for r, w in source.items()}
        if forbidden(registers) and model(*execution):
            return True
    return False


# ---- a copy of a record, across a free and the next allocation ----

def torn(registers):
    life = registers["g1"]
    return life % 2 == 1 and life == registers["g2"] and {registers["a"], registers["b"]} != {life}


def copy(even=SEQ_CST, fence=None, fields=RELEASE, odd=RELEASE, first=ACQUIRE, loads=RELAXED, last_fence=ACQUIRE,
         last=RELAXED):
    """Life 1 ends, life 3 begins; each life's fields hold its generation."""
    writer = [("W", "g", 2, even)] + ([("F", fence)] if fence else [])
    writer += [("W", "a", 3, fields), ("W", "b", 3, fields), ("W", "g", 3, odd)]
    reader = [("R", "g", first, "g1"), ("R", "a", loads, "a"), ("R", "b", loads, "b")]
    reader += ([("F", last_fence)] if last_fence else []) + [("R", "g", last, "g2")]
    return {"g": 1, "a": 1, "b": 1}, [writer, reader], torn


# ---- a node, filled and swung in; it was in use elsewhere before ----

def swing(store=RELEASE, load=ACQUIRE):
    writer = [("W", "slot", 1, RELAXED), ("W", "entry", 1, store)]
    reader = [("R", "entry", load, "entry"), ("R", "slot", RELAXED, "slot")]
    return {"slot": 0, "entry": 0}, [writer, reader], lambda r: r["entry"] == 1 and r["slot"] == 0


# ---- a free and a user: the second observes the first ----

def missed(free=SEQ_CST, look=SEQ_CST, announce=SEQ_CST, check=SEQ_CST, fences=None):
    between = [("F", fences)] if fences else []
    freeing = [("W", "g", 2, free)] + between + [("R", "user", look, "user")]
    uses = [("W", "user", 1, announce)] + between + [("R", "g", check, "g")]
    return {"g": 1, "user": 0}, [freeing, uses], lambda r: r["user"] == 0 and r["g"] == 1


# ---- programs with known outcomes, to check the models themselves ----

def far_apart(loads, stores=RELAXED):
    """Two stores by two threads, seen by two others in opposite orders."""
    readers = [[("R", one, loads, one + "1"), ("R", two, loads, two + "2")] for one, two in (("x", "y"), ("y", "x"))]
    return {"x": 0, "y": 0}, [[("W", "x", 1, stores)], [("W", "y", 1, stores)]] + readers, \
        lambda r: r["x1"] == 1 and r["y2"] == 0 and r["y1"] == 1 and r["x2"] == 0


def from_the_future(loads):
    threads = [[("R", one, loads, one), ("W", two, 1, RELAXED)] for one, two in (("x", "y"), ("y", "x"))]
    return {"x": 0, "y": 0}, threads, lambda r: r["x"] == 1 and r["y"] == 1


def backwards():
    reader = [("R", "x", RELAXED, "first"), ("R", "x", RELAXED, "second")]
    return {"x": 0}, [[("W", "x", 1, RELAXED)], reader], lambda r: r["first"] == 1 and r["second"] == 0


# Possible observations in C, and on AArch64.
TESTS = [
    ("copy: fields stored with release", copy(), False, False),
    ("copy: the even store may be relaxed, if the fields' stores release", copy(even=RELAXED), False, False),
    ("copy: fields relaxed after a release fence", copy(fence=RELEASE, fields=RELAXED), False, False),
    ("copy: the same, all but the fence and the odd store relaxed",
     copy(even=RELAXED, fence=RELEASE, fields=RELAXED), False, False),
    ("copy: fields loaded with acquire, then no fence", copy(loads=ACQUIRE, last_fence=None), False, False),
    ("copy: everything sequentially consistent, no fence",
     copy(fields=SEQ_CST, odd=SEQ_CST, first=SEQ_CST, loads=SEQ_CST, last_fence=None, last=SEQ_CST), False, False),
    ("weak copy: fields relaxed, no fence, the even store sequentially consistent", copy(fields=RELAXED), True, True),
    ("weak copy: fields relaxed, no fence, the even store releases", copy(even=RELEASE, fields=RELAXED), True, True),
    ("weak copy: the odd store relaxed", copy(fence=RELEASE, fields=RELAXED, odd=RELAXED), True, True),
    ("weak copy: the first load of the generation relaxed", copy(first=RELAXED), True, True),
    ("weak copy: no fence before the second load", copy(last_fence=None), True, True),
    ("weak copy: no fence, the second load acquires", copy(last_fence=None, last=ACQUIRE), True, True),
    ("weak copy: no fence, the second load sequentially consistent", copy(last_fence=None, last=SEQ_CST), True, True),
    ("swing: release, acquire", swing(), False, False),
    ("weak swing: the store relaxed", swing(store=RELAXED), True, True),
    ("weak swing: the load relaxed (its address dependency left out)", swing(load=RELAXED), True, True),
    ("free and user: all four sequentially consistent", missed(), False, False),
    ("free and user: relaxed around sequentially consistent fences",
     missed(RELAXED, RELAXED, RELAXED, RELAXED, SEQ_CST), False, False),
    ("weak free and user: release and acquire (C allows it, LDAR after STLR does not)",
     missed(RELEASE, ACQUIRE, RELEASE, ACQUIRE), True, False),
    ("weak free and user: the look for users only acquires", missed(look=ACQUIRE), True, False),
    ("weak free and user: the check of the generation only acquires", missed(check=ACQUIRE), True, False),
    ("weak free and user: the free only releases", missed(free=RELEASE), True, False),
    ("weak free and user: the look for users relaxed", missed(look=RELAXED), True, True),
    ("weak free and user: the check of the generation relaxed", missed(check=RELAXED), True, True),
    ("known: two stores in opposite orders, acquire", far_apart(ACQUIRE, RELEASE), True, False),
    ("known: two stores in opposite orders, sequentially consistent", far_apart(SEQ_CST, SEQ_CST), False, False),
    ("known: loads that read from the future (machines allow it)", from_the_future(RELAXED), False, True),
    ("known: the same, the loads acquire", from_the_future(ACQUIRE), False, False),
    ("known: one place read backwards", backwards(), False, False),
]


def main():
    passed = failed = 0
    for name, (initial, threads, forbidden), *expected in TESTS:
        for (model_name, model), wanted in zip(MODELS, expected):
            found = observable(model, initial, threads, forbidden)
            if found == wanted:
                passed += 1
            else:
                failed += 1
                print(f"FAILED: {model_name}: {name}: {'observable' if found else 'not observable'}")
            if "--verbose" in sys.argv:
                print(f"{model_name:8}{'observable' if found else 'never':12}{name}")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
