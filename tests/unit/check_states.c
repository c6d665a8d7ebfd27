/* SPDX-License-Identifier: BSD-3-Clause */
/* check_states.c -- the rows of tests/unit/states: events, and the memory and registrations that
 * they leave
 *
 * The head of that file explains its words. Each row runs in a process of its own.
 */
#include "suite.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "base/system.h"
#include "../sleeps.h"
#include "hits_fixture.h"
#include "keep_fixture.h"
#include "memory/lookup.h"
#include "registration/entry.h"
#include "registration/holds.h"
#include "registration/methods.h"
#include "registration/objects.h"

#define PLACES	 0x7d0000000000u /* A, B, ...: 128 GiB each */
#define ROWS	 512
#define SECTIONS 64
#define WORD	 64

static struct row {
	const char *section, *settings, *name, *text;
	unsigned int line;
} rows[ROWS];
static unsigned int row_count;
static const struct row *row;

/* Of this thread: `i` of the loop, whether the last event succeeded, and how a request was served.
 */
static __thread uint64_t turn;
static __thread bool succeeded, was_fast;
static __thread unsigned int pins, pins_before;
static __thread uint64_t forwarded_before;

static struct {
	uint64_t address, length;
	struct registration_keys keys;
} clients[256];

static struct ibv_pd others[] = { { .context = DEVICE, .handle = 2 },
				  { .context = DEVICE,
				    .handle = 1 }, /* the kernel reuses handles */
				  { .context = (struct ibv_context *)0x6000, .handle = 1 } };
static struct ibv_pd *const pds[] = { &pd, &others[0], &others[1], &others[2] };

/* With a format of its own behind the text where the row fails. */
#define fail_at(text, format, ...)                                                                 \
	ck_abort_msg("tests/unit/states:%u: %s: \"%.*s\": " format, row->line, row->name,          \
		     (int)strcspn(text, ";\n"), text, ##__VA_ARGS__)

/* ---- words ---- */

static const char *skip(const char *at)
{
	while (*at == ' ' || *at == '\t')
		at++;
	return at;
}

/* A word ends before a space or a sign. */
static const char *read_word(const char *at, char *word)
{
	size_t length = 0;

	at = skip(at);
	while (*at && !strchr(" \t\n;:,()", *at) && length < WORD - 1)
		word[length++] = *at++;
	word[length] = '\0';
	return at;
}

static uint64_t read_factor(const char **at)
{
	char *end;
	uint64_t value;

	if (**at == 'i' || (**at >= 'A' && **at <= 'J')) {
		value = **at == 'i' ? turn
				    : PLACES + (uint64_t)(**at - 'A') * ((uint64_t)128 << 30);
		++*at;
		return value;
	}
	if (!strncmp(*at, "max", 3)) {
		*at += 3;
		return UINT64_MAX;
	}
	value = strtoull(*at, &end, 10);
	require(end != *at);
	for (const char *unit = "KMG"; *unit; unit++) {
		value <<= *end && strchr(unit, *end) ? 10 : 0;
	}
	*at = end + (*end && strchr("KMG", *end) != NULL);
	return value;
}

static uint64_t read_product(const char **at)
{
	uint64_t value = read_factor(at);

	while (**at == '*' || **at == '%') {
		char sign = *(*at)++;
		uint64_t factor = read_factor(at);

		value = sign == '*' ? value * factor : value % factor;
	}
	return value;
}

static uint64_t value_of(const char *word)
{
	uint64_t value;

	require(*word);
	value = read_product(&word);
	while (*word == '+' || *word == '-') {
		char sign = *word++;
		uint64_t term = read_product(&word);

		value = sign == '+' ? value + term : value - term;
	}
	require(!*word);
	return value;
}

static const char *read_value(const char *at, uint64_t *value)
{
	char word[WORD];

	at = read_word(at, word);
	if (!*word)
		fail_at(at, "no value");
	*value = value_of(word);
	return at;
}

/* ---- events inside functions of driver and adapter ---- */

enum {
	IN_ATTRIBUTE = DRIVER_POINTS,
	IN_QUERY,
	IN_MEMOPS,
	IN_EXPORT,
	IN_PIN,
	IN_UNPIN,
	IN_FREEING,
	POINTS
};

static const char *run(const char *at);
static const char *end_of(const char *at);

static struct point {
	const char *name;
	_Atomic(const char *) text; /* for the next call */
	_Atomic bool held;
	_Atomic unsigned int inside;
} points[POINTS] = { [IN_VERSION] = { "version" },     [IN_EVENT] = { "event" },
		     [IN_RECORD] = { "record" },       [IN_WAIT] = { "wait" },
		     [IN_POLL] = { "poll" },	       [IN_INFO] = { "info" },
		     [IN_FREE] = { "driver-free" },    [IN_MEMOPS] = { "memops" },
		     [IN_ATTRIBUTE] = { "attribute" }, [IN_QUERY] = { "query" },
		     [IN_EXPORT] = { "export" },       [IN_PIN] = { "pin" },
		     [IN_UNPIN] = { "unpin" },	       [IN_FREEING] = { "freeing" } };

/* The statement of "in" is a part of the caller's. */
static void pass_point(unsigned int which)
{
	struct point *point = &points[which];
	const char *text = atomic_exchange(&point->text, NULL);
	uint64_t outer = turn, forwarded = forwarded_before;
	unsigned int before = pins_before;

	point->inside++;
	if (text)
		run(text);
	while (point->held)
		sched_yield();
	point->inside--;
	turn = outer;
	pins_before = before;
	forwarded_before = forwarded;
}

static void pass_driver_point(enum driver_point which)
{
	pass_point(which);
}

static const char *read_point(const char *at, struct point **point)
{
	char word[WORD];

	at = read_word(at, word);
	for (*point = points; *point < points + POINTS; ++*point) {
		if (!strcmp((*point)->name, word))
			return at;
	}
	fail_at(at, "%s is no function", word);
	return at;
}

static CUresult get_no_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	(void)value, (void)attribute, (void)device;
	pass_point(IN_ATTRIBUTE);
	return CUDA_ERROR_INVALID_VALUE;
}

static __typeof__(cuPointerGetAttributes) *query;

