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

#include "tools/doctor/host.h"

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
	int null = open("/dev/null", O_RDONLY);
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
	struct host *host;
	char *pending; /* received bytes, up to an incomplete message */
	size_t pending_length, pending_size;
	char does[200];
	char output[400];
	size_t output_length;
};

static char *child_copy(const char *text, size_t length)
{
	char *copy = malloc(length + 1);

	if (copy) {
		memcpy(copy, text, length);
		copy[length] = 0;
	}
	return copy;
}

static void child_take_message(struct receiver *receiver, const struct message *message,
			       const char *body)
{
	char *name = child_copy(body, message->name_length);
	char *text = child_copy(body + message->name_length, message->text_length);

	if (name && text && *name)
		host_record(receiver->host, name, message->error, text, message->text_length);
	else if (name && text)
		snprintf(receiver->does, sizeof(receiver->does), "%s", text);
	free(name);
	free(text);
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

/* Reads and drops output beyond the buffer, so that the child never blocks. */
static bool child_take_output(struct receiver *receiver, const char *bytes, size_t length)
{
	for (size_t i = 0; i < length && receiver->output_length + 1 < sizeof(receiver->output);
	     i++)
		receiver->output[receiver->output_length++] = bytes[i] ? bytes[i] : ' ';
	return true;
}

static long child_now_ms(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000 + time.tv_nsec / 1000000;
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

/* Waits for the child's end, not for the close of its pipes: grandchildren may hold them open.
 * Returns false at the time limit. The last check follows the deadline, because the machine may
 * have been suspended. */
static bool child_wait(struct receiver *receiver, pid_t pid, int readings, int output,
		       long deadline)
{
	bool readings_open = true, output_open = true, ended;
	long left;

	do {
		struct pollfd polled[2] = { { readings_open ? readings : -1, POLLIN, 0 },
					    { output_open ? output : -1, POLLIN, 0 } };

		left = deadline - child_now_ms();
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

/* Kills the whole process group. Returns false if the child is still there after 2 s. */
static bool child_kill(pid_t pid, int *status)
{
	const struct timespec slice = { 0, 2000000 };
	long now = child_now_ms(), deadline = now + 2000;

	kill(-pid, SIGKILL);
	kill(pid, SIGKILL);
	for (; waitpid(pid, status, WNOHANG) != pid; now = child_now_ms()) {
		if (now > deadline)
			return false;
		nanosleep(&slice, NULL);
	}
	return true;
}

static void child_record_end(struct receiver *receiver, const char *prefix, const char *how)
{
	char name[200];

	snprintf(name, sizeof(name), "%sended", prefix);
	host_say(receiver->host, name, "%s%s%s", how, *receiver->does ? " in " : "",
		 receiver->does);
}

static void child_record_output(struct receiver *receiver, const char *prefix)
{
	char name[200];

	while (receiver->output_length && receiver->output[receiver->output_length - 1] == '\n')
		receiver->output_length--;
	if (!receiver->output_length)
		return;
	snprintf(name, sizeof(name), "%ssaid", prefix);
	host_record(receiver->host, name, 0, receiver->output, receiver->output_length);
}

static void child_watch(struct receiver *receiver, const char *prefix, unsigned int seconds,
			pid_t pid, int readings, int output)
{
	bool ended, gone;
	int status = 0;
	char how[60];

	ended = child_wait(receiver, pid, readings, output, child_now_ms() + seconds * 1000L);
	gone = child_kill(pid, &status);
	if (!ended)
		snprintf(how, sizeof(how), "timeout %u%s", seconds,
			 gone ? "" : ", cannot be killed,");
	else if (WIFSIGNALED(status))
		snprintf(how, sizeof(how), "signal %d", WTERMSIG(status));
	else if (WEXITSTATUS(status))
		snprintf(how, sizeof(how), "exit %d", WEXITSTATUS(status));
	else {
		strcpy(how, "ok");
		*receiver->does = 0;
	}
	child_record_end(receiver, prefix, how);
	child_record_output(receiver, prefix);
}

static void child_fail(struct host *host, const char *prefix, const char *call)
{
	int error = errno;
	char name[200];

	snprintf(name, sizeof(name), "%sended", prefix);
	host_fail(host, name, error, "%s: %s", call, strerror(error));
}

void host_ask_child(struct host *host, const char *prefix, unsigned int seconds,
		    void (*body)(struct host *child))
{
	struct receiver receiver = { .host = host };
	int64_t limit;
	int readings[2], output[2];
	pid_t parent = getpid(), pid;

	if (host_number(host, &limit, "option/seconds") && limit > 0 && limit < 3600)
		seconds = (unsigned int)limit;
	if (!host_has_time(host, seconds)) {
		errno = ETIME;
		child_fail(host, prefix, NO_TIME);
		return;
	}
	if (pipe2(readings, O_CLOEXEC | O_NONBLOCK)) {
		child_fail(host, prefix, "pipe2");
		return;
	}
	if (pipe2(output, O_CLOEXEC | O_NONBLOCK)) {
		child_fail(host, prefix, "pipe2");
		close(readings[0]);
		close(readings[1]);
		return;
	}
	fcntl(readings[1], F_SETFL, 0);
	fcntl(output[1], F_SETFL, 0);
	/* The child would write buffered output a second time. */
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		child_set_up(parent, readings[1], output[1]);
		body(host);
		/* _exit skips exit handlers of libraries, which may hang. */
		fflush(NULL);
		_exit(0);
	}
	if (pid < 0) {
		child_fail(host, prefix, "fork");
	} else {
		setpgid(pid, pid);
		close(readings[1]);
		close(output[1]);
		readings[1] = output[1] = -1;
		child_watch(&receiver, prefix, seconds, pid, readings[0], output[0]);
	}
	for (int i = 0; i < 2; i++) {
		if (readings[i] >= 0)
			close(readings[i]);
		if (output[i] >= 0)
			close(output[i]);
	}
	free(receiver.pending);
}
