/* SPDX-License-Identifier: BSD-3-Clause */
/* checks.h -- the checks of doctor, and the finding that each check fills
 *
 * Table: doctor_checks.def, a row for each check with its rules (rules.h). A check fills its
 * finding from readings of the host, and changes nothing else. Checks are independent: no check
 * depends on, or stops, another. Data that could not be read gives UNKNOWN, never OK.
 */
#ifndef PEERPIN_DOCTOR_CHECKS_H
#define PEERPIN_DOCTOR_CHECKS_H

#include "tools/doctor/host.h"
#include "tools/doctor/machine.h"

enum result { OK, NOT_NEEDED, UNKNOWN, WARN, FAIL };
#define RESULTS 5

#define GROUPS_MAX 16

struct finding {
	enum result result;
	char *text;	    /* one line: the observation */
	const char **fixes; /* one fix per cause: a command, or "ask your administrator: ..." */
	unsigned int fix_count;
	bool undecided; /* fixes are dropped: the need for the missing part is unknown */
	struct group {	/* items with one text, not yet in `text` */
		enum result result;
		const char *words;
		char *items;
	} groups[GROUPS_MAX];
	unsigned int group_count;
};

/* Texts last until texts_free(). */

/* Replaces result and text. */
void finding_set(struct finding *finding, enum result result, const char *text);
/* Raises the result if it is lower, and appends to the text behind "; ". */
void finding_add(struct finding *finding, enum result result, const char *text);
/* Reports what readings imply for an item (NULL: for the host). A measurement outranks it: with
 * `measured`, the words of one that shows otherwise (proof_of), the text ends with them, the result
 * is OK, and the fix is left out. */
void finding_implied(struct finding *finding, const char *item, const char *measured,
		     enum result result, const char *fix, const char *text);
/* OK: another part of the host serves. */
void finding_forgive(struct host *host, struct finding *finding);
/* finding_add for one GPU, adapter or pair. Items with equal text and result are merged: "GPU0
 * GPU1 dma-buf; GPU2 nothing". */
void finding_item(struct finding *finding, enum result result, const char *item, const char *text);
/* Adds the fix of one cause. A fix with identical text is added once. */
void finding_fix(struct finding *finding, const char *fix);
/* Text with all items. NULL: nothing was added. */
const char *finding_text(struct finding *finding);

/* "OK", "NOT NEEDED", ... */
const char *result_name(enum result result);

/* Reports a missing part of one registration method, and replaces the text. OK: `measured` shows
 * otherwise, as in finding_implied; NOT NEEDED: method `other` reaches every GPU; FAIL: it does
 * not; UNKNOWN: undecidable here. NULL: no fix. */
void finding_without(struct host *host, struct finding *finding, const char *measured,
		     enum method other, const char *fix, const char *missing);

/* BAR1 of a GPU: facts.c. */
struct bar1 {
	long long bytes, used; /* 0: unknown */
	bool unassigned;       /* by the firmware */
};
struct bar1 bar1_of(struct host *host, const struct gpu *gpu);
/* Records job/ from the statistics in a file or folder: facts.c. False: there are none. */
bool job_record(struct host *host, const char *path);

/* ---- words of several rules ---- */

#define NONE NULL /* no fix */
#define FIX_NO_GPU                                                                                 \
	"run it where a GPU and its driver are: srun -N 1 --gpus 1 peerpin doctor, or docker run " \
	"--gpus all"
#define FIX_DRIVER "nvidia-smi, and sudo dmesg | grep NVRM: the driver or the GPU is in a bad state"
#define FIX_BAR1   "ask your administrator: Above 4G Decoding and Resizable BAR on in the BIOS"
#define FIX_VERBS                                                                                  \
	"apt install libibverbs1 ibverbs-providers, or dnf install libibverbs (as root; for a "    \
	"container, where it is built)"
#define FIX_NO_MODULE	 "ask your administrator: install the driver's kernel modules for this kernel"
#define FIX_PROVIDER	 "use an adapter of another driver, such as mlx5"
#define FIX_HARDWARE	 "use a hardware RDMA adapter"
#define FIX_SYSFS	 "give this container /sys, or run it on the host"
#define FIX_NO_CONTAINER "run it on the host itself, outside of the container"

/* Reasons that several checks cannot be made: printed once, with the checks. */
#define NO_GPU	   "no GPU is visible"
#define NO_ADAPTER "no RDMA adapter is visible"

/* list_append with a blank between. */
void list_add(char **list, const char *item);
/* Shortens "GPU0 GPU1 GPU2 GPU5" to "GPU0..2 GPU5". */
char *list_shorten(const char *items);

struct check {
	const char *id;
	const char *group;
	const char *privilege; /* "none", "root", "gpu", ...: required for a full result */
	const char *read;      /* sources of the readings, separated by commas */
	const char *why;       /* one sentence: why the check matters */
	const char *link;      /* page in the documentation */
};

extern const struct check checks[];
extern const unsigned int check_count;

void check_log(struct host *host, struct finding *finding);
void check_probe(struct host *host, struct finding *finding);
void check_settings(struct host *host, struct finding *finding);

/* ---- result of a run, for the printers ---- */

/* Exit status. */
#define DOCTOR_WORKS	 0 /* one method is proved for each GPU */
#define DOCTOR_FAILS	 1 /* at least one GPU has no method */
#define DOCTOR_USAGE	 2
#define DOCTOR_UNDECIDED 3

struct diagnosis {
	struct host *host;
	struct finding *findings; /* one per check, in order of `checks` */
	bool *shown;		  /* checks that the user selected */
	bool partial;		  /* --only: conclusion about these checks, not the host */
	const char *conclusion;
	int status;
};

/* Sets conclusion and status. */
void conclude(struct diagnosis *diagnosis);

void print_diagnosis(const struct diagnosis *diagnosis, bool verbose, bool colour);

/* ---- costs.c ---- */

struct cost {
	size_t size;
	long long export, enter, leave; /* export, register, deregister: ns; export 0: none */
};

/* The cost of size number `which`, from 0, that --deep measured. False: none. */
bool cost_of(struct host *host, const struct gpu *gpu, const struct adapter *adapter,
	     enum method method, unsigned int which, struct cost *cost);
/* Prints nothing without costs. */
void print_costs(struct host *host);

/* Prints the checks in which hosts differ, from files of --json; none: standard input. Returns the
 * exit status. */
int merge_print_hosts(char **files);

/* Prints the verdict. */
void print_conclusion(const struct diagnosis *diagnosis);

/* False: writing failed. */
bool print_json(const struct diagnosis *diagnosis);

#endif
