/* SPDX-License-Identifier: BSD-3-Clause */
/* ends.c -- the runner (each test is a process, several run at once) and the tests' helpers */
#include "ends.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>


#define AT_ONCE 6

struct ibv_context *device;
struct ibv_pd *pd;
CUcontext context;

/* ---- for the tests ---- */

uint64_t sim(const char *name)
{
	uint64_t value;

	require(!sim_adapter_statistic(name, &value));
	return value;
}

uint64_t own(const char *name)
{
	int (*statistic)(const char *, uint64_t *) =
		(__typeof__(statistic))dlsym(RTLD_DEFAULT, "peerpin_statistic");
	uint64_t value;

	require(statistic && !statistic(name, &value));
	return value;
}

void set(const char *name, uint64_t value)
{
	require(!sim_adapter_set(name, value));
}

struct ibv_context *open_device(int number)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_context *opened;

	require(list && number < count && !list[count]);
	opened = ibv_open_device(list[number]);
	ibv_free_device_list(list);
	require(opened);
	return opened;
}

void set_up(void)
{
	CUdevice gpu;

	require_cuda(cuInit(0));
	require_cuda(cuDeviceGet(&gpu, 0));
	require_cuda(cuCtxCreate_v2(&context, 0, gpu));
	device = open_device(0);
	pd = ibv_alloc_pd(device);
	require(pd);
}

CUdeviceptr allocate(size_t size)
{
	CUdeviceptr address;

	require_cuda(cuMemAlloc_v2(&address, size));
	return address;
}

struct ibv_mr *registered_in(struct ibv_pd *where, CUdeviceptr address, size_t length, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(where, (void *)address, length, access);

	require(mr);
	return mr;
}

struct ibv_mr *registered(CUdeviceptr address)
{
	return registered_in(pd, address, UNIT, ACCESS);
}

bool can_read(uint32_t key, CUdeviceptr address)
{
	char byte;

	return !sim_adapter_read(device, key, address, &byte, 1);
}

bool cannot_read(uint32_t key, CUdeviceptr address)
{
	bool read;

	set("strict", 0);
	read = can_read(key, address);
	set("strict", 1);
	return !read;
}

uint64_t begun(void)
{
	return sim("reg_mr") + sim("reg_dmabuf_mr");
}

void activate(void)
{
	CUdeviceptr first = allocate(UNIT);
	struct ibv_mr *mr = registered(first);

	require(can_read(mr->rkey, first) && sim("live") == 1);
	require(!ibv_dereg_mr(mr));
}

CUdeviceptr occupy_worker(const char *setting, uint64_t value)
{
	CUdeviceptr memory;
	uint64_t before;

	activate();
	before = begun();
	set(setting, value);
	memory = allocate(UNIT);
	until(begun() > before);
	return memory;
}

bool task_line(pid_t thread, const char *key, char *value, size_t size)
{
	size_t length = strlen(key);
	char name[64], line[512];
	bool found = false;
	FILE *file;

	snprintf(name, sizeof(name), "/proc/self/task/%d/status", (int)thread);
	file = fopen(name, "r");
	while (file && !found && fgets(line, sizeof(line), file))
		found = !strncmp(line, key, length) && line[length] == ':';
	if (file)
		fclose(file);
	if (!found)
		return false;
	line[strcspn(line, "\n")] = '\0';
	snprintf(value, size, "%s", line + length + 1 + strspn(line + length + 1, "\t "));
	return true;
}

bool is_waiting(pid_t thread)
{
	char state[64];

	return task_line(thread, "State", state, sizeof(state)) && *state == 'S';
}

static void *wait_for_region(void *argument)
{
	struct waiter *waiter = argument;

	waiter->id = gettid();
	waiter->mr = ibv_reg_mr(pd, (void *)waiter->address, UNIT, ACCESS);
	waiter->done = true;
	return NULL;
}

void begin_waiter(struct waiter *waiter, CUdeviceptr address)
{
	uint64_t requests = own("requests");

	*waiter = (struct waiter){ .address = address };
	require(!pthread_create(&waiter->thread, NULL, wait_for_region, waiter));
	until(own("requests") > requests && waiter->id && is_waiting(waiter->id));
	require(!waiter->done);
}

static void *let_go(void *waiting)
{
	until(is_waiting(*(pid_t *)waiting));
	set("hold", 0);
	return NULL;
}

void let_go_when_waiting(void)
{
	static pid_t waiting;
	pthread_t thread;

	waiting = gettid();
	require(!pthread_create(&thread, NULL, let_go, &waiting));
	pthread_detach(thread);
}

static const char *own_number;

void run_again(const char *program)
{
	execl("/proc/self/exe", program, "run", own_number, (char *)NULL);
	require(!"it ran");
}

static char folder[] = "/tmp/peerpin-ends-XXXXXX";

