/* SPDX-License-Identifier: BSD-3-Clause */
/* host.h -- readings of a machine, each with a name
 *
 * Checks use readings only: a machine can be recorded (--dump) and examined elsewhere (--from)
 * with identical results. host.c makes a reading on first use and keeps it, so all checks see
 * one value.
 *
 * Names and values:
 *
 *   /PATH          file contents without the last newline. PATH is below the system root
 *   /PATH/         names in a folder, sorted, one per line
 *   /PATH@         target of the path with all links resolved (below the system root)
 *   /PATH?         "MODE UID GID ACCESS": octal mode with type bits; access of this process:
 *                  "rw", "r-", "--"
 *   environment/NAME   value of a variable; ENOENT: not set
 *   limits/NAME    memlock, nofile: the soft limit, a number or "unlimited"
 *   limits/NAME/hard   the hard limit
 *   identity/NAME  host (name), kernel (uname -r), machine (uname -m), glibc (version),
 *                  uid (effective)
 *   option/NAME    user options: probe ("off": register nothing), deep ("on"),
 *                  program (path), arguments (of it, one per line), limit (seconds: host_has_time))
 *   kernel/symbol/NAME  "1": the running kernel has the symbol
 *   kernel/module/NAME  file of the module among the installed modules
 *                  ENODATA for both: no /proc/kallsyms, or no modules.dep
 *   kernel/log     lines of nvidia_peermem, mlx5 and Xid in the kernel's log, from the first that
 *                  is kept
 *   command/LINE   output of a command (command.c); "LINE | grep WORD": its lines with WORD
 *   cuda/...       the CUDA driver and NVML (driver.c)
 *     ended            "ok" | "signal N" | "exit N" | "timeout SECONDS": end of the child that
 *                      called the driver; error ETIME: no time was left
 *     library          path of libcuda.so.1; error ENOENT with the loader's message
 *     init             result of cuInit by name, "CUDA_SUCCESS"
 *     driver_version   cuDriverGetVersion: "13000"
 *     count            number of devices; N = 0, 1 ... below
 *     N/name           "NVIDIA H200"
 *     N/pci            "0000:1b:00.0", in sysfs notation
 *     N/memory         bytes
 *     N/compute        "9.0"
 *     N/attribute/ID   cuDeviceGetAttribute: a number; error EINVAL with the CUresult's name
 *     N/context        result of retaining the primary context: "CUDA_SUCCESS" or another name
 *     N/export/KIND    dma-buf descriptor of a new allocation: "ok" | "CALL CUDA_ERROR_NAME"
 *                      KIND: device, device_pcie (mapping flag 1), pool,
 *                      mapped (VMM memory with gpuDirectRDMACapable), mapped_plain (without)
 *     N/capable/KIND   pointer attribute IS_GPU_DIRECT_RDMA_CAPABLE: "0" | "1"
 *                      KIND: device, mapped, mapped_plain, pool
 *     N/bar1           NVML: "TOTAL USED", bytes
 *     N/mig, N/persistence   NVML: "0" | "1"
 *     N/virtualization       NVML: "0" none, "1" passed through, "2" a virtual GPU,
 *                      "3" "4" host of virtual GPUs
 *     N/ecc_pending    NVML: "0" | "1": retired pages or remapped rows require a reset
 *   verbs/...      libibverbs (verbs.c)
 *     ended            as cuda/ended
 *     library          path of libibverbs.so.1; error ENOENT with the loader's message
 *     symbol/NAME      symbol version: "IBVERBS_1.12"; error ENOENT: not in the library
 *                      ibv_reg_dmabuf_mr, ibv_reg_mr_ex, and of libmlx5: mlx5dv_reg_dmabuf_mr
 *     fork             ibv_is_fork_initialized: "disabled" | "enabled" | "unneeded"
 *     devices          names, one per line
 *     NAME/open        "ok"; error of ibv_open_device
 *     NAME/limits      "max_mr N", "max_mr_size N" ... one per line
 *     NAME/dmabuf      ibv_reg_dmabuf_mr with descriptor -1: the errno's name;
 *                      "EBADF" means that dma-buf is supported
 *     NAME/dmabuf_data_direct   mlx5dv_reg_dmabuf_mr with descriptor -1: the errno's name
 *   probe/...      real registrations (probe.c). GPU: N of cuda/;
 *                  METHOD: "dma-buf", "peermem" or "data-direct"
 *     ended            as cuda/ended
 *     GPU/ADAPTER/METHOD/BYTES      "ok NANOSECONDS" (duration of the registering call) |
 *                                "fail CALL ERRNO" (a name: "EFAULT")
 *     GPU/ADAPTER/METHOD/relaxed    as BYTES, with relaxed ordering
 *     GPU/ADAPTER/METHOD/returned   "ok" | "lost BYTES": the GPU's free memory afterwards
 *     GPU/ADAPTER/METHOD/transfer   --deep: "ok" | "fail ERROR"; error EOPNOTSUPP with a reason:
 *                                no transfer was possible
 *     GPU/ADAPTER/METHOD/copies     --deep: "ok OLD OLD ROUNDS": rounds in which the adapter read
 *                                old data behind a copy, without and with SYNC_MEMOPS
 *     GPU/ADAPTER/METHOD/cost/BYTES --deep: "ok EXPORT REGISTER DEREGISTER", ns; EXPORT 0: none
 *   job/...        --job: processes (their number), and of the process with the most of each:
 *                  bytes (registered at peak), regions (registered in all)
 *   program/...    the program on the command line (program.c)
 *     path             resolved on PATH; error ENOENT
 *     kind             "elf" | "script" | "text" (script without #! line) | "other"
 *     interpreter_line first line of a script without "#!"; all further readings of program/
 *                      then describe the interpreter
 *     class            "64" | "32"
 *     machine          "x86_64", "aarch64" or a number
 *     loader           PT_INTERP; error ENOENT: static
 *     needed           DT_NEEDED, direct and indirect, one per line
 *     missing          libraries of `needed` that are not found
 *     privilege        "none", or words of: setuid setgid capability
 *     static_cuda      "1": the CUDA runtime is linked statically
 *     deepbind         "1": the file contains the string RTLD_DEEPBIND
 *     glibc            highest required GLIBC_ version: "2.34"
 *
 * An error is an errno with a text, which may be empty. A reading missing from a recorded host
 * is an error ENOENT. Not thread-safe. Texts stay valid until host_free.
 */
