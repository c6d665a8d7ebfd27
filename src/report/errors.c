/* SPDX-License-Identifier: BSD-3-Clause */
/* errors.c -- looks up error texts; refines causes that the number leaves ambiguous */
#include "report/errors.h"

#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>

#include "base/kernel.h"

/* All texts in one object. Pointers to them would be relocated at each process start. */
static const struct {
#define CALL(call, name, family) char call##_name[sizeof(name)];
#define ERROR(call, name, number, cause, fix)                                                      \
	char call##_##name##_name[sizeof(#name)];                                                  \
	char call##_##name##_cause[sizeof(cause)];                                                 \
	char call##_##name##_fix[sizeof(fix)];
#include "report/errors.def"
#undef ERROR
#undef CALL
} texts = {
#define CALL(call, name, family) .call##_name = name,
#define ERROR(call, name, number, cause, fix)                                                      \
	.call##_##name##_name = #name, .call##_##name##_cause = cause, .call##_##name##_fix = fix,
#include "report/errors.def"
#undef ERROR
#undef CALL
};

#define TEXT_OFFSET(field) ((uint16_t)offsetof(__typeof__(texts), field))

static const struct {
	uint16_t name, family;
} calls[] = {
#define CALL(call, name, family) { TEXT_OFFSET(call##_name), ERRORS_##family },
#define ERROR(call, name, number, cause, fix)
#include "report/errors.def"
#undef ERROR
#undef CALL
};

static const struct {
	uint16_t call, number, name, cause, fix;
} rows[] = {
#define CALL(call, name, family)
#define ERROR(call, name, number, cause, fix)                                                      \
	{ ERRORS_##call, number, TEXT_OFFSET(call##_##name##_name),                                \
	  TEXT_OFFSET(call##_##name##_cause), TEXT_OFFSET(call##_##name##_fix) },
#include "report/errors.def"
#undef ERROR
#undef CALL
};

static const char *errors_text_at(uint16_t offset)
{
	return (const char *)&texts + offset;
}

bool errors_row(unsigned int index, struct errors_text *text)
{
	if (index >= sizeof(rows) / sizeof(rows[0]))
		return false;
	*text = (struct errors_text){ .call = rows[index].call,
				      .number = rows[index].number,
				      .name = errors_text_at(rows[index].name),
				      .cause = errors_text_at(rows[index].cause),
				      .fix = errors_text_at(rows[index].fix) };
	return true;
}

static bool errors_find(enum errors_call call, int number, struct errors_text *text)
{
	for (unsigned int i = 0; errors_row(i, text); i++) {
		if (text->call == call && text->number == number)
			return true;
	}
	return false;
}

struct errors_text errors_look_up(enum errors_call call, int number)
{
	struct errors_text text;

	if (!errors_find(call, number, &text) && !errors_find(calls[call].family, number, &text))
		text = (struct errors_text){
			.number = number,
			.name = "",
			.cause = "peerpin has no text for this number",
			.fix = "Please report it with the output of `peerpin doctor`."
		};
	text.call = call;
	return text;
}

const char *errors_cause(enum errors_call call, int number)
{
	return errors_look_up(call, number).cause;
}

const char *errors_fix(enum errors_call call, int number)
{
	return errors_look_up(call, number).fix;
}

const char *errors_call_name(enum errors_call call)
{
	return errors_text_at(calls[call].name);
}

void errors_describe(const struct errors_text *text, char *to, size_t size)
{
	snprintf(to, size, "%s: %s%s%d%s: %s", errors_call_name(text->call),
		 *text->name ? text->name : "error", *text->name ? " (" : " ", text->number,
		 *text->name ? ")" : "", text->cause);
}

/* ---- causes that depend on more than the number ---- */

struct errors_text errors_no_room(enum errors_call call, const struct errors_room *room)
{
	struct errors_text text = errors_look_up(call, ENOMEM);

	if (room->region_limit && room->regions >= room->region_limit - room->region_limit / 8) {
		text.cause = "nearly all memory regions of the adapter are in use";
		text.fix = "Register less at a time, or fewer and larger ranges. See max_mr in "
			   "ibv_devinfo -v.";
	} else if (room->lockable != UINT64_MAX && room->pinned + room->wanted > room->lockable) {
		text.cause = "the registration exceeds RLIMIT_MEMLOCK";
		text.fix = "Raise it: ulimit -l unlimited, LimitMEMLOCK=infinity for the batch "
			   "system's daemon, --ulimit memlock=-1 for a container.";
	} else if (room->bar1 && room->pinned + room->wanted > room->bar1 - room->bar1 / 8) {
		text.cause = "the registration does not fit in the GPU's BAR1, which other "
			     "processes use, too";
		text.fix = "Set PEERPIN_PIN_LIMIT to less than BAR1 (nvidia-smi -q -d MEMORY), or "
			   "enable a large BAR1 (resizable BAR) in the firmware.";
	}
	return text;
}

uint64_t errors_lockable(void)
{
	struct rlimit limit;

	return !kernel_may_lock_all() && !kernel_limit(RLIMIT_MEMLOCK, &limit) &&
			       limit.rlim_cur != RLIM_INFINITY
		       ? limit.rlim_cur
		       : UINT64_MAX;
}

struct errors_text errors_no_pages(bool module, bool mapped, bool knows_mapped)
{
	struct errors_text text = errors_look_up(ERRORS_REG_MR, EFAULT);

	if (!module) {
		text.cause =
			"nvidia-peermem is not loaded, so the kernel cannot find the GPU's pages";
		text.fix = "Load it (modprobe nvidia-peermem), or enable dma-buf: NVIDIA's open "
			   "kernel modules, version 515 or newer, and Linux 5.12 or newer.";
	} else if (mapped && !knows_mapped) {
		text.cause = "nvidia-peermem does not support VMM memory (cuMemMap) on this GPU";
		text.fix =
			"Use cudaMalloc (PyTorch: without expandable_segments), or enable dma-buf: "
			"NVIDIA's open kernel modules, version 515 or newer, and Linux 5.12 or "
			"newer.";
	} else if (mapped) {
		text.cause = "the VMM memory (cuMemMap) may have been created without "
			     "gpuDirectRDMACapable";
		text.fix = "Set allocFlags.gpuDirectRDMACapable in cuMemCreate, or use "
			   "cudaMalloc.";
	}
	return text;
}
