/* SPDX-License-Identifier: BSD-3-Clause */
/* adapter_files.c -- a preload that shows clients the files of simulated adapters
 *
 * UCX uses an adapter only if its device file is there and accessible, and registers GPU memory by
 * address only if the kernel's file of peer memory is there. Questions about these files are
 * answered as a host with adapters would; no open() is. All other paths, and all descriptors, are
 * forwarded.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define DEVICES_MAX   8 /* ADAPTERS_MAX */
#define DEVICE_PREFIX "/dev/infiniband/uverbs"
#define PEER_MEMORY   "/sys/kernel/mm/memory_peers/nv_mem/version"

enum files_kind { FILES_OTHER, FILES_DEVICE, FILES_PEER_MEMORY };

/* A setting of the adapter; 0 or more. */
static unsigned long files_setting(const char *name, unsigned long otherwise)
{
	const char *text = getenv(name);
	unsigned long value;
	char *end;

	if (!text)
		return otherwise;
	value = strtoul(text, &end, 10);
	return end == text || *end ? otherwise : value;
}

static enum files_kind files_find(const char *path, unsigned int *number)
{
	size_t prefix = strlen(DEVICE_PREFIX);

	if (!path)
		return FILES_OTHER;
	if (!strcmp(path, PEER_MEMORY))
		return files_setting("PEERPIN_SIM_ADAPTER_PEER", 1) ? FILES_PEER_MEMORY
								    : FILES_OTHER;
	if (strncmp(path, DEVICE_PREFIX, prefix) || path[prefix] < '0' ||
	    path[prefix] >= '0' + DEVICES_MAX || path[prefix + 1])
		return FILES_OTHER;
	*number = (unsigned int)(path[prefix] - '0');
	return *number < files_setting("PEERPIN_SIM_ADAPTER_DEVICES", 1) ? FILES_DEVICE
									 : FILES_OTHER;
}

/* ---- access ---- */

/* True: *result is the answer, with errno. */
static bool files_access(const char *path, int mode, int *result)
{
	unsigned int number;
	enum files_kind kind = files_find(path, &number);

	if (kind == FILES_OTHER)
		return false;
	*result = mode & X_OK || (mode & W_OK && kind == FILES_PEER_MEMORY) ? -1 : 0;
	if (*result)
		errno = EACCES;
	return true;
}

/* ---- status ---- */

#define FILES_MAJOR 231 /* of uverbs devices */
#define FILES_MINOR 192

static mode_t files_mode(enum files_kind kind)
{
	return kind == FILES_DEVICE ? S_IFCHR | 0666 : S_IFREG | 0444;
}

/* struct stat and struct stat64. */
#define FILES_STATUS(path, status)                                                                 \
	({                                                                                         \
		unsigned int number_ = 0;                                                          \
		enum files_kind kind_ = files_find(path, &number_);                                \
                                                                                                   \
		if (kind_ != FILES_OTHER) {                                                        \
			memset(status, 0, sizeof(*(status)));                                      \
			(status)->st_mode = files_mode(kind_);                                     \
			(status)->st_nlink = 1;                                                    \
			(status)->st_blksize = 4096;                                               \
			if (kind_ == FILES_DEVICE)                                                 \
				(status)->st_rdev = makedev(FILES_MAJOR, FILES_MINOR + number_);   \
		}                                                                                  \
		kind_ != FILES_OTHER;                                                              \
	})

static void files_extended_status(enum files_kind kind, unsigned int number, struct statx *status)
{
	memset(status, 0, sizeof(*status));
	status->stx_mask = STATX_TYPE | STATX_MODE | STATX_NLINK;
	status->stx_mode = (uint16_t)files_mode(kind);
	status->stx_nlink = 1;
	status->stx_blksize = 4096;
	if (kind == FILES_DEVICE) {
		status->stx_rdev_major = FILES_MAJOR;
		status->stx_rdev_minor = FILES_MINOR + number;
	}
}

/* ---- the functions of libc ---- */

/* Another preload may be the next definition. An older libc lacks some. */
#define FORWARD(name, ...)                                                                         \
	({                                                                                         \
		static __typeof__(name) *next_; /* atomic */                                       \
		__typeof__(name) *to_ = __atomic_load_n(&next_, __ATOMIC_RELAXED);                 \
                                                                                                   \
		if (!to_) {                                                                        \
			to_ = (__typeof__(name) *)dlsym(RTLD_NEXT, #name);                         \
			__atomic_store_n(&next_, to_, __ATOMIC_RELAXED);                           \
		}                                                                                  \
		if (!to_)                                                                          \
			errno = ENOSYS;                                                            \
		to_ ? to_(__VA_ARGS__) : -1;                                                       \
	})

int access(const char *path, int mode)
{
	int result;

	return files_access(path, mode, &result) ? result : FORWARD(access, path, mode);
}

int euidaccess(const char *path, int mode)
{
	int result;

	return files_access(path, mode, &result) ? result : FORWARD(euidaccess, path, mode);
}

int eaccess(const char *path, int mode)
{
	int result;

	return files_access(path, mode, &result) ? result : FORWARD(eaccess, path, mode);
}

/* The paths of interest are absolute: the folder does not matter. */
int faccessat(int folder, const char *path, int mode, int flags)
{
	int result;

	return files_access(path, mode, &result) ? result
						 : FORWARD(faccessat, folder, path, mode, flags);
}

int stat(const char *path, struct stat *status)
{
	return FILES_STATUS(path, status) ? 0 : FORWARD(stat, path, status);
}

int stat64(const char *path, struct stat64 *status)
{
	return FILES_STATUS(path, status) ? 0 : FORWARD(stat64, path, status);
}

int lstat(const char *path, struct stat *status)
{
	return FILES_STATUS(path, status) ? 0 : FORWARD(lstat, path, status);
}

int lstat64(const char *path, struct stat64 *status)
{
	return FILES_STATUS(path, status) ? 0 : FORWARD(lstat64, path, status);
}

int fstatat(int folder, const char *path, struct stat *status, int flags)
{
	return FILES_STATUS(path, status) ? 0 : FORWARD(fstatat, folder, path, status, flags);
}

int fstatat64(int folder, const char *path, struct stat64 *status, int flags)
{
	return FILES_STATUS(path, status) ? 0 : FORWARD(fstatat64, folder, path, status, flags);
}

int statx(int folder, const char *path, int flags, unsigned int mask, struct statx *status)
{
	unsigned int number = 0;
	enum files_kind kind = files_find(path, &number);

	if (kind == FILES_OTHER)
		return FORWARD(statx, folder, path, flags, mask, status);
	files_extended_status(kind, number, status);
	return 0;
}

/* Programs that were linked with a glibc before 2.33. */
int __xstat(int version, const char *path, struct stat *status);
int __xstat64(int version, const char *path, struct stat64 *status);
int __lxstat(int version, const char *path, struct stat *status);
int __lxstat64(int version, const char *path, struct stat64 *status);

int __xstat(int version, const char *path, struct stat *status)
{
	return FILES_STATUS(path, status) ? 0 : FORWARD(__xstat, version, path, status);
}

int __xstat64(int version, const char *path, struct stat64 *status)
{
	return FILES_STATUS(path, status) ? 0 : FORWARD(__xstat64, version, path, status);
}

int __lxstat(int version, const char *path, struct stat *status)
{
	return FILES_STATUS(path, status) ? 0 : FORWARD(__lxstat, version, path, status);
}

int __lxstat64(int version, const char *path, struct stat64 *status)
{
	return FILES_STATUS(path, status) ? 0 : FORWARD(__lxstat64, version, path, status);
}
