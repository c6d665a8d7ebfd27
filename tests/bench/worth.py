# SPDX-License-Identifier: BSD-3-Clause
"""The section of bench/rows.md on "make worth", from the JSON of tests/stacks/worth_table."""

NEEDED = ("case", "bytes", "cache", "without_us", "with_us", "ratio", "low_ratio", "high_ratio", "first_ratio",
          "first_low_ratio", "first_high_ratio", "registrations_without", "registrations_with",
          "first_registrations_without", "first_registrations_with", "background_with", "allocating_without_us",
          "allocating_with_us", "requests", "hits")

INTRODUCTION = """\
## worth

The gain or loss of a program: MPI programs that exchange GPU memory as applications do (`tests/stacks/patterns --help` names the
patterns), run without and with peerpin by `tests/stacks/worth`. Open MPI and UCX over the simulated adapter, two ranks, every
byte checked. The jobs take turns in one run, a case each; the result names their order.

A time is that of one round in the send path: from the first call that sends or receives to the end of the last, in
milliseconds. The ratio is the time without peerpin to that with it, so above 1 is a gain: median, smallest and largest
of the repetitions. "Faster" and "slower" mean that all repetitions agree. Bounds and verdicts of more than 8
repetitions leave out the outermost ones. "First use" is the round in which all buffers are new. Registrations are those
of GPU memory in the kernel, per rank and round, in the send path, and peerpin's in the background. Allocating is the
time of calls that allocate and free, per rank and round. "Nothing registered" means that neither side registered GPU
memory in the send path of those rounds: peerpin could save nothing, and the ratio is noise, or the cost of its other
work. One start runs all patterns of a job, and "threads" is one of them, so all run with MPI_THREAD_MULTIPLE: MPI calls
include the cost of MPI's locks, on both sides.

UCX caches registrations itself, and its memory hooks report their end. peerpin can save only registrations that UCX would repeat:
with buffers that stay (halo, persistent) none after first use. A program that may not trust that cache, or has switched it off,
registers each message. peerpin moves these registrations to the background and to the free, so allocating and freeing take longer.
While a request waits, peerpin registers the requested range in whole granules, also over several mappings of a pool
(pool). Later messages inside that range hit. After eight ranges of an allocation the worker registers the whole.

The adapter, and where the result names no GPU the GPU too, is simulated: its queue pairs move bytes by a processor of the
host, and each registration takes the stated time. Registrations are counted: the counts carry over to hardware.
"""

# Results recorded before the field exists have one order.
ORDERS = {1: "The jobs ran in one order.", 2: "Every second repetition had the jobs in reverse order."}


def check_rows(rows):
    """The name of a field that a row lacks; None: all are there."""
    return next((name for row in rows for name in NEEDED if name not in row), None)


def is_idle(row, prefix=""):
    """Whether neither side registered GPU memory in the send path, so that the ratio shows no gain."""
    return not row[f"{prefix}registrations_without"] and not row[f"{prefix}registrations_with"]


def words(row, prefix=""):
    return ", ".join(filter(None, (verdict(row, prefix), "nothing registered" if is_idle(row, prefix) else "")))


def verdict(row, prefix=""):
    if row[f"{prefix}low_ratio"] > 1:
        return "faster"
    if row[f"{prefix}high_ratio"] < 1:
        return "slower"
    return ""


def size(value):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if value % unit == 0:
            return f"{value // unit} {name}"
    return f"{value} B"


def count(value):
    return f"{value:.0f}" if value == int(value) else f"{value:.1f}"


def milliseconds(value):
    return f"{value / 1000:,.1f}" if value < 1e5 else f"{value / 1000:,.0f}"


def ratios(row, prefix=""):
    return f"{row[f'{prefix}ratio']:.2f} ({row[f'{prefix}low_ratio']:.2f} to {row[f'{prefix}high_ratio']:.2f})"


def requests(row):
    """The time in requests, and its ratio."""
    if "requesting_ratio" not in row:
        return "-"
    return (f"{milliseconds(row['requesting_without_us'])}, {milliseconds(row['requesting_with_us'])}: "
            f"{ratios(row, 'requesting_')} {verdict(row, 'requesting_')}").strip()


def line(row):
    cells = (row["case"], size(row["bytes"]), milliseconds(row["without_us"]), milliseconds(row["with_us"]),
             ratios(row), words(row), ratios(row, "first_"), words(row, "first_"), requests(row),
             f"{count(row['first_registrations_without'])}, {count(row['registrations_without'])}",
             f"{count(row['first_registrations_with'])}, {count(row['registrations_with'])}",
             count(row["background_with"]),
             f"{milliseconds(row['allocating_without_us'])}, {milliseconds(row['allocating_with_us'])}")
    return "| " + " | ".join(cells) + " |"


def tally(rows, prefix=""):
    found = [verdict(row, prefix) for row in rows]
    return f"faster in {found.count('faster')}, slower in {found.count('slower')}, not clear in {found.count('')}"


