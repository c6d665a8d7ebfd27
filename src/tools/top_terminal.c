/* SPDX-License-Identifier: BSD-3-Clause */
/* top_terminal.c -- peerpin top on a terminal: drawn anew each moment, and left as it was found, whatever ends it
 *
 * Signals are taken from a descriptor, so that everything happens between two drawings and nothing in a handler.
 */
#include "tools/top.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

/* The alternate screen, no cursor; and back. */
#define ENTER "\033[?1049h\033[?25l"
#define LEAVE "\033[?25h\033[?1049l"
/* To the end of the line, and the next one; from the top, and to the end of the screen. */
#define END_OF_LINE "\033[K\r\n"
#define HOME	    "\033[H"
#define CLEAR_REST  "\033[J"

struct terminal {
	struct termios before;
	bool changed; /* `before` has to come back */
	int signals;
	sigset_t mask_before;
};

static void enter(struct terminal *terminal)
{
	struct termios raw;

	terminal->changed = !tcgetattr(STDIN_FILENO, &terminal->before);
	if (terminal->changed) {
		raw = terminal->before;
		raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	}
	fputs(ENTER, stdout);
	fflush(stdout);
}

static void leave(struct terminal *terminal)
{
	fputs(LEAVE, stdout);
	fflush(stdout);
	if (terminal->changed)
		tcsetattr(STDIN_FILENO, TCSANOW, &terminal->before);
}

static void draw(const struct look *now, const struct look *before)
{
	struct winsize size = { 0 };

	ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	/* One that does not know its size says 0. */
	size.ws_col = size.ws_col ? size.ws_col : 80;
	size.ws_row = size.ws_row ? size.ws_row : 24;
	fputs(HOME, stdout);
	/* The last line stays empty: after it the screen would move. */
	top_rows(now, before, size.ws_col, size.ws_row > 4 ? size.ws_row - 1 : 4, END_OF_LINE, stdout);
	fputs(CLEAR_REST, stdout);
	fflush(stdout);
}

/* Ctrl-Z: the shell gets its own screen, and we ours again afterwards. */
static void stop(struct terminal *terminal)
{
	leave(terminal);
	raise(SIGSTOP);
	enter(terminal);
}

enum happened { TIME_IS_UP, DRAW_AGAIN, QUIT };

static enum happened take_signal(struct terminal *terminal, int *number)
{
	struct signalfd_siginfo info;

	if (read(terminal->signals, &info, sizeof(info)) != sizeof(info))
		return DRAW_AGAIN;
	if (info.ssi_signo == SIGTSTP)
		stop(terminal);
	if (info.ssi_signo == SIGWINCH || info.ssi_signo == SIGTSTP || info.ssi_signo == SIGCONT)
		return DRAW_AGAIN;
	*number = (int)info.ssi_signo;
	return QUIT;
}

static enum happened take_key(void)
{
	char key;
	ssize_t length = read(STDIN_FILENO, &key, 1);

	if (length < 0 && errno == EINTR)
		return DRAW_AGAIN;
	/* A terminal that is gone must not leave a process behind that draws for nobody. */
	return length <= 0 || key == 'q' || key == 'Q' || key == 4 ? QUIT : DRAW_AGAIN;
}

static enum happened wait_for(struct terminal *terminal, double seconds, int *number)
{
	struct pollfd polls[] = {
		{ .fd = terminal->signals, .events = POLLIN },
		{ .fd = STDIN_FILENO, .events = POLLIN },
	};
	int count = poll(polls, terminal->changed ? 2 : 1, (int)(seconds * 1000));

	if (!count)
		return TIME_IS_UP;
	if (polls[0].revents)
		return take_signal(terminal, number);
	return polls[1].revents ? take_key() : DRAW_AGAIN;
}

/* What is left of the interval since that look. */
static double left_of(double interval, const struct look *look)
{
	struct timespec now;
	double left;

	clock_gettime(CLOCK_MONOTONIC, &now);
	left = interval - (double)(now.tv_sec - look->at.tv_sec) -
	       (double)(now.tv_nsec - look->at.tv_nsec) / 1e9;
	return left > 0 ? left : 0;
}

static bool open_signals(struct terminal *terminal)
{
	static const int taken[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(taken) / sizeof(*taken); i++)
		sigaddset(&set, taken[i]);
	sigprocmask(SIG_BLOCK, &set, &terminal->mask_before);
	terminal->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return terminal->signals >= 0;
}

int top_on_terminal(const struct top_choice *choice, double interval)
{
	struct terminal terminal;
	struct look now = { 0 }, before = { 0 };
	enum happened happened = TIME_IS_UP;
	bool looked = false;
	int number = 0;

	if (!open_signals(&terminal)) {
		perror("peerpin top: signalfd");
		return 1;
	}
	enter(&terminal);
	top_look(&now, NULL, choice);
	while (happened != QUIT) {
		draw(&now, looked ? &before : NULL);
		happened = wait_for(&terminal, left_of(interval, &now), &number);
		if (happened != TIME_IS_UP)
			continue;
		top_forget(&before);
		before = now;
		looked = true;
		top_look(&now, &before, choice);
	}
	leave(&terminal);
	top_forget(&now);
	top_forget(&before);
	close(terminal.signals);
	if (number) {
		/* As if it had been there when the signal came. */
		signal(number, SIG_DFL);
		raise(number);
		sigprocmask(SIG_SETMASK, &terminal.mask_before, NULL);
	}
	return 0;
}
