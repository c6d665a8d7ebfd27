/* SPDX-License-Identifier: BSD-3-Clause */
/* child.c -- runs calls that may crash or hang in a forked child, with a time limit
 *
 * The child writes readings, and the output of libraries, to two memory files, which the parent
 * reads after its end. The parent sets no timer and no signal handler. A child hung inside a broken
 * kernel module cannot be killed: the parent reports and abandons it.
 */
#include "tools/doctor/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/kernel.h"
#include "tools/doctor/host.h"
#include "tools/units.h"

#define NS_OF_MS 1000000ull

/* File format: this header, the name, the text. An empty name announces the child's next call. */
struct message {
	uint32_t name_length;
	uint32_t text_length;
	int32_t error;
};

/* Limit for name plus text. A longer reading is dropped. */
#define MESSAGE_LENGTH (1 << 20)

/* ---- child ---- */

static int readings_fd = -1;

bool child_is_child(void)
{
	return readings_fd >= 0;
}

/* Drops data when the write fails: no memory is left then. */
static void child_write(const void *data, size_t length)
{
	for (const char *at = data; length;) {
		ssize_t written = write(readings_fd, at, length);

		if (written < 0 && errno != EINTR)
			return;
		if (written > 0) {
			at += written;
			length -= (size_t)written;
		}
	}
}

void child_forward(const char *name, int error, const char *text, size_t length)
{
	struct message message = { (uint32_t)strlen(name), (uint32_t)length, error };
	int saved_errno = errno;

	if (message.name_length + length > MESSAGE_LENGTH)
		return;
	child_write(&message, sizeof(message));
	child_write(name, message.name_length);
	child_write(text, length);
	errno = saved_errno;
}

void child_does(const char *format, ...)
{
	char text[200];
	va_list arguments;

	if (!child_is_child())
		return;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	child_forward("", 0, text, strlen(text));
}

static void child_close_others(unsigned int first)
{
	struct rlimit limit;
	unsigned int end = 65536;

	if (close_range(first, ~0U, 0) == 0)
		return;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < end)
		end = (unsigned int)limit.rlim_cur;
	for (unsigned int fd = first; fd < end; fd++)
		close((int)fd);
}

static void child_set_up(pid_t parent, int readings, int output)
{
	const struct rlimit no_core = { 0, 0 };
	int null = open("/dev/null", O_RDWR);
	sigset_t none;

	setpgid(0, 0);
	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setrlimit(RLIMIT_CORE, &no_core);
	/* The parent may have ended before PR_SET_PDEATHSIG took effect. */
	if (getppid() != parent)
		_exit(1);
	/* Duplicate above 9 first, so that dup2 to 0..3 cannot overwrite either file. */
	readings = fcntl(readings, F_DUPFD, 10);
	output = fcntl(output, F_DUPFD, 10);
	dup2(null, 0);
	dup2(output, 1);
	dup2(output, 2);
	readings_fd = dup2(readings, 3);
	fcntl(readings_fd, F_SETFD, FD_CLOEXEC);
	child_close_others(4);
}

/* ---- parent ---- */

/* WNOWAIT leaves the zombie to waitpid: the pid, also the process group's id, is not reused
 * meanwhile. */
static bool child_has_ended(pid_t pid)
{
	siginfo_t info = { 0 };

	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       info.si_pid == pid;
}

/* The last check follows the deadline, because the machine may have been suspended. */
bool child_ends_within(pid_t pid, unsigned int milliseconds)
{
	const struct timespec slice = { 0, 2000000 };
	uint64_t now = kernel_time(CLOCK_MONOTONIC), deadline = now + milliseconds * NS_OF_MS;

	for (; !child_has_ended(pid); now = kernel_time(CLOCK_MONOTONIC)) {
		if (now > deadline)
			return false;
		nanosleep(&slice, NULL);
	}
	return true;
}

