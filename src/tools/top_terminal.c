/* SPDX-License-Identifier: BSD-3-Clause */
/* top_terminal.c -- peerpin top on a terminal: redraws it, and restores it at every exit
 *
 * Signals arrive through a descriptor, between two redraws and never in a signal handler.
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

/* Enter the alternate screen and hide the cursor; undo both. */
#define ENTER "\033[?1049h\033[?25l"
#define LEAVE "\033[?25h\033[?1049l"
/* Clear to the end of the line and start a new one; go to the top; clear the rest of the screen. */
#define END_OF_LINE "\033[K\r\n"
#define HOME	    "\033[H"
#define CLEAR_REST  "\033[J"

struct terminal {
	struct termios before;
	bool changed; /* `before` must be restored */
	int signals;
	sigset_t mask_before;
};

static void terminal_enter(struct terminal *terminal)
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

static void terminal_leave(struct terminal *terminal)
{
	fputs(LEAVE, stdout);
	fflush(stdout);
	if (terminal->changed)
		tcsetattr(STDIN_FILENO, TCSANOW, &terminal->before);
}

static void terminal_draw(const struct snapshot *now)
{
	struct winsize size = { 0 };

	ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	/* A terminal of unknown size reports 0. */
	size.ws_col = size.ws_col ? size.ws_col : 80;
	size.ws_row = size.ws_row ? size.ws_row : 24;
	fputs(HOME, stdout);
	/* Leave the last line empty: a line end there scrolls the screen. */
	top_rows(now, size.ws_col, size.ws_row > 4 ? size.ws_row - 1 : 4, END_OF_LINE, stdout);
	fputs(CLEAR_REST, stdout);
	fflush(stdout);
}

/* Ctrl-Z: leave the alternate screen, stop, and enter again after SIGCONT. */
static void terminal_suspend(struct terminal *terminal)
{
	terminal_leave(terminal);
	raise(SIGSTOP);
	terminal_enter(terminal);
}

enum terminal_event { TIME_IS_UP, DRAW_AGAIN, QUIT };

static enum terminal_event terminal_read_signal(struct terminal *terminal, int *number)
{
	struct signalfd_siginfo info;

	if (read(terminal->signals, &info, sizeof(info)) != sizeof(info))
		return DRAW_AGAIN;
	if (info.ssi_signo == SIGTSTP)
		terminal_suspend(terminal);
	if (info.ssi_signo == SIGWINCH || info.ssi_signo == SIGTSTP || info.ssi_signo == SIGCONT)
		return DRAW_AGAIN;
	*number = (int)info.ssi_signo;
	return QUIT;
}

static enum terminal_event terminal_read_key(void)
{
	char key;
	ssize_t length = read(STDIN_FILENO, &key, 1);

	if (length < 0 && errno == EINTR)
		return DRAW_AGAIN;
	/* Quit at end of file: without a terminal no process may stay behind. */
	return length <= 0 || key == 'q' || key == 'Q' || key == 4 ? QUIT : DRAW_AGAIN;
}

static enum terminal_event terminal_wait(struct terminal *terminal, double seconds, int *number)
{
	struct pollfd polls[] = {
		{ .fd = terminal->signals, .events = POLLIN },
		{ .fd = STDIN_FILENO, .events = POLLIN },
	};
	int count = poll(polls, terminal->changed ? 2 : 1, (int)(seconds * 1000));

	if (!count)
		return TIME_IS_UP;
	if (polls[0].revents)
		return terminal_read_signal(terminal, number);
	return polls[1].revents ? terminal_read_key() : DRAW_AGAIN;
}

/* Return the seconds until `interval` has passed since the snapshot. */
static double terminal_time_left(double interval, const struct snapshot *snapshot)
{
	struct timespec now;
	double left;

	clock_gettime(CLOCK_MONOTONIC, &now);
	left = interval - (double)(now.tv_sec - snapshot->at.tv_sec) -
	       (double)(now.tv_nsec - snapshot->at.tv_nsec) / 1e9;
	return left > 0 ? left : 0;
}

static bool terminal_open_signals(struct terminal *terminal)
{
	static const int handled[] = {
		SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH
	};
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(handled) / sizeof(*handled); i++)
		sigaddset(&set, handled[i]);
	sigprocmask(SIG_BLOCK, &set, &terminal->mask_before);
	terminal->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return terminal->signals >= 0;
}

int top_on_terminal(const struct top_choice *choice, double interval)
{
	struct terminal terminal;
	struct snapshot now = { 0 };
	enum terminal_event event = TIME_IS_UP;
	int number = 0;

	if (!terminal_open_signals(&terminal)) {
		perror("peerpin top: signalfd");
		return 1;
	}
	terminal_enter(&terminal);
	while (event != QUIT) {
		if (event == TIME_IS_UP)
			snapshot_update(&now, choice);
		terminal_draw(&now);
		event = terminal_wait(&terminal, terminal_time_left(interval, &now), &number);
	}
	terminal_leave(&terminal);
	snapshot_free(&now);
	close(terminal.signals);
	if (number) {
		/* Raise the signal with its default action. Restoring the mask delivers the
		 * signal. */
		signal(number, SIG_DFL);
		raise(number);
		sigprocmask(SIG_SETMASK, &terminal.mask_before, NULL);
	}
	return 0;
}
