/* SPDX-License-Identifier: BSD-3-Clause */
/* host.h -- everything that the doctor knows of a machine: readings, each with a name
 *
 * A check looks at readings and at nothing else, so that a machine can be written down (--dump) and examined elsewhere
 * (--from), with the same words. A reading is made once, when it is first asked for, and then kept: what two checks
 * see is the same. Names and what they give:
 *
 *   /PATH          a file's contents, without the last line's end. The path is below the system root.
 *   /PATH/         the names in a folder, sorted, one a line
 *   /PATH@         where the path leads to in the end, with no link left in it (below the system root)
 *   /PATH?         "MODE UID GID ACCESS": mode in octal with the type's bits, access of this process: "rw", "r-", "--"
 *   environment/NAME   a variable's value; ENOENT: it is not set
 *   limits/NAME    memlock, nofile: the soft limit, a number or "unlimited"
 *   identity/NAME  host (its name), kernel (uname -r), machine (uname -m), glibc (its version), uid (effective)
 *   option/NAME    what the user asked for: probe ("off": register nothing), deep ("on"), run ("on"), program (path),
 *                  limit (seconds: host_has_time),
 *                  arguments (the program's, one a line)
 *   kernel/symbol/NAME  "1": the running kernel has it; kernel/module/NAME: the module's file among those installed.
 *                  ENODATA: there is no /proc/kallsyms, no modules.dep to look in
 *   command/LINE   what a command printed (command.c); "LINE | grep WORD": its lines with that word
 *   cuda/...       the CUDA driver and NVML (driver.c)
 *     ended            "ok" | "signal N" | "exit N" | "timeout SECONDS": how the child that asked the driver ended;
 *                      error ETIME: there was no time for it
 *     library          file that libcuda.so.1 is; error ENOENT with the loader's words
 *     init             cuInit's result by name, "CUDA_SUCCESS"
 *     driver_version   cuDriverGetVersion: "13000"
 *     count            devices; they are N = 0, 1 ... below
 *     N/name           "NVIDIA H200"
 *     N/pci            "0000:1b:00.0", as sysfs writes it
 *     N/memory         bytes
 *     N/compute        "9.0"
 *     N/attribute/ID   cuDeviceGetAttribute: a number; error EINVAL with the CUresult's name
 *     N/context        the primary context's retain: "CUDA_SUCCESS" or the CUresult's name
 *     N/export/KIND    dma-buf descriptor of a new allocation: "ok" | "CALL CUDA_ERROR_NAME"
 *                      KIND: device, device_pcie (mapping flag 1), mapped (gpuDirectRDMACapable), mapped_plain, pool
 *     N/capable/KIND   pointer attribute IS_GPU_DIRECT_RDMA_CAPABLE: "0" | "1"; KIND: device, mapped, mapped_plain, pool
 *     N/bar1           NVML: "TOTAL USED", bytes
 *     N/mig, N/persistence   NVML: "0" | "1"
 *     N/virtualization       NVML: "0" none, "1" passed through, "2" a virtual GPU, "3" "4" the host of virtual ones
 *     N/ecc_pending    NVML: "0" | "1": retired pages or remapped rows wait for a reset
 *   verbs/...      libibverbs (verbs.c)
 *     ended            as above
 *     library          file that libibverbs.so.1 is; error ENOENT with the loader's words
 *     symbol/NAME      "IBVERBS_1.12", the version by which the library has it; error ENOENT: it has not.
 *                      ibv_reg_dmabuf_mr, ibv_reg_mr_ex, and of libmlx5: mlx5dv_reg_dmabuf_mr
 *     fork             ibv_is_fork_initialized: "disabled" | "enabled" | "unneeded"
 *     devices          names, one a line
 *     NAME/open        "ok"; error as ibv_open_device left it
 *     NAME/limits      "max_mr N", "max_mr_size N" ... one a line
 *     NAME/dmabuf      ibv_reg_dmabuf_mr with descriptor -1: the errno's name; "EBADF" means that it would work
 *     NAME/data_direct "PATH": mlx5dv_get_data_direct_sysfs_path; error: the adapter has none
 *     NAME/dmabuf_data_direct   the probe by mlx5dv_reg_dmabuf_mr: the errno's name
 *   probe/...      real registrations (probe.c). GPU is N of cuda/, WAY is "dma-buf", "peermem" or "data-direct"
 *     ended            as above
 *     GPU/ADAPTER/WAY/BYTES      "ok NANOSECONDS" (the call that registers) | "fail CALL ERRNO" (a name: "EFAULT")
 *     GPU/ADAPTER/WAY/relaxed    the same with relaxed ordering
 *     GPU/ADAPTER/WAY/returned   "ok" | "lost BYTES": the GPU's free memory afterwards
 *     GPU/ADAPTER/WAY/transfer   --deep: "ok" | "fail WHAT"; error EOPNOTSUPP with words: no data could be sent at all
 *   program/...    the program named on the command line (program.c)
 *     path             as given, resolved on PATH; error ENOENT
 *     kind             "elf" | "script" | "text" (a script without a first line that says so) | "other"
 *     interpreter_line a script's first line, without "#!"; the rest of program/ is then of the program that it names
 *     class            "64" | "32"
 *     machine          "x86_64", "aarch64" or a number
 *     loader           PT_INTERP; error ENOENT: static
 *     needed           DT_NEEDED of it and of what it needs, one a line
 *     missing          those of them that are not found
 *     privilege        "none", or words of: setuid setgid capability
 *     static_cuda      "1": the CUDA runtime is linked into it
 *     deepbind         "1": dlopen's RTLD_DEEPBIND is hinted at
 *     glibc            highest GLIBC_ version asked for: "2.34"
 *     run              --run: "ended HOW" and one line for each way in that was used: "linked N", "dlsym N", ...
 *
 * An error is an errno with words, which may be empty. What a recorded host does not have is an error ENOENT.
 * One thread. Texts live as long as the host.
 */
