/* SPDX-License-Identifier: BSD-3-Clause */
/* inspect.c -- whether the dynamic linker will put a preload into a program
 *
 * It leaves a preload out without a word, or with one in every process: of a program that is linked statically, that
 * gets rights which its caller has not, that another C library runs, or that is of another architecture. A shell says of
 * a program whose interpreter is missing that the program is: that is told apart as well. Only headers are read, so that nothing needs to be installed. What cannot be read or is not understood is not complained of.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tools/config.h"

#define SCRIPTS_MAX 4 /* as the kernel follows them */

/* What the headers of an ELF file say; other fields of a file of other byte order or class. */
struct image {
	bool is_elf;
	unsigned int class, machine;
	bool has_headers; /* the following were read */
	bool is_dynamic;
	char interpreter[PATH_MAX];
};

static bool complain(const char *program, const char *what)
{
	fprintf(stderr, "peerpin: %s %s\n", program, what);
	return false;
}

static bool complain_of_missing(const char *program, const char *interpreter)
{
	fprintf(stderr, "peerpin: %s needs %s, which is not there\n", program, interpreter);
	return false;
}

static bool read_at(int fd, off_t offset, void *to, size_t size)
{
	return pread(fd, to, size, offset) == (ssize_t)size;
}

static void read_segments(int fd, const Elf64_Ehdr *header, struct image *image)
{
	Elf64_Phdr segment;

	for (int i = 0; i < header->e_phnum; i++) {
		size_t size;

		if (header->e_phentsize < sizeof(segment) ||
		    !read_at(fd, (off_t)header->e_phoff + i * header->e_phentsize, &segment, sizeof(segment)))
			return;
		if (segment.p_type != PT_INTERP)
			continue;
		size = segment.p_filesz < PATH_MAX ? (size_t)segment.p_filesz : 0;
		image->is_dynamic = true;
		if (!size || !read_at(fd, (off_t)segment.p_offset, image->interpreter, size))
			image->interpreter[0] = '\0';
		else
			image->interpreter[size - 1] = '\0';
	}
	image->has_headers = true;
}

static bool read_image(const char *name, struct image *image)
{
	Elf64_Ehdr header;
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	bool right_order;

	*image = (struct image){ 0 };
	if (fd < 0)
		return false;
	if (read_at(fd, 0, &header, 20) && !memcmp(header.e_ident, ELFMAG, SELFMAG)) {
		right_order = header.e_ident[EI_DATA] == ELFDATA2LSB;
		image->is_elf = true;
		image->class = header.e_ident[EI_CLASS];
		image->machine = right_order ? header.e_machine : 0;
		if (right_order && image->class == ELFCLASS64 && read_at(fd, 0, &header, sizeof(header)))
			read_segments(fd, &header, image);
	}
	close(fd);
	return true;
}

static const char *machine_name(const struct image *image, char *text, size_t size)
{
	switch (image->machine) {
	case EM_X86_64:
		return image->class == ELFCLASS64 ? "x86-64" : "x32";
	case EM_386:
		return "32-bit x86";
	case EM_AARCH64:
		return "aarch64";
	case EM_ARM:
		return "32-bit ARM";
	case EM_PPC64:
		return "ppc64";
	case EM_RISCV:
		return "RISC-V";
	default:
		snprintf(text, size, "ELF machine %u", image->machine);
		return text;
	}
}

/* The kernel then tells the dynamic linker to trust nobody; not of root's capabilities, which it has anyway, and not
 * on a file system that gives no rights. */
static bool gets_other_rights(const char *name)
{
	struct statvfs system;
	struct stat file;

	if (stat(name, &file) || statvfs(name, &system) || (system.f_flag & ST_NOSUID))
		return false;
	if (((file.st_mode & S_ISUID) && file.st_uid != getuid()) ||
	    ((file.st_mode & S_ISGID) && (file.st_mode & S_IXGRP) && file.st_gid != getgid()))
		return true;
	return getuid() && getxattr(name, "security.capability", NULL, 0) > 0;
}

/* As execvp finds it. */
static bool find_in_path(const char *name, char *path)
{
	const char *folders = getenv("PATH");

	if (strchr(name, '/'))
		return (size_t)snprintf(path, PATH_MAX, "%s", name) < PATH_MAX;
	while (folders && *folders) {
		int length = (int)strcspn(folders, ":");

		if (snprintf(path, PATH_MAX, "%.*s/%s", length, folders, name) < PATH_MAX &&
		    !access(path, X_OK))
			return true;
		folders += length;
		folders += *folders == ':';
	}
	return false;
}

/* The program that runs a script: what follows its #!, and what env is told to find. False if it is no script. */
static bool follow_script(const char *name, char *interpreter)
{
	char line[512] = "", *word, *rest;
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (fd < 0)
		return false;
	got = read(fd, line, sizeof(line) - 1);
	close(fd);
	if (got < 3 || line[0] != '#' || line[1] != '!')
		return false;
	line[strcspn(line, "\n")] = '\0';
	word = strtok_r(line + 2, " \t\r", &rest);
	if (!word)
		return false;
	if (!strcmp(strrchr(word, '/') ? strrchr(word, '/') + 1 : word, "env")) {
		char *found = strtok_r(NULL, " \t\r", &rest);

		while (found && (*found == '-' || strchr(found, '=')))
			found = strtok_r(NULL, " \t\r", &rest);
		word = found ? found : word;
	}
	return find_in_path(word, interpreter);
}

bool inspect(const char *program, const char *library)
{
	char name[PATH_MAX], next[PATH_MAX], what[512], ours_name[32], its_name[32];
	struct image image, ours;

	snprintf(name, sizeof(name), "%s", program);
	for (int i = 0; i < SCRIPTS_MAX && follow_script(name, next); i++)
		memcpy(name, next, sizeof(name));
	if (!read_image(name, &image)) {
		if (errno != ENOENT || !strcmp(name, program))
			return true;
		return complain_of_missing(program, name);
	}
	if (!image.is_elf)
		return true;
	if (read_image(library, &ours) && ours.is_elf &&
	    (image.class != ours.class || image.machine != ours.machine)) {
		snprintf(what, sizeof(what),
			 "is a program for %s: libpeerpin.so is for %s and cannot get into it",
			 machine_name(&image, its_name, sizeof(its_name)),
			 machine_name(&ours, ours_name, sizeof(ours_name)));
		return complain(name, what);
	}
	if (!image.has_headers)
		return true;
	if (!image.is_dynamic)
		return complain(name, "is linked statically: libpeerpin.so cannot get into it");
	if (strstr(image.interpreter, "/ld-musl"))
		return complain(name, "is linked to musl, libpeerpin.so to glibc: it runs without");
	if (*image.interpreter && access(image.interpreter, F_OK) && errno == ENOENT)
		return complain_of_missing(name, image.interpreter);
	if (gets_other_rights(name))
		return complain(
			name, "runs with other rights than yours: the loader keeps libpeerpin.so out of it");
	return true;
}