#ifndef PEERPIN_DOCTOR_HOST_H
#define PEERPIN_DOCTOR_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct host;

struct reading {
	const char *name;
	int error;	  /* 0, or an errno: `text` is a message or "" then */
	const char *text; /* NUL-terminated; `length` excludes the NUL */
	size_t length;
};

/* Host of this machine. `root` is prepended to absolute paths; "": no prefix. */
struct host *host_live(const char *root);
void host_free(struct host *host);

/* Reading with this name. Never NULL. */
const struct reading *host_read(struct host *host, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The reading if it is recorded already; else NULL. */
const struct reading *host_recorded(const struct host *host, const char *name);

/* host_read for the macros below, which do not distinguish unreadable from absent data: it notes
 * unreadable readings (host_take_refused). */
#define host_read_noting(host, ...) host_noting(host, host_read(host, __VA_ARGS__))
const struct reading *host_noting(struct host *host, const struct reading *reading);

/* Text of a reading. NULL: error. */
#define host_text(host, ...) reading_text(host_read_noting(host, __VA_ARGS__))
/* Number in a reading, base 10, or 16 after "0x". False: error, or not a number. */
#define host_number(host, value, ...) reading_number(host_read_noting(host, __VA_ARGS__), value)
/* True if the reading has no error. For a path: it exists and is readable. */
#define host_has(host, ...) (!host_read_noting(host, __VA_ARGS__)->error)

static inline const char *reading_text(const struct reading *reading)
{
	return reading->error ? NULL : reading->text;
}

bool reading_number(const struct reading *reading, int64_t *value);

/* True if the error is neither ENOENT nor ENOTDIR. */
bool reading_is_refused(const struct reading *reading);

/* Returns and clears the notes on unreadable readings: "NAME (ERROR)", separated by commas; NULL:
 * none since the last call. */
char *host_take_refused(struct host *host);
/* Adds taken notes again, for a caller that caches readings. */
void host_note_refused(struct host *host, const char *names);

/* Copies the next line of *text without its newline and advances *text. False: no line is left.
 * A line longer than `size` is cut. *text may be NULL: no lines.
 *   for (const char *at = host_text(host, "verbs/devices"); host_line(&at, name, sizeof(name));) */
bool host_line(const char **text, char *line, size_t size);

/* Appends a text to a list, which starts as NULL, with `between` before all but the first. */
void list_append(char **list, const char *between, const char *text);

/* Records a reading, for sources, options and recorded hosts. The first record of a name stays.
 * A child of host_run_child also sends the reading to the parent at once. */
void host_record_bytes(struct host *host, const char *name, int error, const char *text,
		       size_t length);
void host_record(struct host *host, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void host_record_error(struct host *host, const char *name, int error, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* Formats a reading's name, in a buffer that the next call overwrites. */
const char *reading_name(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Runs `body` in a child process. The host keeps all readings that the child records before it
 * ends, crashes or is killed after `seconds`. Records "PREFIXended"; error ETIME: NO_TIME
 * (child.h). `body` need not close its descriptors. */
void host_run_child(struct host *host, const char *prefix, unsigned int seconds,
		    void (*body)(struct host *child));

/* True if `seconds` remain of the time limit for calls that may hang: option/limit, or
 * HOST_LIMIT seconds. */
bool host_has_time(struct host *host, unsigned int seconds);
#define HOST_LIMIT 120
#define NO_TIME	   "no time was left"

/* Visits every reading recorded so far, sorted by name. */
void host_each(struct host *host, void (*visit)(const struct reading *reading));

/* Name of an errno: "ENOENT"; its number if the name is not in the table. */
const char *host_error_name(int error);

/* Registration methods, by their names in probe/. */
enum method { METHOD_DMA_BUF, METHOD_PEER_MEMORY, METHOD_DATA_DIRECT };
#define METHODS 3

static inline const char *method_name(enum method method)
{
	static const char *const names[METHODS] = { "dma-buf", "peermem", "data-direct" };

	return names[method];
}

/* Sizes of the probe's registrations, as in its readings. */
#define PROBE_SMALL "2097152"
#define PROBE_LARGE "67108864"

/* Sizes of --deep's costs: 64 KiB to 1 GiB. */
#define PROBE_COSTS 64 << 10, 1 << 20, 16 << 20, 256 << 20, 1 << 30

/* ==== for the files that make and write readings ==== */

/* ---- host.c ---- */

/* Host without sources: an unrecorded reading is an error ENOENT. */
struct host *host_empty(void);
const char *host_root(const struct host *host);

/* Sources of the live host: each records the readings of its prefix that exist. */
void driver_fill(struct host *host);  /* driver.c: cuda/ */
void verbs_fill(struct host *host);   /* verbs.c: verbs/ */
void probe_fill(struct host *host);   /* probe.c: probe/ */
void program_fill(struct host *host); /* program.c: program/ */

/* ---- live.c ---- */

/* Reads a file, a folder, a link or a pseudo path of this machine, and records the reading. */
void live_read(struct host *host, const char *name);

/* ---- record.c ---- */

#define RECORD_FIRST_LINE "# peerpin doctor: readings of a host, version 1"

void record_write_all(FILE *file, struct host *host);

/* Records all readings of a text written by record_write_all. False: malformed text; *line is
 * the line of the error. */
bool record_parse(struct host *host, char *text, unsigned int *line);

#endif
