/* SPDX-License-Identifier: BSD-3-Clause */
/* hints.c -- the most important row of hints.def that applies to a process, or a sum of several */
#include "report/emit_forms.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/capped.h"
#include "base/text.h"

/* Functions instead of a struct: most counters are not read. */
#define STATISTIC(name, unit, meaning)                                                             \
	static inline __attribute__((unused)) uint64_t hints_##name(const struct segment *segment) \
	{                                                                                          \
		return segment_value(&segment->counters.name);                                     \
	}
#define TALLY(name, unit, meaning)                                                                 \
	static inline __attribute__((unused)) uint64_t hints_##name(const struct segment *segment) \
	{                                                                                          \
		return segment_tallied(segment, TALLY_##name);                                     \
	}
#include "report/statistics.def"
#undef TALLY
#undef STATISTIC

#define N(key)		 hints_##key(segment)
#define SET(name, value) usage_has_setting(segment, "PEERPIN_" #name, value)
#define FIX_OF(counter)	 hints_fix(segment, #counter)

/* Texts of a row: at most 2. */
struct hints_texts {
	char text[2][160];
	unsigned int used;
};

#define TEXT_OF(...) hints_format(&texts, __VA_ARGS__)
#define TIME(n)	     hints_time(&texts, n)

static char *hints_next(struct hints_texts *texts)
{
	return texts->text[texts->used++ % 2];
}

static __attribute__((format(printf, 2, 3))) const char *hints_format(struct hints_texts *texts,
								      const char *format, ...)
{
	char *to = hints_next(texts);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(to, sizeof(*texts->text), format, arguments);
	va_end(arguments);
	return to;
}

static const char *hints_time(struct hints_texts *texts, uint64_t nanoseconds)
{
	char *to = hints_next(texts);

	usage_time(nanoseconds, to, sizeof(*texts->text));
	return to;
}

static __attribute__((cold)) const char *hints_fix(const struct segment *segment,
						   const char *reason)
{
#define FIX(counter, text)                                                                         \
	if (text_equals(reason, #counter))                                                         \
		return text;
#include "report/hints.def"
#undef FIX
	return "see THE TABLE AT EXIT in 'man 7 peerpin'";
}

bool hints_lacks_idle_cpu(const struct segment *segment)
{
	return NO_IDLE_CPU;
}

#define BYPASSED       bypassed
#define BYPASSED_LABEL reason.label
#define BYPASSED_FIX   hints_fix(segment, reason.name)

__attribute__((cold)) bool hints_find(const struct segment *segment, char *to, size_t size)
{
	struct segment_row reason = { .name = "" };
	uint64_t bypassed = usage_main_reason(segment, &reason);
	struct hints_texts texts = { .used = 0 };
	const char *why = "", *remedy = "";
	uint64_t most = 0;

#define HINT(id, weight, requests, condition, text, fix)                                           \
	if ((requests) > most && (requests) > few && (condition)) {                                \
		most = requests;                                                                   \
		why = text;                                                                        \
		remedy = fix;                                                                      \
	}
#include "report/hints.def"
#undef HINT
	if (most)
		snprintf(to, size, "%llu of %llu requests %s%s%s", llu(most), llu(all), why,
			 *remedy ? ": " : "", remedy);
	return most;
}
