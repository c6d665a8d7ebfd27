/* SPDX-License-Identifier: BSD-3-Clause */
/* child.c -- does in a forked child, with a time limit, what might crash or hang
 *
 * Two pipes lead back: one for readings, one for what libraries print in the child. The parent waits for both with poll;
 * it sets no timer and no signal handler. A child that cannot even be killed, which happens inside a broken kernel module,
 * is said to be there and left behind.
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

/* What goes through the pipe: this, the name, the text. What the child does is a reading with an empty name. */
struct message {
	uint32_t name_length;
	uint32_t text_length;
	int32_t error;
};

/* More is not a reading. */
#define MESSAGE_LENGTH (1 << 20)

/* ---- in the child ---- */

static int told_fd = -1;

bool child_is_child(void)
{
	return told_fd >= 0;
}

/* What cannot be written has nobody to read it. */
static void write_all(const void *data, size_t length)
{
	for (const char *at = data; length;) {
		ssize_t written = write(told_fd, at, length);

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
	write_all(&message, sizeof(message));
	write_all(name, message.name_length);
	write_all(text, length);
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

static void close_others(unsigned int first)
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

static void be_child(pid_t parent, int told, int said)
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
	/* It may have gone before that was asked for. */
	if (getppid() != parent)
		_exit(1);
	/* First out of the way of 0 to 3, then to where they belong. */
	told = fcntl(told, F_DUPFD, 10);
	said = fcntl(said, F_DUPFD, 10);
	dup2(null, 0);
	dup2(said, 1);
	dup2(said, 2);
	told_fd = dup2(told, 3);
	fcntl(told_fd, F_SETFD, FD_CLOEXEC);
	close_others(4);
}

/* ---- in the parent ---- */

struct listener {
	struct host *host;
	char *told; /* what has come, and is not yet a whole message */
	size_t told_length, told_size;
	char does[200];
	char said[400];
	size_t said_length;
};

static char *copy_of(const char *text, size_t length)
{
	char *copy = malloc(length + 1);

	if (copy) {
		memcpy(copy, text, length);
		copy[length] = 0;
	}
	return copy;
}

static void take_message(struct listener *listener, const struct message *message, const char *body)
{
	char *name = copy_of(body, message->name_length);
	char *text = copy_of(body + message->name_length, message->text_length);

	if (name && text && *name)
		host_record(listener->host, name, message->error, text, message->text_length);
	else if (name && text)
		snprintf(listener->does, sizeof(listener->does), "%s", text);
	free(name);
	free(text);
}

/* False: what comes is no message; a child that overwrites its own memory may do that. */
static bool take_messages(struct listener *listener)
{
	struct message message;
	size_t at = 0, length;

	while (listener->told_length - at >= sizeof(message)) {
		memcpy(&message, listener->told + at, sizeof(message));
		if (message.name_length > MESSAGE_LENGTH || message.text_length > MESSAGE_LENGTH)
			return false;
		length = sizeof(message) + message.name_length + message.text_length;
		if (listener->told_length - at < length)
			break;
		take_message(listener, &message, listener->told + at + sizeof(message));
		at += length;
	}
	memmove(listener->told, listener->told + at, listener->told_length - at);
	listener->told_length -= at;
	return true;
}

static bool take_told(struct listener *listener, const char *bytes, size_t length)
{
	if (listener->told_length + length > listener->told_size) {
		size_t size = 2 * (listener->told_length + length);
		char *told = realloc(listener->told, size);

		if (!told)
			return false;
		listener->told = told;
		listener->told_size = size;
	}
	memcpy(listener->told + listener->told_length, bytes, length);
	listener->told_length += length;
	return take_messages(listener);
}

/* What there is no room for is read as well, so that the child does not wait, and forgotten. */
static bool take_said(struct listener *listener, const char *bytes, size_t length)
{
	for (size_t i = 0; i < length && listener->said_length + 1 < sizeof(listener->said); i++)
		listener->said[listener->said_length++] = bytes[i] ? bytes[i] : ' ';
	return true;
}

static long now_ms(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* Whether more may come. */
static bool drain(struct listener *listener, int fd, bool take(struct listener *, const char *, size_t))
{
	char bytes[4096];
	ssize_t length;

	while ((length = read(fd, bytes, sizeof(bytes))) > 0) {
		if (!take(listener, bytes, (size_t)length))
			return false;
	}
	return length < 0 && (errno == EAGAIN || errno == EINTR);
}

/* It stays there for wait: its number, which is its group's as well, is nobody else's. */
static bool has_ended(pid_t pid)
{
	siginfo_t info = { 0 };

	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

/* Until it has ended; not until its pipes are closed, which what it has started may hold. False: its time is over. The last look
 * is after that, since the machine may have stood still meanwhile. */
static bool listen_to(struct listener *listener, pid_t pid, int told, int said, long deadline)
{
	bool tells = true, says = true, ended;
	long left;

	do {
		struct pollfd polled[2] = { { tells ? told : -1, POLLIN, 0 },
					    { says ? said : -1, POLLIN, 0 } };

		left = deadline - now_ms();
		/* The slice is for a child whose pipes do not tell of its end. */
		poll(polled, 2, left > 10 ? 10 : left > 0 ? (int)left : 0);
		ended = has_ended(pid);
		tells = tells && drain(listener, told, take_told);
		says = says && drain(listener, said, take_said);
	} while (!ended && left > 0);
	return ended;
}

/* With what it has started. False: it cannot be killed. */
static bool end(pid_t pid, int *status)
{
	const struct timespec slice = { 0, 2000000 };
	long now = now_ms(), deadline = now + 2000;

	kill(-pid, SIGKILL);
	kill(pid, SIGKILL);
	for (; waitpid(pid, status, WNOHANG) != pid; now = now_ms()) {
		if (now > deadline)
			return false;
		nanosleep(&slice, NULL);
	}
	return true;
}

static void say_how(struct listener *listener, const char *prefix, const char *how)
{
	char name[200];

	snprintf(name, sizeof(name), "%sended", prefix);
	host_say(listener->host, name, "%s%s%s", how, *listener->does ? " in " : "", listener->does);
}

static void say_what(struct listener *listener, const char *prefix)
{
	char name[200];

	while (listener->said_length && listener->said[listener->said_length - 1] == '\n')
		listener->said_length--;
	if (!listener->said_length)
		return;
	snprintf(name, sizeof(name), "%ssaid", prefix);
	host_record(listener->host, name, 0, listener->said, listener->said_length);
}

static void watch(struct listener *listener, const char *prefix, unsigned int seconds, pid_t pid, int told,
		  int said)
{
	bool answered, gone;
	int status = 0;
	char how[60];

	answered = listen_to(listener, pid, told, said, now_ms() + seconds * 1000L);
	gone = end(pid, &status);
	if (!answered)
		snprintf(how, sizeof(how), "timeout %u%s", seconds, gone ? "" : ", cannot be killed,");
	else if (WIFSIGNALED(status))
		snprintf(how, sizeof(how), "signal %d", WTERMSIG(status));
	else if (WEXITSTATUS(status))
		snprintf(how, sizeof(how), "exit %d", WEXITSTATUS(status));
	else {
		strcpy(how, "ok");
		*listener->does = 0;
	}
	say_how(listener, prefix, how);
	say_what(listener, prefix);
}

static void fail(struct host *host, const char *prefix, const char *call)
{
	int error = errno;
	char name[200];

	snprintf(name, sizeof(name), "%sended", prefix);
	host_fail(host, name, error, "%s: %s", call, strerror(error));
}

void host_ask_child(struct host *host, const char *prefix, unsigned int seconds,
		    void (*body)(struct host *child))
{
	struct listener listener = { .host = host };
	int64_t patience;
	int told[2], said[2];
	pid_t parent = getpid(), pid;

	if (host_number(host, &patience, "option/seconds") && patience > 0 && patience < 3600)
		seconds = (unsigned int)patience;
	if (!host_has_time(host, seconds)) {
		errno = ETIME;
		fail(host, prefix, NO_TIME);
		return;
	}
	if (pipe2(told, O_CLOEXEC | O_NONBLOCK)) {
		fail(host, prefix, "pipe2");
		return;
	}
	if (pipe2(said, O_CLOEXEC | O_NONBLOCK)) {
		fail(host, prefix, "pipe2");
		close(told[0]);
		close(told[1]);
		return;
	}
	fcntl(told[1], F_SETFL, 0);
	fcntl(said[1], F_SETFL, 0);
	/* What is in its buffers would be written twice. */
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		be_child(parent, told[1], said[1]);
		body(host);
		/* Without what libraries do at exit, after their last use; that may hang. */
		fflush(NULL);
		_exit(0);
	}
	if (pid < 0) {
		fail(host, prefix, "fork");
	} else {
		setpgid(pid, pid);
		close(told[1]);
		close(said[1]);
		told[1] = said[1] = -1;
		watch(&listener, prefix, seconds, pid, told[0], said[0]);
	}
	for (int i = 0; i < 2; i++) {
		if (told[i] >= 0)
			close(told[i]);
		if (said[i] >= 0)
			close(said[i]);
	}
	free(listener.told);
}
