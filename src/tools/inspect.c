/* SPDX-License-Identifier: BSD-3-Clause */
/* inspect.c -- whether the dynamic linker will put a preload into a program
 *
 * It leaves a preload out without a word, or with one in every process: of a program that is linked statically, that
 * gets rights which its caller has not, that another C library runs, or that is of another architecture. A shell says of
 * a program whose interpreter is missing that the program is: that is told apart as well. Only headers are read
 * (elf_file.h), so that nothing needs to be installed. What cannot be read or is not understood is not complained of.
 */
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/config.h"
#include "tools/elf_file.h"
#include "tools/program_file.h"

static bool complain(const char *program, const char *what)
{
	fprintf(stderr, "peerpin: %s %s\n", program, what);
	return false;
}

/* What a script names may have anything in it: most often the end of a line as on other systems, which no one would see. */
static bool complain_of_missing(const char *program, const char *interpreter)
{
	char plain[PATH_MAX];
	size_t length = 0;

	for (; interpreter[length] && length < sizeof(plain) - 1; length++)
		plain[length] = (unsigned char)interpreter[length] < ' ' ? '?' : interpreter[length];
	plain[length] = '\0';
	fprintf(stderr, "peerpin: %s needs %s, which is not there%s\n", program, plain,
		length && interpreter[length - 1] == '\r' ? " (its first line ends with a carriage return)"
							  : "");
	return false;
}

static const char *machine_name(const struct elf_file *elf, char *text, size_t size)
{
	switch (elf->machine) {
	case EM_X86_64:
		return elf->class == 64 ? "x86-64" : "x32";
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
		snprintf(text, size, "ELF machine %d", elf->machine);
		return text;
	}
}

/* The kernel then tells the dynamic linker to trust nobody; not of root's capabilities, which it has anyway. */
static bool gets_other_rights(const char *name)
{
	struct program_rights rights;

	return program_rights(name, &rights) &&
	       ((rights.setuid && rights.owner != getuid()) || (rights.setgid && rights.group != getgid()) ||
		(rights.capability && getuid()));
}

/* False: it is of another architecture than the library, and that has been said. */
static bool check_machine(const char *name, const struct elf_file *elf, const char *library)
{
	char what[512], ours_name[32], its_name[32];
	struct elf_file ours;

	if (elf_file_read_headers(library, &ours))
		return true;
	if (elf->class == ours.class && elf->machine == ours.machine)
		return true;
	snprintf(what, sizeof(what), "is a program for %s: libpeerpin.so is for %s and cannot get into it",
		 machine_name(elf, its_name, sizeof(its_name)),
		 machine_name(&ours, ours_name, sizeof(ours_name)));
	return complain(name, what);
}

bool inspect(const char *program, const char *library)
{
	char name[PATH_MAX], line[256];
	struct elf_file elf;
	int error;

	snprintf(name, sizeof(name), "%s", program);
	for (int i = 0; i < SCRIPTS_MAX && script_line(name, line, sizeof(line)); i++) {
		if (script_follow(line, name))
			continue;
		if (strchr(name, '/') && access(name, F_OK) && errno == ENOENT)
			return complain_of_missing(program, name);
		return true;
	}
	error = elf_file_read_headers(name, &elf);
	if (!elf.class)
		return true;
	if (!check_machine(name, &elf, library))
		return false;
	if (error)
		return true;
	if (!*elf.interpreter)
		return complain(name, "is linked statically: libpeerpin.so cannot get into it");
	if (strstr(elf.interpreter, "/ld-musl"))
		return complain(name, "is linked to musl, libpeerpin.so to glibc: it runs without");
	if (access(elf.interpreter, F_OK) && errno == ENOENT)
		return complain_of_missing(name, elf.interpreter);
	if (gets_other_rights(name))
		return complain(
			name, "runs with other rights than yours: the loader keeps libpeerpin.so out of it");
	return true;
}
