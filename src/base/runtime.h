/* SPDX-License-Identifier: BSD-3-Clause */
/* runtime.h -- the folder for what the processes of a user share on this host while they run
 *
 * $XDG_RUNTIME_DIR/peerpin; where that cannot be, /dev/shm/peerpin-USER, with the user's number. It is made when it is asked
 * for and there is none. It is only used if it is a real folder, is ours, and lets nobody else in: others could have put one,
 * or a link, at its place. A setuid program has none. Any thread, no lock, nothing allocated.
 */
#ifndef PEERPIN_BASE_RUNTIME_H
#define PEERPIN_BASE_RUNTIME_H

#include <stddef.h>

/* The folder, opened (O_CLOEXEC); the caller closes it. Below 0: -errno. */
int runtime_folder(void);

/* Its name. 0 or -errno. */
int runtime_path(char *to, size_t size);

#endif