/* Records the messages of a child, which may have corrupted its memory, up to an incomplete one. */
static void child_take_readings(struct child *child, int fd)
{
	char *body = zeroed(1, MESSAGE_LENGTH + 1);
	struct message message;
	ssize_t length;
	off_t at = 0;

	while (pread(fd, &message, sizeof(message), at) == sizeof(message) &&
	       message.name_length < MESSAGE_LENGTH &&
	       message.text_length <= MESSAGE_LENGTH - message.name_length) {
		char *text = body + message.name_length;

		length = message.name_length + message.text_length;
		if (pread(fd, body, (size_t)length, at + (off_t)sizeof(message)) != length)
			break;
		text[message.text_length] = '\0';
		at += (off_t)sizeof(message) + length;
		if (message.name_length) {
			const char *name = text_of("%.*s", (int)message.name_length, body);

			host_record_bytes(child->host, name, message.error, text,
					  message.text_length);
		} else {
			snprintf(child->call, sizeof(child->call), "%s", text);
		}
	}
	free(body);
}

static void child_watch(struct child *child, pid_t pid)
{
	bool ended = child_ends_within(pid, child->seconds * 1000), gone;
	int status = 0;

	kill(-pid, SIGKILL);
	kill(pid, SIGKILL);
	gone = child_ends_within(pid, 2000) && waitpid(pid, &status, WNOHANG) == pid;
	if (!ended)
		snprintf(child->end, sizeof(child->end), "timeout %u%s", child->seconds,
			 gone ? "" : ", cannot be killed,");
	else if (WIFSIGNALED(status))
		snprintf(child->end, sizeof(child->end), "signal %d", WTERMSIG(status));
	else if (WEXITSTATUS(status))
		snprintf(child->end, sizeof(child->end), "exit %d", WEXITSTATUS(status));
	else
		strcpy(child->end, "ok");
}

int child_run(struct child *child, void (*body)(struct host *host))
{
	int readings = memfd_create("readings", MFD_CLOEXEC);
	int output = memfd_create("output", MFD_CLOEXEC), error = 0;
	pid_t parent = getpid(), pid = -1;
	const char *call = "memfd_create";
	ssize_t length;

	if (!host_has_time(child->host, child->seconds)) {
		call = NO_TIME;
		error = ETIME;
	} else if (readings < 0 || output < 0) {
		error = errno;
	} else {
		/* The child would write buffered output a second time. */
		fflush(NULL);
		call = "fork";
		pid = fork();
		error = pid < 0 ? errno : 0;
	}
	if (pid == 0) {
		child_set_up(parent, readings, output);
		body(child->host);
		/* _exit skips exit handlers of libraries, which may hang. */
		fflush(NULL);
		_exit(0);
	}
	if (error)
		snprintf(child->call, sizeof(child->call), "%s", call);
	if (pid > 0) {
		setpgid(pid, pid);
		child_watch(child, pid);
		child_take_readings(child, readings);
		length = pread(output, child->output, child->output_size, 0);
		child->output_length = length > 0 ? (size_t)length : 0;
		for (size_t i = 0; i < child->output_length; i++)
			child->output[i] = child->output[i] ? child->output[i] : ' ';
	}
	close(readings);
	close(output);
	return error;
}

void host_run_child(struct host *host, const char *prefix, unsigned int seconds,
		    void (*body)(struct host *child))
{
	char output[400];
	struct child child = {
		.host = host, .seconds = seconds, .output = output, .output_size = sizeof(output)
	};
	int64_t limit;
	int error;

	if (host_number(host, &limit, "option/limit") && limit > HOST_LIMIT)
		child.seconds = (unsigned int)(seconds * limit / HOST_LIMIT);
	if (host_number(host, &limit, "option/seconds") && limit > 0 && limit < 3600)
		child.seconds = (unsigned int)limit;
	error = child_run(&child, body);
	if (error) {
		host_record_error(host, reading_name("%sended", prefix), error, "%s: %s",
				  child.call, strerror(error));
		return;
	}
	if (!strcmp(child.end, "ok"))
		*child.call = '\0';
	host_record(host, reading_name("%sended", prefix), "%s%s%s", child.end,
		    *child.call ? " in " : "", child.call);
	while (child.output_length && output[child.output_length - 1] == '\n')
		child.output_length--;
	if (child.output_length)
		host_record_bytes(host, reading_name("%soutput", prefix), 0, output,
				  child.output_length);
}