#ifndef PEERPIN_DOCTOR_HOST_H
#define PEERPIN_DOCTOR_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct host;

struct reading {
	int error;	  /* 0: text is what was read; else text is what there is to say, or "" */
	const char *text; /* ended by a zero byte, which is not counted */
	size_t length;
};

/* `root` is the folder that absolute paths are below: "" for this machine's own. */
struct host *host_live(const char *root);
void host_free(struct host *host);

/* The reading of that name. Never NULL. */
const struct reading *host_read(struct host *host, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Its text; NULL: an error. */
const char *host_text(struct host *host, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Its text as a number, of base 10, or 16 behind "0x". False: an error, or no number. */
bool host_number(struct host *host, int64_t *value, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* No error. For a path: it is there and can be read. */
bool host_has(struct host *host, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* It failed for another reason than that it is not there. */
bool reading_is_refused(const struct reading *reading);

/* host_text, host_number and host_has do not tell what is refused from what is not there. So they note it:
 * "NAME (ERROR)", separated by commas; NULL: nothing since the last call. For the caller to free. */
char *host_take_refused(struct host *host);
/* Notes what was taken once more: for who keeps what he has read. */
void host_note_refused(struct host *host, const char *names);

/* Copies the next line of *text without its end and moves *text behind it. False: there is none left. A line that is too
 * long is cut. `text` may be NULL: no lines.
 *	for (const char *at = host_text(host, "verbs/devices"); host_line(&at, name, sizeof(name));) */
bool host_line(const char **text, char *line, size_t size);

/* Says what a reading is, in place of looking: the way for sources, options and recorded hosts. The first one stays.
 * In a child of host_ask_child it also goes to the parent, at once. */
void host_record(struct host *host, const char *name, int error, const char *text, size_t length);
void host_say(struct host *host, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void host_fail(struct host *host, const char *name, int error, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* `fill` is called, once, when a name that begins with `prefix` ("cuda/") is first asked for; it records what there is.
 * What it does not record is an error ENOENT. Not called for a recorded host. It may read names of other prefixes. */
void host_add_source(struct host *host, const char *prefix, void (*fill)(struct host *host));

/* Calls `body` in a child process, which records there what it finds out; what it recorded before it crashed, or before
 * `seconds` were over and it was killed, is kept. How it ended is recorded as "PREFIXended"; error ETIME: NO_TIME. Descriptors of the child's own need no closing. */
void host_ask_child(struct host *host, const char *prefix, unsigned int seconds,
		    void (*body)(struct host *child));

/* Whether so much time is left of what a run may take with that which hangs: option/limit, or HOST_LIMIT seconds. */
bool host_has_time(struct host *host, unsigned int seconds);
#define HOST_LIMIT 120
#define NO_TIME	   "no time was left"

/* Every reading so far, in the order of names. False from `visit` ends it. */
void host_each(struct host *host,
	       bool (*visit)(const char *name, const struct reading *reading, void *argument),
	       void *argument);

/* An errno as its name and back: "ENOENT"; a number where it has none that we know. */
const char *host_error_name(int error);
int host_error_number(const char *name);

/* The sources. Each file calls host_add_source for what it reads. */
void driver_add(struct host *host);  /* driver.c: cuda/ */
void verbs_add(struct host *host);   /* verbs.c: verbs/ */
void probe_add(struct host *host);   /* probe.c: probe/ */
void program_add(struct host *host); /* program.c: program/ */

#endif
