/* SPDX-License-Identifier: BSD-3-Clause */
/* start.h -- the process as it was when the library was loaded
 *
 * A program may overwrite the strings of its arguments and of its environment (setproctitle),
 * change its folder, and open files of its own under the numbers of closed standard streams. The
 * constructor copies name, settings and folder, and notes the streams' files. A call before the
 * constructor, from the constructor of another library, does so then. Any thread; nothing is
 * allocated.
 */
#ifndef PEERPIN_BASE_START_H
#define PEERPIN_BASE_START_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Functions and data of the constructor and the destructor of a process that never uses CUDA. The
 * functions are beside each other, at the library's begin, and the data is in a page that the
 * loader writes anyway: each page that a process touches costs it a fault. */
#define AT_START      __attribute__((section(".text.startup")))
#define AT_START_DATA __attribute__((section(".data.start")))

/* Copy. `argument`: the program's first one, or NULL: look the name up in libc. Later calls do
 * nothing. */
void start_record(const char *argument);

/* Return the base name of the executable, as in the first argument. */
const char *start_program(void);

/* Return the copied entries, up to NULL. In the dlsym path, before the constructor, that is the
 * environment itself. */
char *const *start_environment(void);

/* Return the value of a variable; NULL: unset. PEERPIN_ variables and XDG_RUNTIME_DIR have that of
 * the copy. Any other has the current one, which the caller copies at once: programs set variables
 * of launchers before they start CUDA (torch.distributed). */
const char *start_variable(const char *name);

/* Put the copied folder, with a slash at its end, into `to` where `name` is relative to it; ""
 * where `name` is absolute. Return the length or -errno. */
ssize_t start_folder(const char *name, char *to, size_t size);

/* Return true if descriptor 1 or 2 is the program's standard output or error: the file of the
 * start, a terminal or a pipe, or the file or socket that both numbers have, as after a dup2() onto
 * both. Any other file may have its number by chance: open() takes the lowest free one, that of a
 * closed stream. dup2() leaves no descriptor that closes at exec, so such a one has it by chance,
 * too. */
bool start_has_stream(int fd);

#endif