def summary(rows):
    again = [row for row in rows if "again_ratio" in row]
    requests, hits = sum(row["requests"] for row in rows), sum(row["hits"] for row in rows)
    before = sum(row["registrations_without"] for row in rows)
    after = sum(row["registrations_with"] for row in rows)
    lines = [f"Of {len(rows)} cases peerpin is {tally(rows)}; at first use {tally(rows, 'first_')}."]
    idle, first_idle = (sum(is_idle(row, prefix) for row in rows) for prefix in ("", "first_"))
    if idle or first_idle:
        lines.append(f"In {idle} of them, and in {first_idle} at first use, nothing was registered on either side: their "
                     "ratios are noise, or cost.")
    if again:
        lines.append(f"Between two jobs without it the second one is {tally(again, 'again_')}: that is the machine.")
    timed = [row for row in rows if "requesting_ratio" in row]
    if timed:
        took = [sum(row[f"requesting_{name}_us"] for row in timed) for name in ("without", "with")]
        lines.append(f"UCX's requests for GPU memory, in all rounds, are {tally(timed, 'requesting_')}, and take "
                     f"{took[1] / took[0]:.2f} times as long, all in all.")
        nulls = [row for row in timed if "requesting_again_ratio" in row]
        if nulls:
            lines.append(f"Between the two jobs without it those of the second one are {tally(nulls, 'requesting_again_')}.")
    if before:
        lines.append(f"Of the registrations in the send path after first use {100 * after / before:.0f} % are left.")
    if requests:
        lines.append(f"Of UCX's {requests:,} requests then {100 * hits / requests:.1f} % were ready.")
    allocating = [sum(row[f"allocating_{name}_us"] for row in rows) for name in ("without", "with")]
    if allocating[0]:
        lines.append(f"Allocating and freeing take {allocating[1] / allocating[0]:.1f} times as long, all in all.")
    return " ".join(lines)


def table(result):
    lines = []
    for cache, title in ((True, "UCX as it is"), (False, result["second"])):
        rows = [row for row in result["rows"] if row["cache"] == cache]
        if not rows:
            continue
        lines += [f"**{title}.** {summary(rows)}", "",
                  "| pattern | message | without | with | ratio | | first use | | requests: without, with: ratio | registrations without: first, later "
                  "| with: first, later | in the background | allocating: without, with |",
                  "| --- | ---: | ---: | ---: | ---: | --- | ---: | --- | --- | ---: | ---: | ---: | ---: |"]
        lines += [line(row) for row in rows]
        lines.append("")
        lines += kept_table(rows)
    return lines


def kept_table(rows):
    """The job with kept memory, whose turn is between those of two jobs without peerpin."""
    rows = [row for row in rows if "keep_ratio" in row]
    if not rows:
        return []
    lines = ["**UCX as it is, with kept memory.** The turn of the job with `--keep 1G` is between those of two jobs "
             "without peerpin: a ratio to each, and between the two. Memory of earlier patterns and repetitions is "
             "reused, so that few buffers are new in a first round.", "",
             "| pattern | message | without | kept | ratio to the first | ratio to the second | without, twice "
             "| registrations: first, later, in the background | deregistrations | allocating: without, again, kept | ratio | without, twice |",
             "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for row in rows:
        cells = (row["case"], size(row["bytes"]), milliseconds(row["keep_without_us"]), milliseconds(row["keep_with_us"]),
                 ratios(row, "keep_"), ratios(row, "keep_again_"), ratios(row, "again_"),
                 ", ".join(count(row[name]) for name in ("first_registrations_keep", "registrations_keep",
                                                         "background_keep")),
                 count(row["deregistrations_keep"]),
                 ", ".join(milliseconds(row[f"allocating_{name}_us"]) for name in ("without", "again", "keep")),
                 ratios(row, "allocating_keep_"), ratios(row, "allocating_again_"))
        lines.append("| " + " | ".join(cells) + " |")
    return lines + [""]


def heading(result):
    """Results with one heading are of one kind: the newest counts."""
    return f"{result['machine']}; UCX as it is, {result['second']}"


def section(results):
    """`results`: {heading: result}. Nothing where nothing was measured."""
    if not results:
        return []
    lines = [INTRODUCTION, "![ratio of times without and with peerpin, by pattern and size](worth.svg)", ""]
    for title, result in results.items():
        lines += [f"### {title}", "",
                  f"{result['repeats']} repetitions of {result['rounds']} rounds after the first; "
                  f"load of the machine at the end: {result['load']}. "
                  f"{ORDERS[result.get('orders', 1)]} "
                  f"Added to each registration of GPU memory: {result.get('added_us', 0)} us; ranks are bound to: {result.get('binding', 'none')}. By chance alone the repetitions of "
                  f"{100 * min(1, 2 * 0.5 ** result['repeats']):.0f} % of the cases would agree.", "", *table(result)]
    return lines