const char *with_files(void)
{
	const char *given = getenv("ENDS_FOLDER");
	char results[64];

	if (given)
		return strcpy(folder, given);
	require(mkdtemp(folder));
	snprintf(results, sizeof(results), "%s/results", folder);
	require(!setenv("PEERPIN_STATS_FILE", results, 1));
	require(!setenv("XDG_RUNTIME_DIR", folder, 1) && !setenv("ENDS_FOLDER", folder, 1));
	run_again("ends");
	return NULL;
}

bool file_contains(const char *name, const char *text)
{
	static char content[1 << 16];
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "r");
	if (!file)
		return false;
	content[fread(content, 1, sizeof(content) - 1, file)] = '\0';
	fclose(file);
	return strstr(content, text);
}

void remove_files(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -r %s", folder);
	require(!system(command));
}

int await_child(pid_t child)
{
	int status;

	require(child > 0);
	until(waitpid(child, &status, WNOHANG) == child);
	return status;
}

/* ---- the runner ---- */

static const struct test *test_of(unsigned int number)
{
	for (unsigned int i = 0; test_files[i]; i++) {
		for (const struct test *test = test_files[i]; test->name; test++) {
			if (!number--)
				return test;
		}
	}
	return NULL;
}

static const struct test *test_named(const char *name)
{
	const struct test *test;
	unsigned int number = 0;

	while ((test = test_of(number++)) && strcmp(test->name, name) != 0)
		;
	return test;
}

struct running {
	const struct test *test;
	unsigned int number;
	pid_t process;
	FILE *output; /* its standard error */
};

static void put_settings(const char *settings)
{
	char *copy = settings ? strdup(settings) : NULL;

	for (char *one = copy ? strtok(copy, " ") : NULL; one; one = strtok(NULL, " "))
		require(!putenv(one));
}

static void bind_to_first(void)
{
	cpu_set_t all, first;
	int cpu = 0;

	require(!sched_getaffinity(0, sizeof(all), &all));
	while (!CPU_ISSET(cpu, &all))
		cpu++;
	CPU_ZERO(&first);
	CPU_SET(cpu, &first);
	require(!sched_setaffinity(0, sizeof(first), &first));
}

static void become(const struct running *running)
{
	char number[16];

	dup2(fileno(running->output), STDERR_FILENO);
	put_settings(running->test->settings);
	if (running->test->cpu)
		bind_to_first();
	snprintf(number, sizeof(number), "%u", running->number);
	execl("/proc/self/exe", "ends", "run", number, (char *)NULL);
	_exit(127);
}

static struct running begin(unsigned int number)
{
	struct running running = { .test = test_of(number), .number = number };

	running.output = tmpfile();
	require(running.output);
	fflush(stdout);
	running.process = fork();
	require(running.process >= 0);
	if (!running.process)
		become(&running);
	return running;
}

static bool finish(const struct running *running, int status)
{
	int ends = running->test->ends;
	char line[256];
	bool good = ends < 0 ? WIFSIGNALED(status) && WTERMSIG(status) == -ends
			     : WIFEXITED(status) && WEXITSTATUS(status) == ends;

	printf("%s %u %s %u\n", good ? "ok" : "not ok", running->number + 1, running->test->name,
	       running->test->variant);
	if (!good)
		printf("# status 0x%x\n", (unsigned int)status);
	rewind(running->output);
	while (!good && fgets(line, sizeof(line), running->output))
		printf("# %s", line);
	fclose(running->output);
	return good;
}

static int run_all(const char *only)
{
	struct running running[AT_ONCE] = { { .process = 0 } };
	unsigned int next = 0, busy = 0, failed = 0, chosen = 0, slot;
	const struct test *test;
	int status;
	pid_t ended;

	do {
		for (slot = 0; slot < AT_ONCE && (test = test_of(next));) {
			if (only && !strstr(test->name, only)) {
				next++;
			} else if (running[slot].process) {
				slot++;
			} else {
				running[slot] = begin(next++);
				busy++;
				chosen++;
			}
		}
		ended = busy ? wait(&status) : 0;
		for (slot = 0; slot < AT_ONCE && ended > 0; slot++) {
			if (running[slot].process != ended)
				continue;
			failed += !finish(&running[slot], status);
			running[slot].process = 0;
			busy--;
		}
	} while (busy || test_of(next));
	printf("1..%u\n", chosen);
	return failed || !chosen ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int count, char **arguments)
{
	const struct test *test;

	if (count < 3 || strcmp(arguments[1], "run") != 0)
		return run_all(count > 1 ? arguments[1] : NULL);
	test = strchr(arguments[2], '_') ? test_named(arguments[2])
					 : test_of((unsigned int)strtoul(arguments[2], NULL, 10));
	require(test);
	own_number = arguments[2];
	alarm(TIME_OUT);
	test->run(test->variant);
	_exit(0);
}
