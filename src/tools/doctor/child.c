/* SPDX-License-Identifier: BSD-3-Clause */
/* child.c -- runs calls that may crash or hang in a forked child, with a time limit
 *
 * Two pipes lead from child to parent: one for readings, one for output that libraries print.
 * The parent polls both and sets no timer and no signal handler. A child hung inside a broken
 * kernel module cannot be killed: the parent reports and abandons it.
 */
#include "tools/doctor/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/doctor/clock.h"
#include "tools/doctor/host_internal.h"

#define NS_OF_MS 1000000ull

/* Pipe format: this header, the name, the text. An empty name announces the child's next call. */
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

/* Drops data when the write fails: the parent no longer reads then. */
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
	/* Duplicate above 9 first, so that dup2 to 0..3 cannot overwrite either pipe. */
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

struct receiver {
	struct child *child;
	char *pending; /* received bytes, up to an incomplete message */
	size_t pending_length, pending_size;
};

static void child_take_message(struct receiver *receiver, const struct message *message,
			       const char *body)
{
	char *name = need_text("%.*s", (int)message->name_length, body);
	const char *text = body + message->name_length;

	if (*name)
		host_record_bytes(receiver->child->host, name, message->error, text,
				  message->text_length);
	else
		snprintf(receiver->child->call, sizeof(receiver->child->call), "%.*s",
			 (int)message->text_length, text);
	free(name);
}

/* Returns false for malformed data, which a child with corrupted memory may send. */
static bool child_take_messages(struct receiver *receiver)
{
	struct message message;
	size_t at = 0, length;

	while (receiver->pending_length - at >= sizeof(message)) {
		memcpy(&message, receiver->pending + at, sizeof(message));
		if (message.name_length > MESSAGE_LENGTH || message.text_length > MESSAGE_LENGTH)
			return false;
		length = sizeof(message) + message.name_length + message.text_length;
		if (receiver->pending_length - at < length)
			break;
		child_take_message(receiver, &message, receiver->pending + at + sizeof(message));
		at += length;
	}
	memmove(receiver->pending, receiver->pending + at, receiver->pending_length - at);
	receiver->pending_length -= at;
	return true;
}

static bool child_take_readings(struct receiver *receiver, const char *bytes, size_t length)
{
	if (receiver->pending_length + length > receiver->pending_size) {
		size_t size = 2 * (receiver->pending_length + length);
		char *pending = realloc(receiver->pending, size);

		if (!pending)
			return false;
		receiver->pending = pending;
		receiver->pending_size = size;
	}
	memcpy(receiver->pending + receiver->pending_length, bytes, length);
	receiver->pending_length += length;
	return child_take_messages(receiver);
}

/* Drops output beyond the buffer, so that the child never blocks. */
static bool child_take_output(struct receiver *receiver, const char *bytes, size_t length)
{
	struct child *child = receiver->child;

	for (size_t i = 0; i < length && child->output_length < child->output_size; i++)
		child->output[child->output_length++] = bytes[i] ? bytes[i] : ' ';
	return true;
}

/* Returns true if more data may follow. */
static bool child_drain(struct receiver *receiver, int fd,
			bool take(struct receiver *, const char *, size_t))
{
	char bytes[4096];
	ssize_t length;

	while ((length = read(fd, bytes, sizeof(bytes))) > 0) {
		if (!take(receiver, bytes, (size_t)length))
			return false;
	}
	return length < 0 && (errno == EAGAIN || errno == EINTR);
}

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
	uint64_t now = clock_ns(), deadline = now + milliseconds * NS_OF_MS;

	for (; !child_has_ended(pid); now = clock_ns()) {
		if (now > deadline)
			return false;
		nanosleep(&slice, NULL);
	}
	return true;
}

/* Waits for the child's end, not for the close of its pipes: grandchildren may hold them open.
 * Returns false at the time limit. The last check follows the deadline, as in child_ends_within. */
static bool child_wait(struct receiver *receiver, pid_t pid, int readings, int output)
{
	uint64_t deadline = clock_ns() + receiver->child->seconds * 1000 * NS_OF_MS;
	bool readings_open = true, output_open = true, ended;
	int64_t left;

	do {
		struct pollfd polled[2] = { { readings_open ? readings : -1, POLLIN, 0 },
					    { output_open ? output : -1, POLLIN, 0 } };

		left = (int64_t)(deadline - clock_ns()) / (int64_t)NS_OF_MS;
		/* 10 ms slices: a pipe that a grandchild holds open does not report the child's
		 * end. */
		poll(polled, 2, left > 10 ? 10 : left > 0 ? (int)left : 0);
		ended = child_has_ended(pid);
		readings_open =
			readings_open && child_drain(receiver, readings, child_take_readings);
		output_open = output_open && child_drain(receiver, output, child_take_output);
	} while (!ended && left > 0);
	return ended;
}

static void child_watch(struct child *child, pid_t pid, int readings, int output)
{
	struct receiver receiver = { .child = child };
	bool ended = child_wait(&receiver, pid, readings, output), gone;
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
	free(receiver.pending);
}

static int child_fail(struct child *child, const char *call, int error)
{
	snprintf(child->call, sizeof(child->call), "%s", call);
	return error;
}

int child_run(struct child *child, void (*body)(struct host *host))
{
	int ends[2][2] = { { -1, -1 }, { -1, -1 } }, error = 0;
	pid_t parent = getpid(), pid;

	if (!host_has_time(child->host, child->seconds))
		return child_fail(child, NO_TIME, ETIME);
	for (int i = 0; i < 2 && !error; i++) {
		if (pipe2(ends[i], O_CLOEXEC | O_NONBLOCK))
			error = child_fail(child, "pipe2", errno);
		else
			fcntl(ends[i][1], F_SETFL, 0);
	}
	/* The child would write buffered output a second time. */
	fflush(NULL);
	pid = error ? -1 : fork();
	if (pid == 0) {
		child_set_up(parent, ends[0][1], ends[1][1]);
		body(child->host);
		/* _exit skips exit handlers of libraries, which may hang. */
		fflush(NULL);
		_exit(0);
	}
	if (pid < 0 && !error)
		error = child_fail(child, "fork", errno);
	for (int i = 0; i < 2; i++) {
		if (ends[i][1] >= 0)
			close(ends[i][1]);
	}
	if (pid > 0) {
		setpgid(pid, pid);
		child_watch(child, pid, ends[0][0], ends[1][0]);
	}
	for (int i = 0; i < 2; i++) {
		if (ends[i][0] >= 0)
			close(ends[i][0]);
	}
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
		host_record_bytes(host, reading_name("%ssaid", prefix), 0, output,
				  child.output_length);
}