/* The driver's answer is from before the event. */
static CUresult query_and_pass(unsigned int count, CUpointer_attribute *attributes, void **data,
			       CUdeviceptr address)
{
	CUresult result = query(count, attributes, data, address);

	pass_point(IN_QUERY);
	return result;
}

static CUresult (*set_memops)(const void *value, CUpointer_attribute attribute,
			      CUdeviceptr address);

static CUresult set_memops_later(const void *value, CUpointer_attribute attribute,
				 CUdeviceptr address)
{
	pass_point(IN_MEMOPS);
	return set_memops(value, attribute, address);
}

static void pass_freeing(void)
{
	pass_point(IN_FREEING);
}

static void watch_functions(void)
{
	standin_in_freeing = pass_freeing;
	gpu.pass = pass_driver_point;
	query = standin_driver.cuPointerGetAttributes;
	standin_driver.cuPointerGetAttributes = query_and_pass;
	set_memops = standin_driver.cuPointerSetAttribute;
	standin_driver.cuPointerSetAttribute = set_memops_later;
}

/* ---- the adapter ---- */

static _Atomic uint64_t last_length, refused_above = UINT64_MAX;
static _Atomic bool last_own_blocks;
static _Atomic int error_above;
static _Atomic uint64_t without_access[64]; /* addresses of mappings */

static int pin(const struct pin_request *request, struct pin_result *result)
{
	pass_point(IN_PIN);
	pins++;
	last_length = request->length;
	last_own_blocks = request->own_blocks;
	return request->length > refused_above ? error_above : standin_method.pin(request, result);
}

static CUresult get_access(unsigned long long *flags, const CUmemLocation *location,
			   CUdeviceptr address)
{
	(void)location;
	standin_called();
	*flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	for (size_t i = 0; i < 64; i++) {
		if (without_access[i] == address)
			*flags = 0;
	}
	return CUDA_SUCCESS;
}

static int error_of(const char *word)
{
	static const struct {
		const char *name;
		int error;
	} errors[] = { { "0", 0 },
		       { "ENOMEM", -ENOMEM },
		       { "EINVAL", -EINVAL },
		       { "EIO", -EIO },
		       { "EAGAIN", -EAGAIN },
		       { "EINTR", -EINTR },
		       { "NO_CONTEXT", PINNING_NO_CONTEXT } };

	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
		if (!strcmp(errors[i].name, word))
			return errors[i].error;
	}
	fail_at(word, "no error");
	return 0;
}

/* ---- dma-bufs: files, where a section says "dma-bufs" ---- */

#define DESCRIPTORS 1000

static bool with_dma_bufs;
/* Written by events or by the worker, read by the other. */
static _Atomic unsigned int exported, open_at_deregistration;
static _Atomic bool ignores_source;
static _Atomic int least_number; /* of the worker's exports */
static _Atomic CUdevice current_device;
static _Atomic CUresult device_result;

static bool is_dma_buf(int fd)
{
	char name[64] = "", path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return readlink(path, name, sizeof(name) - 1) > 0 && !strncmp(name, "/memfd:ready", 12);
}

static unsigned int open_dma_bufs(void)
{
	unsigned int open = 0;
	struct rlimit limit;

	require(!getrlimit(RLIMIT_NOFILE, &limit));
	for (int fd = 0; fd < (int)limit.rlim_cur; fd++)
		open += is_dma_buf(fd);
	return open;
}

static int last_dma_buf(void)
{
	struct rlimit limit;
	int fd;

	require(!getrlimit(RLIMIT_NOFILE, &limit));
	fd = (int)limit.rlim_cur;
	while (fd >= 0 && !is_dma_buf(fd))
		fd--;
	return fd;
}

static void export_for_worker(struct pin_request *request)
{
	int fd = memfd_create("ready", MFD_CLOEXEC), low = fd;

	standin_called();
	if (least_number) {
		fd = fcntl(low, F_DUPFD_CLOEXEC, least_number);
		close(low);
	}
	exported++;
	request->source = (struct dma_buf){ dma_buf_opened(fd), request->base, request->length };
	pass_point(IN_EXPORT);
}

static bool accept_all(const struct pin_request *request)
{
	return request->length;
}

static int pin_from_dma_buf(const struct pin_request *request, struct pin_result *result)
{
	int error = pin(request, result);

	result->from_source = !error && request->source.length && !ignores_source;
	return error;
}

static int unpin(struct ibv_mr *mr)
{
	pass_point(IN_UNPIN);
	if (with_dma_bufs)
		open_at_deregistration = open_dma_bufs();
	return standin_method.unpin(mr);
}

static CUresult get_current_device(CUdevice *device)
{
	standin_called();
	*device = current_device;
	return device_result;
}

/* Valgrind refuses a change of the hard limit. False: the limit is lower. */
static bool limit_descriptors(rlim_t most)
{
	struct rlimit limit;

	require(!getrlimit(RLIMIT_NOFILE, &limit));
	if (limit.rlim_max < most)
		return false;
	limit.rlim_cur = most;
	require(!setrlimit(RLIMIT_NOFILE, &limit));
	return true;
}

/* A dma-buf's number is another file's now, which the program has locked. */
static int program_fd = -1;

static void reuse_number_of_dma_buf(void)
{
	struct flock lock = { .l_type = F_WRLCK };

	program_fd = last_dma_buf();
	require(dup2(memfd_create("program's", MFD_CLOEXEC), program_fd) == program_fd);
	require(!fcntl(program_fd, F_SETLK, &lock));
}

/* A close of any descriptor of it ends the lock. */
static bool is_program_file_locked(void)
{
	struct flock lock = { .l_type = F_WRLCK };
	int status;
	pid_t child = fork();

	if (!child)
		_exit(!fcntl(program_fd, F_GETLK, &lock) && lock.l_type == F_WRLCK);
	require(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* "export ADDRESS SIZE [pcie or stays]": by a client. True: peerpin answers, with a descriptor of
 * its own. */
static const char *export_as_client(const char *at)
{
	struct found_export wanted = { 0 }, found;
	char word[WORD];
	const char *after;
	int fd;

	at = read_value(read_value(at, &wanted.address), &wanted.size);
	after = read_word(at, word);
	wanted.pcie = !strcmp(word, "pcie");
	fd = registration_export(&wanted);
	succeeded = fd >= 0;
	if (succeeded)
		require(is_dma_buf(fd) && memory_find_export(fd, &found) &&
			found.address == wanted.address && found.size == wanted.size &&
			found.pcie == wanted.pcie && found.youngest &&
			fcntl(fd, F_GETFD) == FD_CLOEXEC &&
			(fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR);
	if (succeeded && strcmp(word, "stays"))
		require(!close(fd));
	return wanted.pcie || !strcmp(word, "stays") ? after : at;
}

static const char *run_descriptor_event(const char *at, const char *word)
{
	uint64_t value = 0;

	if (!strcmp(word, "export"))
		return export_as_client(at);
	if (!strcmp(word, "descriptors") || !strcmp(word, "exports-from")) {
		at = read_value(at, &value);
		if (*word == 'e')
			least_number = (int)value;
		else if (!limit_descriptors(value))
			return strchr(at, '\0'); /* of the row */
	} else if (!strcmp(word, "reuse-dma-buf")) {
		reuse_number_of_dma_buf();
	} else if (!strcmp(word, "ignore-source")) { /* the adapter registers otherwise */
		ignores_source = true;
	} else if (!strcmp(word, "close-dma-buf")) {
		require(!close(last_dma_buf()));
	} else if (!strcmp(word, "close-input")) {
		require(!close(STDIN_FILENO));
	} else if (!strcmp(word, "fill-descriptors")) {
		require(limit_descriptors((rlim_t)last_dma_buf() + 1));
		while (dup(STDERR_FILENO) >= 0)
			;
	} else {
		return NULL;
	}
	return at;
}

/* ---- events of memory ---- */

static const char *allocate_as(const char *at, bool mapping)
{
	uint64_t address, size;
	char word[WORD];
	enum allocation_kind kind = mapping ? ALLOCATION_MAPPED : ALLOCATION_DEVICE;
	bool capable = true, described = mapping, known = true;
	CUcontext context = NULL;
	int device = 0;

	at = read_value(read_value(at, &address), &size);
	for (at = read_word(at, word); *word; at = read_word(at, word)) {
		if (!strcmp(word, "pool"))
			kind = ALLOCATION_POOL, capable = false, described = true;
		else if (!strcmp(word, "undescribed"))
			kind = ALLOCATION_POOL, capable = described = false;
		else if (!strcmp(word, "external"))
			kind = ALLOCATION_EXTERNAL;
		else if (!strcmp(word, "shared"))
			kind = ALLOCATION_SHARED;
		else if (!strcmp(word, "managed"))
			kind = ALLOCATION_MANAGED, capable = false;
		else if (!strcmp(word, "reported"))
			known = false;
		else if (!strcmp(word, "incapable"))
			capable = false;
		else if (!strcmp(word, "context"))
			context = (CUcontext)0x7000;
		else if (!strcmp(word, "gpu1"))
			device = 1;
		else
			fail_at(at, "%s is no kind of memory", word);
	}
	if (known)
		standin_allocate(address, size, context, capable);
	if (described)
		standin_describe(address, device, false);
	memory_allocated(kind, address, size);
	if (mapping)
		memory_access_settled(address, size);
	return at;
}

static struct pending_frees *unmapping;
static uint64_t unmapped, unmapped_size;

static const char *unmap(const char *at, bool settle)
{
	at = read_value(read_value(at, &unmapped), &unmapped_size);
	unmapping = memory_range_freeing(unmapped, unmapped_size);
	if (settle) {
		standin_free(unmapped);
		memory_frees_settled(unmapping, false);
	}
	return at;
}

static const char *change_access(const char *at)
{
	uint64_t address, size, accessible;
	size_t i = 0;

	at = read_value(read_value(read_value(at, &address), &size), &accessible);
	if (!accessible)
		memory_access_ending(address, size, 0);
	while (without_access[i] != (accessible ? address : 0))
		require(++i < 64);
	without_access[i] = accessible ? 0 : address;
	memory_access_settled(address, size);
	return at;
}

static struct allocation found_at(uint64_t address)
{
	struct allocation found;

	require(memory_find(address, &found));
	return found;
}

/* ---- events of kept memory ---- */

/* Ordinals beyond the GPUs of a host. */
static struct CUctx_st of_gpu_64 = { .device = 64, .alive = true };
static struct CUctx_st of_gpu_1000 = { .device = 1000, .alive = true };

/* "" in the rows: the program's first context. */
static CUcontext context_of(const char *word)
{
	static const struct {
		const char *name;
		CUcontext context;
	} contexts[] = { { "first", &first },
			 { "second", &second },
			 { "gpu1", &of_second_gpu },
			 { "gpu64", &of_gpu_64 },
			 { "gpu1000", &of_gpu_1000 } };

	for (size_t i = 0; i < sizeof(contexts) / sizeof(*contexts); i++) {
		if (!strcmp(contexts[i].name, word))
			return contexts[i].context;
	}
	return NULL;
}

static void captures_begin_without_a_pause(void)
{
	struct rusage before, after;
	bool counted;

	require(!getrusage(RUSAGE_THREAD, &before));
	counted = captures_begin();
	require(!getrusage(RUSAGE_THREAD, &after) && after.ru_nvcsw == before.ru_nvcsw);
	captures_begun(counted, CUDA_SUCCESS);
}

static bool is_host(const char *word, uint64_t *flags)
{
	if (!strcmp(word, "alloc-host"))
		*flags = KEEP_ALLOC_HOST;
	else if (!strncmp(word, "host=", 5))
		*flags = value_of(word + 5);
	else
		return false;
	return true;
}

/* As the driver describes them. "kind=": of another kind, in a context. */
static const char *allocate_described(const char *at)
{
	static const char *const kinds[] = { "managed", "pool",	    "mapped",
					     "shared",	"external", "pitched" };
	static const enum allocation_kind values[] = { ALLOCATION_MANAGED,  ALLOCATION_POOL,
						       ALLOCATION_MAPPED,   ALLOCATION_SHARED,
						       ALLOCATION_EXTERNAL, ALLOCATION_PITCHED };
	uint64_t address, size, flags;
	char word[WORD];
	const char *after;

	at = read_value(read_value(at, &address), &size);
	after = read_word(at, word);
	if (is_host(word, &flags)) {
		allocate_host(address, size, flags);
		return after;
	}
	for (size_t i = 0; i < 6 && !strncmp(word, "kind=", 5); i++) {
		if (!strcmp(word + 5, kinds[i])) {
			standin_allocate(address, size, &first, true);
			standin_describe(address, 0, false);
			memory_allocated(values[i], address, size);
			return after;
		}
	}
	allocate_in(*word ? context_of(word) : &first, address, size);
	return after;
}

static uint64_t taken; /* address; 0: none */
static uint64_t found_size;
static unsigned int calls;
static struct keep_refusal refusal;

static const char *take(const char *at)
{
	uint64_t size, flags;
	char word[WORD];
	const char *after;

	at = read_value(at, &size);
	after = read_word(at, word);
	if (is_host(word, &flags)) {
		taken = reuse_request(ALLOCATION_HOST, flags, size);
		at = after;
	} else {
		taken = reuse(size);
	}
	succeeded = taken != 0;
	return at;
}

static int device_of(const char *word)
{
	return !strcmp(word, "host")	  ? KEEP_HOST
	       : !strcmp(word, "devices") ? KEEP_DEVICES
	       : !strcmp(word, "current") ? KEEP_CURRENT
					  : !strcmp(word, "gpu1");
}

/* A call that the driver refuses each time. */
static const char *refuse_call(const char *at, bool settle)
{
	char word[WORD];
	uint64_t bytes;

	at = read_value(read_word(at, word), &bytes);
	calls = 0;
	refusal = (struct keep_refusal){ 0 };
	do {
		require(++calls < 1000);
		refusal.ended = keep_releases_ended;
	} while (keep_retry(&refusal, device_of(word), bytes));
	if (settle)
		keep_settled(&refusal);
	return at;
}

/* "driver NAME VALUE": results of the driver's calls, and what it lacks. */
static const char *change_driver(const char *at)
{
	char word[WORD];
	uint64_t value;

	at = read_value(read_word(at, word), &value);
	if (!strcmp(word, "version"))
		gpu.version = (unsigned int)value;
	else if (!strcmp(word, "total"))
		gpu.total = value;
	else if (!strcmp(word, "wait_result"))
		gpu.wait_result = (CUresult)value;
	else if (!strcmp(word, "record_result"))
		gpu.record_result = (CUresult)value;
	else if (!strcmp(word, "query_result"))
		gpu.query_result = (CUresult)value;
	else if (!strcmp(word, "free_result"))
		gpu.free_result = (CUresult)value;
	else if (!strcmp(word, "info_result"))
		gpu.info_result = (CUresult)value;
	else if (!strcmp(word, "flags"))
		gpu.flags = (unsigned int)value;
	else if (!strcmp(word, "cuCtxGetApiVersion"))
		standin_driver.cuCtxGetApiVersion = value ? get_version : NULL;
	else if (!strcmp(word, "cuCtxRecordEvent"))
		standin_driver.cuCtxRecordEvent = value ? record_event : NULL;
	else if (!strcmp(word, "cuMemAlloc"))
		standin_driver.cuMemAlloc_v2 = value ? allocate_probe : NULL;
	else if (context_of(word))
		context_of(word)->alive = value;
	else
		fail_at(at, "%s is nothing of the driver", word);
	return at;
}

/* NULL: no event of kept memory. */
static const char *run_keep_event(const char *at, const char *word)
{
	struct allocation found;
	uint64_t value = 0, size;
	char name[WORD];

	if (!strcmp(word, "new"))
		return allocate_described(at);
	if (!strcmp(word, "take"))
		return take(at);
	if (!strcmp(word, "driver"))
		return change_driver(at);
	if (!strcmp(word, "refused") || !strcmp(word, "refusing"))
		return refuse_call(at, word[6] == 'd');
	if (!strcmp(word, "settled")) {
		keep_settled(&refusal);
	} else if (!strcmp(word, "stop-keeping")) {
		keep_end();
	} else if (!strcmp(word, "forget-ended")) {
		memory_end_unreported();
		keep_forget_ended();
	} else if (!strcmp(word, "capture")) {
		captures_begun(captures_begin(), CUDA_SUCCESS);
	} else if (!strcmp(word, "capture-at-once")) {
		captures_begin_without_a_pause();
	} else if (!strcmp(word, "captured")) {
		captures_ended();
	} else if (!strcmp(word, "capturing")) {
		succeeded = captures_may_be_open();
	} else if (!strcmp(word, "enter") || !strcmp(word, "release-context")) {
		at = read_word(at, name);
		if (*word == 'e')
			enter(context_of(name));
		else
			keep_release_context(context_of(name));
	} else if (!strcmp(word, "release")) {
		at = read_word(at, name);
		succeeded = keep_release(device_of(name));
	} else if (!strcmp(word, "release-idle")) {
		succeeded = keep_release_idle();
	} else if (!strcmp(word, "exportable")) {
		at = read_value(read_value(at, &value), &size);
		succeeded = keep_exported(value, size) != KEEP_ABSENT;
	} else if (!strcmp(word, "keep") || !strcmp(word, "keep-host") || !strcmp(word, "end")) {
		at = read_value(at, &value);
		succeeded = *word == 'e' ? keeps_or_ends(value)
			    : word[4]	 ? keeps_host(value)
					 : keeps(value);
	} else if (!strcmp(word, "vanish")) { /* the driver frees it, and peerpin misses that */
		at = read_value(at, &value);
		standin_free(value);
	} else if (!strcmp(word, "allocate-missed")) {
		at = read_value(read_value(at, &value), &size);
		standin_allocate(value, size, &second, true);
	} else if (!strcmp(word, "find")) {
		at = read_value(at, &value);
		succeeded = memory_find(value, &found);
		found_size = succeeded ? found.size : 0;
	} else if (!strcmp(word, "visible") || !strcmp(word, "hidden")) {
		at = read_value(at, &value);
		succeeded = *word == 'v' ? keep_visible(value) == value
					 : table_is_address_hidden(value);
	} else {
		return NULL;
	}
	return at;
}

static bool read_keep(const char *name, uint64_t *value)
{
	const struct {
		const char *name;
		uint64_t value;
	} readings[] = { { "driver_frees", gpu.frees },
			 { "waits", first.waits },
			 { "waits_of_second", second.waits },
			 { "events", gpu.events },
			 { "event_flags", gpu.event_flags },
			 { "pushes", pushes },
			 { "probes", gpu.probes },
			 { "depth", depth },
			 { "calls", calls },
			 { "exported", exported },
			 { "open_at_deregistration", open_at_deregistration },
			 { "records", gpu.records },
			 { "queries", gpu.queries },
			 { "size", found_size },
			 { "program_allocated", standin_program_events.allocated },
			 { "program_freeing", standin_program_events.freeing },
			 { "memory_allocated", standin_events.allocated },
			 { "memory_freeing", standin_events.freeing } };

	for (size_t i = 0; i < sizeof(readings) / sizeof(*readings); i++) {
		if (!strcmp(name, readings[i].name)) {
			*value = readings[i].value;
			return true;
		}
	}
	if (!strcmp(name, "dma_bufs"))
		*value = open_dma_bufs();
	else if (!strcmp(name, "last_dma_buf"))
		*value = (uint64_t)last_dma_buf();
	else if (!strcmp(name, "program_file"))
		*value = is_program_file_locked();
	else if (!strcmp(name, "input"))
		*value = fcntl(STDIN_FILENO, F_GETFD) >= 0;
	else if (!strcmp(name, "free_bytes"))
		*value = keep_free_bytes();
	else if (!strcmp(name, "room"))
		*value = kept_room(0, 0);
	else
		return false;
	return true;
}

/* "freed ADDRESS...": all that the driver has freed for peerpin, in order. */
static const char *check_freed(const char *at)
{
	unsigned int count = 0;
	uint64_t value;

	while (isupper(*skip(at))) {
		at = read_value(at, &value);
		if (gpu.freed[count++] != value)
			fail_at(at, "number %u is another", count);
	}
	if (gpu.frees != count)
		fail_at(at, "the driver has freed %u", (unsigned int)gpu.frees);
	return at;
}

/* ---- events of clients ---- */

static struct domain *domain_of_first(void)
{
	return domain_find(protection_domain_of(pds[0]), RIGHTS);
}

static bool has_entry(uint64_t address)
{
	struct allocation found;
	bool has;

	registration_lock();
	has = memory_find(address, &found) && domain_of_first() &&
	      entry_of(domain_of_first(), &found);
	registration_unlock();
	return has;
}

static bool is_first_closing(void)
{
	struct domain *domain;
	bool is;

	registration_lock();
	domain = domain_after(NULL, 0);
	is = !domain || domain->owner->closing;
	registration_unlock();
	return is;
}

static bool all_covered(unsigned int client)
{
	uint64_t address = clients[client].address, length = clients[client].length;

	return standin_covers(clients[client].keys.lkey, address) &&
	       standin_covers(clients[client].keys.lkey, address + length - 1);
}

static int own_fd = -1;

/* The client's own dma-buf, of the pages of the range: as UCX, which exports, and registers by it.
 */
static void set_own_source(struct registration_request *request)
{
	uint64_t base = request->address / 4096 * 4096;
	uint64_t end = (request->address + request->length + 4095) / 4096 * 4096;

	own_fd = memfd_create("ready", MFD_CLOEXEC);
	request->dma_buf = true;
	request->youngest = memory_youngest();
	request->source = (struct dma_buf){ { .fd = own_fd }, base, end - base };
}

/* `request` with the words behind its range. */
static const char *read_request(const char *at, struct registration_request *request)
{
	char word[WORD];
	struct ibv_pd *in = pds[0];

	at = read_value(read_value(at, &request->address), &request->length);
	request->access = RIGHTS;
	request->iova = request->address;
	for (at = read_word(at, word); *word; at = read_word(at, word)) {
		if (!strncmp(word, "pd", 2))
			in = pds[atoi(word + 2) - 1];
		else if (!strncmp(word, "flags=", 6))
			request->access = (int)value_of(word + 6);
		else if (!strcmp(word, "relaxed"))
			request->access |= IBV_ACCESS_RELAXED_ORDERING;
		else if (!strcmp(word, "on-demand"))
			request->access |= IBV_ACCESS_ON_DEMAND;
		else if (!strcmp(word, "zero-based"))
			request->access |= IBV_ACCESS_ZERO_BASED;
		else if (!strcmp(word, "windows"))
			request->access |= IBV_ACCESS_MW_BIND;
		else if (!strncmp(word, "iova=", 5))
			request->iova = value_of(word + 5);
		else if (!strcmp(word, "dmabuf"))
			request->dma_buf = true, request->youngest = memory_youngest();
		else if (!strcmp(word, "pcie"))
			request->dma_buf = request->pcie = true,
			request->youngest = memory_youngest();
		else if (!strcmp(word, "own"))
			set_own_source(request);
		else if (!strncmp(word, "youngest=", 9))
			request->dma_buf = true,
			request->youngest = found_at(value_of(word + 9)).id;
		else
			fail_at(at, "%s is no form of a request", word);
	}
	request->pd = in;
	return at;
}

/* As a wrapper: without a lock, or else with it. A served request's keys reach all of its range. */
static const char *make_request(const char *at, unsigned int client, bool drop)
{
	struct registration_request request = { .client_mr = &client_mrs[client] };
	struct registration_keys keys;

	at = read_request(at, &request);
	/* Requests by a dma-buf are no hits without the lock. */
	was_fast = !request.dma_buf && registration_hit(&request, &keys);
	succeeded = was_fast || registration_request(&request, &keys);
	if (request.source.length)
		require(!close(own_fd));
	if (!succeeded)
		return at;
	clients[client].address = request.address;
	clients[client].length = request.length;
	clients[client].keys = keys;
	if (!all_covered(client))
		fail_at(at, "the key does not reach all of the range");
	if (drop)
		require(registration_drop(&client_mrs[client]));
	return at;
}

/* Beside other threads that end the memory: the keys may be of a revoked client MR. */
static const char *make_and_drop(const char *at, unsigned int client)
{
	struct registration_request request = { .client_mr = &client_mrs[client] };
	struct registration_keys keys;

	at = read_request(at, &request);
	if (registration_hit(&request, &keys) || registration_request(&request, &keys))
		require(registration_drop(&client_mrs[client]));
	return at;
}

static const char *try_hit(const char *at)
{
	struct registration_request request = { .client_mr = &client_mrs[255] };
	struct registration_keys keys;

	at = read_request(at, &request);
	succeeded = registration_hit(&request, &keys);
	if (succeeded) {
		require(standin_covers(keys.lkey, request.address));
		require(standin_covers(keys.lkey, request.address + request.length - 1));
		require(registration_drop(&client_mrs[255]));
	}
	return at;
}

static const char *read_pd(const char *at, struct ibv_pd **in)
{
	char word[WORD];
	const char *after = read_word(at, word);

	*in = pds[0];
	if (strncmp(word, "pd", 2))
		return at;
	*in = pds[atoi(word + 2) - 1];
	return after;
}

/* ---- results ---- */

static uint64_t count_of_timed_frees(void)
{
	uint64_t frees = 0;

	for (int i = 0; i < HISTOGRAM_BUCKETS; i++)
		frees += load_relaxed(&statistics.histograms[HISTOGRAM_free_ns][i]);
	return frees;
}

static uint64_t reading(const char *at, const char *name)
{
	uint64_t value;

	if (!strcmp(name, "regions"))
		return standin_registered();
	if (!strcmp(name, "made"))
		return standin_registrations();
	if (!strcmp(name, "attempts"))
		return standin_attempts();
	if (!strcmp(name, "own_attempts"))
		return pins;
	if (!strcmp(name, "last"))
		return last_length;
	if (!strcmp(name, "last_own_blocks"))
		return last_own_blocks;
	if (!strcmp(name, "memops"))
		return standin_sync_memops();
	if (!strcmp(name, "timed_frees"))
		return count_of_timed_frees();
	if (!strcmp(name, "holds_used"))
		return holds_regions.used;
	if (!read_keep(name, &value) && statistics_find(name, &value))
		fail_at(at, "%s is no reading", name);
	return value;
}

/* `NAME VALUE`, `NAME >=VALUE` or `NAME <=VALUE` */
static const char *check_reading(const char *at, const char *name)
{
	uint64_t value = reading(at, name), expected;
	const char *sign = at = skip(at);

	at = read_value(at + (*at == '>' || *at == '<' ? 2 : 0), &expected);
	if (*sign == '>' ? value < expected : *sign == '<' ? value > expected : value != expected)
		fail_at(sign, "%s is %llu", name, (unsigned long long)value);
	return at;
}

static bool is_number(const char *at)
{
	at = skip(at);
	return isdigit(*at) || *at == '>' || *at == '<';
}

static const char *check_result(const char *at)
{
	const char *begin = at;
	char word[WORD];
	uint64_t client;

	at = read_word(at, word);
	if (!strcmp(word, "yes") || !strcmp(word, "served")) {
		if (!succeeded)
			fail_at(begin, "no");
	} else if (!strcmp(word, "no") || (!strcmp(word, "forwarded") && !is_number(at))) {
		if (succeeded)
			fail_at(begin, "yes");
		if (*word == 'f' && isalpha(*skip(at))) {
			char name[2 * WORD] = "forwarded_";

			at = read_word(at, name + strlen(name));
			if (reading(begin, name) != forwarded_before + 1)
				fail_at(begin, "not for this reason");
		}
	} else if (!strcmp(word, "hit") || !strcmp(word, "miss") || !strcmp(word, "fast")) {
		if (!succeeded || (pins == pins_before) == (*word == 'm') ||
		    (*word == 'f' && !was_fast))
			fail_at(begin, "%s", succeeded ? "served otherwise" : "forwarded");
	} else if (!strcmp(word, "at")) {
		at = read_value(at, &client);
		if (taken != client)
			fail_at(begin, "it is 0x%llx", (unsigned long long)taken);
	} else if (!strcmp(word, "freed")) {
		at = check_freed(at);
	} else if (!strcmp(word, "alive") || !strcmp(word, "dead")) {
		at = read_value(at, &client);
		if (standin_covers(clients[client].keys.lkey, clients[client].address) !=
		    (*word == 'a'))
			fail_at(begin, "not so");
	} else if (!strcmp(word, "same") || !strcmp(word, "differ")) {
		uint64_t other;

		at = read_value(read_value(at, &client), &other);
		if ((clients[client].keys.lkey == clients[other].keys.lkey) != (*word == 's'))
			fail_at(begin, "not so");
	} else {
		at = check_reading(at, word);
	}
	return at;
}

/* ---- events ---- */

static struct state_thread {
	pthread_t thread;
	_Atomic int id; /* 0: begins; negative: has run its text */
	const char *text;
	uint64_t turn;
} threads[10];

static void *run_thread(void *number)
{
	struct state_thread *thread = &threads[(uintptr_t)number];

	thread->id = gettid();
	turn = thread->turn;
	run(thread->text);
	thread->id = -1;
	return NULL;
}

/* Conditions of other threads' calls. */
static const char *await_result(const char *at)
{
	struct point *point;
	char word[WORD];
	uint64_t value;

	at = read_word(at, word);
	if (!strcmp(word, "worker")) {
		await_rescans();
	} else if (!strcmp(word, "blocked")) {
		at = read_value(at, &value);
		standin_await_blocked((unsigned int)value);
	} else if (!strcmp(word, "deregistering")) {
		standin_await_blocked_unpin();
	} else if (!strcmp(word, "asleep")) {
		at = read_value(at, &value);
		while (threads[value].id >= 0 && !sleeps(threads[value].id))
			sched_yield();
	} else if (!strcmp(word, "capturing")) {
		while (!captures_may_be_open())
			sched_yield();
	} else if (!strcmp(word, "closing")) {
		while (!is_first_closing())
			sched_yield();
	} else if (!strcmp(word, "inside")) {
		at = read_point(at, &point);
		while (!point->inside)
			sched_yield();
	} else if (!strcmp(word, "entry")) {
		at = read_value(at, &value);
		while (!has_entry(value))
			sched_yield();
	} else {
		at = read_value(at, &value);
		while (reading(at, word) < value)
			sched_yield();
	}
	return at;
}

static const char *fork_child(const char *at)
{
	pid_t child = fork();
	int status;

	if (!child) {
		run(at);
		_exit(0);
	}
	require(child > 0 && waitpid(child, &status, 0) == child && !status);
	return end_of(at);
}

static void wait_for_a_millisecond(void)
{
	uint64_t start = system_clock();

	while (system_clock() - start < 1000000)
		sched_yield();
}

static const char *run_client_event(const char *at, const char *word)
{
	struct ibv_pd *in;
	uint64_t client;

	if (!strcmp(word, "request")) {
		at = read_value(at, &client);
		return make_request(at, (unsigned int)client, false);
	}
	if (!strcmp(word, "try")) {
		at = read_value(at, &client);
		return make_and_drop(at, (unsigned int)client);
	}
	if (!strcmp(word, "use"))
		return make_request(at, 254, true);
	if (!strcmp(word, "look"))
		return try_hit(at);
	if (!strcmp(word, "drop")) {
		at = read_value(at, &client);
		succeeded = registration_holds(&client_mrs[client]);
		require(registration_drop(&client_mrs[client]) == succeeded);
		return at;
	}
	if (!strcmp(word, "import")) {
		uint64_t from;

		at = read_value(read_value(at, &client), &from);
		registration_imported(&client_mrs[client], DEVICE,
				      clients[from].keys.kernel_handle);
		return at;
	}
	if (!strcmp(word, "concerns")) {
		struct registration_request request = { .client_mr = &client_mrs[255] };

		at = read_request(at, &request);
		succeeded = registration_concerns(&request);
		return at;
	}
	if (!strcmp(word, "evict")) {
		uint64_t bytes;

		at = read_pd(read_value(at, &bytes), &in);
		succeeded = registration_evict(in->context, bytes);
		return at;
	}
	at = read_pd(at, &in);
	if (!strcmp(word, "open"))
		registration_pd_opened(in, false);
	else if (!strcmp(word, "expect"))
		registration_expect(in, RIGHTS);
	else if (!strcmp(word, "closing"))
		succeeded = registration_pd_closing(in);
	else if (!strcmp(word, "closed"))
		registration_pd_closed(in, true);
	else if (!strcmp(word, "not-closed"))
		registration_pd_closed(in, false);
	else if (!strcmp(word, "close-device"))
		registration_context_closing(in->context);
	else
		fail_at(at, "%s is no event", word);
	return at;
}

static const char *run_adapter_event(const char *at, const char *word)
{
	uint64_t value = 0;
	struct point *point;
	char error[WORD];
	const char *after = run_descriptor_event(at, word);

	if (after)
		return after;
	if (!strcmp(word, "fail")) {
		at = read_word(at, error);
		standin_fail_with(error_of(error));
	} else if (!strcmp(word, "fail-above")) {
		at = read_word(read_value(at, &value), error);
		error_above = error_of(error);
		refused_above = value;
	} else if (!strcmp(word, "room")) {
		at = read_value(at, &value);
		standin_limit(value);
	} else if (!strcmp(word, "block-all")) {
		standin_block(true);
	} else if (!strcmp(word, "block")) {
		at = read_value(at, &value);
		standin_block_at(value);
	} else if (!strcmp(word, "block-deregistrations")) {
		standin_block_unpin(true);
	} else if (!strcmp(word, "device")) {
		at = read_value(at, &value);
		current_device = (CUdevice)value;
	} else if (!strcmp(word, "device-result")) {
		at = read_value(at, &value);
		device_result = (CUresult)value;
	} else if (!strcmp(word, "in")) {
		at = read_point(at, &point);
		if (point == &points[IN_ATTRIBUTE])
			standin_driver.cuDeviceGetAttribute = get_no_attribute;
		point->text = at;
		at = end_of(at);
	} else if (!strcmp(word, "hold") || !strcmp(word, "let")) {
		at = read_point(at, &point);
		point->held = *word == 'h';
	} else if (!strcmp(word, "go-on")) {
		standin_block(false);
		standin_block_at(0);
		standin_block_unpin(false);
		for (point = points; point < points + POINTS; point++)
			point->held = false;
	} else {
		return run_client_event(at, word);
	}
	return at;
}

static const char *run_event(const char *at, const char *word)
{
	static struct allocation ending;
	uint64_t value, size;
	struct allocation found;
	char name[WORD];
	const char *after = run_keep_event(at, word);

	if (after)
		return after;
	if (!strcmp(word, "allocate") || !strcmp(word, "map"))
		return allocate_as(at, *word == 'm');
	if (!strcmp(word, "free")) {
		at = read_value(at, &value);
		end(value);
	} else if (!strcmp(word, "freeing")) {
		at = read_value(at, &value);
		succeeded = memory_freeing(FREE_DEVICE, value, &ending);
	} else if (!strcmp(word, "not-freed")) {
		memory_free_refused(&ending);
	} else if (!strcmp(word, "context-freeing")) {
		at = read_word(at, name);
		memory_context_freeing(context_of(name));
	} else if (!strcmp(word, "range-gone")) {
		at = read_value(read_value(at, &value), &size);
		memory_range_gone(value, size);
	} else if (!strcmp(word, "replace")) { /* a free that peerpin misses */
		at = read_value(at, &value);
		found = found_at(value);
		standin_free(value);
		standin_allocate(value, found.size, NULL, true);
	} else if (!strcmp(word, "unmap") || !strcmp(word, "unmapping")) {
		return unmap(at, !word[5]);
	} else if (!strcmp(word, "unmapped")) {
		standin_free(unmapped);
		memory_frees_settled(unmapping, false);
	} else if (!strcmp(word, "not-unmapped")) {
		memory_frees_settled(unmapping, true);
	} else if (!strcmp(word, "access")) {
		return change_access(at);
	} else if (!strcmp(word, "verify")) {
		memory_verify_always();
	} else if (!strcmp(word, "used") || !strcmp(word, "queued") || !strcmp(word, "reachable")) {
		at = read_value(at, &value);
		found = found_at(value);
		if (*word == 'u') {
			struct found record;

			require(lookup(value, &record));
			succeeded = record.record->traits & TRAIT_USED;
		} else {
			succeeded = *word == 'q' ? background_is_queued(&found)
						 : domain_may_reach(&found);
		}
	} else if (!strcmp(word, "rescan")) {
		rescan_first_domain();
	} else if (!strcmp(word, "passive")) {
		succeeded = process_is_passive();
	} else if (!strcmp(word, "millisecond")) {
		wait_for_a_millisecond();
	} else if (!strcmp(word, "await")) {
		return await_result(at);
	} else if (!strcmp(word, "child")) {
		return fork_child(at);
	} else if (!strcmp(word, "locked")) { /* as by another thread */
		pthread_mutex_lock(&registration_mutex);
		at = run(at);
		pthread_mutex_unlock(&registration_mutex);
	} else if (!strcmp(word, "join")) {
		at = read_value(at, &value);
		require(!pthread_join(threads[value].thread, NULL));
	} else if (!strcmp(word, "thread")) {
		at = read_value(at, &value);
		threads[value].text = at;
		threads[value].turn = turn;
		threads[value].id = 0;
		require(!pthread_create(&threads[value].thread, NULL, run_thread,
					(void *)(uintptr_t)value));
		return end_of(at);
	} else {
		return run_adapter_event(at, word);
	}
	return at;
}

/* Behind the statement: an event with its results, or those in parentheses. */
static const char *end_of(const char *at)
{
	unsigned int depth = 0;

	for (; *at; at++) {
		depth += *at == '(';
		if (*at == ')' && !depth--)
			break;
		if (!depth && (*at == ';' || *at == '\n'))
			break;
	}
	return at;
}

/* The count of the reason that the statement expects. */
static void note_reason(const char *at)
{
	const char *found = strstr(at, "forwarded "), *end = end_of(at);
	char name[2 * WORD] = "forwarded_";

	if (found && found < end && isalpha(found[10])) {
		read_word(found + 10, name + strlen(name));
		forwarded_before = reading(at, name);
	}
}

static const char *run_statement(const char *at)
{
	char word[WORD];
	const char *after = read_word(at, word);

	if (*word == '#')
		return strchr(after, '\n');
	if (isdigit(*word)) {
		uint64_t times = value_of(word), outer = turn;

		for (turn = 0; turn < times; turn++)
			run(after);
		turn = outer;
		return end_of(at);
	}
	if (*word) {
		pins_before = pins;
		note_reason(after);
		after = skip(run_event(after, word));
	} else if (*skip(after) == '(') {
		for (after = skip(after) + 1; *after != ')';) {
			after = skip(run_statement(after));
			if (*after == ';' || *after == '\n')
				after++;
			else if (*after != ')')
				fail_at(after, "not understood");
		}
		after = skip(after + 1);
	}
	while (*after == ':' || *after == ',')
		after = skip(check_result(after + 1));
	return after;
}

static const char *run(const char *at)
{
	at = skip(run_statement(at));
	if (*at && !strchr(";)\n", *at))
		fail_at(at, "not understood");
	return at;
}

/* ---- rows ---- */

static void apply_settings(const char *settings)
{
	char word[WORD], name[2 * WORD];

	for (settings = read_word(settings, word); *word; settings = read_word(settings, word)) {
		char *value = strchr(word, '=');

		if (!value) {
			require(!strcmp(word, "unique-keys") || !strcmp(word, "dma-bufs"));
			pd_by_key |= *word == 'u';
			with_dma_bufs |= *word == 'd';
			continue;
		}
		*value = '\0';
		snprintf(name, sizeof(name), "PEERPIN_%s", word);
		setenv(name, value + 1, 1);
	}
}

START_TEST(run_row)
{
	static struct registration_method method;
	const char *at;

	row = &rows[_i];
	apply_settings(row->settings);
	/* The worker may be first, or not. */
	if (!strstr(row->settings, "PREREGISTER=") && !strstr(row->text, "await"))
		setenv("PEERPIN_PREREGISTER", "off", 1);
	if (strstr(row->settings, "KEEP=")) {
		setenv("PEERPIN_KEEP_HOST", "0", 0);
		set_up_with(getenv("PEERPIN_KEEP"), getenv("PEERPIN_KEEP_HOST"));
		standin_with_registration = true;
		registration_pd_opened(&pd, pd_by_key);
	} else {
		set_up();
	}
	method = standin_method;
	method.pin = pin;
	method.unpin = unpin;
	watch_functions();
	if (with_dma_bufs) {
		limit_descriptors(DESCRIPTORS);
		standin_driver.cuCtxGetDevice = get_current_device;
		method.prepare = export_for_worker;
		method.accepts = accept_all;
		method.pin = pin_from_dma_buf;
	}
	registration_forced_method = &method;
	standin_driver.cuMemGetAccess = get_access;
	threads[0].id = gettid();
	for (at = row->text; *at;) {
		at = run(at);
		if (*at)
			at++;
	}
	for (unsigned int i = 0; i < POINTS; i++) {
		if (points[i].text)
			ck_abort_msg("tests/unit/states:%u: %s: there is no call of \"%s\"",
				     row->line, row->name, points[i].name);
	}
	ck_assert_uint_eq(statistics_get(internal_errors), 0);
}
END_TEST

static char *read_file(void)
{
	static char text[1 << 17];
	FILE *file = fopen(STATES, "r");
	size_t length = file ? fread(text, 1, sizeof(text) - 1, file) : 0;

	if (!length || !feof(file)) {
		perror(STATES);
		exit(1);
	}
	fclose(file);
	return text;
}

/* "= section settings", "- name", and the lines of a row's statements, which begin with a tab. */
static void read_rows(char *text)
{
	static char settings[SECTIONS][2 * WORD], names[SECTIONS][WORD];
	unsigned int section = 0, number = 0;
	char *line, *next, *end = NULL;

	for (line = text; *line; line = next) {
		next = strchrnul(line, '\n');
		number++;
		if (*next)
			next++;
		if (*line != '\t' && end) {
			*end = '\0';
			end = NULL;
		}
		if (*line == '=') {
			section++;
			snprintf(settings[section], sizeof(*settings), "%.*s",
				 (int)(next - line - 1), read_word(line + 1, names[section]));
			*strchrnul(settings[section], '\n') = '\0';
		} else if (*line == '-') {
			rows[row_count++] = (struct row){ names[section], settings[section],
							  line + 2, next, number };
			next[-1] = '\0';
			end = next;
		} else if (*line == '\t') {
			end = next - 1;
		}
	}
}

int main(void)
{
	Suite *suite = suite_create("states");
	TCase *tcase = NULL;

	read_rows(read_file());
	for (unsigned int i = 0; i < row_count; i++) {
		if (!i || rows[i].section != rows[i - 1].section) {
			tcase = tcase_create(rows[i].section);
			tcase_set_timeout(tcase, 120);
			suite_add_tcase(suite, tcase);
		}
		tcase_add_loop_test(tcase, run_row, (int)i, (int)i + 1);
	}
	return suite_run(suite);
}
