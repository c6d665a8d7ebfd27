/* SPDX-License-Identifier: BSD-3-Clause */
/* inspect.c -- checks that the dynamic linker can preload libpeerpin.so into a program
 *
 * The dynamic linker omits a preload, silently or with one line per process, from four kinds of
 * program: statically linked, privileged (AT_SECURE), linked to another C library, built for
 * another architecture. A shell reports a program with a missing interpreter as missing itself:
 * inspect() names the interpreter. inspect() reads headers only (elf_file.h), so no other tool is
 * required. Unreadable and unrecognized files pass without a message.
 */
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/config.h"
#include "tools/elf_file.h"
#include "tools/program_file.h"
#include "tools/units.h"

static bool inspect_report(const char *program, const char *problem)
{
	fprintf(stderr, "peerpin: %s %s\n", program, problem);
	return false;
}

/* An interpreter line may contain any byte, most often an invisible carriage return at its end. */
static bool inspect_report_missing(const char *program, const char *interpreter)
{
	char *plain = clean_text(interpreter);
	size_t length = strlen(interpreter);

	fprintf(stderr, "peerpin: %s requires %s, which is missing%s\n", program, plain,
		length && interpreter[length - 1] == '\r'
			? " (its first line ends with a carriage return)"
			: "");
	free(plain);
	return false;
}

static const char *inspect_machine_name(const struct elf_file *elf, char *text, size_t size)
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

/* True if the kernel sets AT_SECURE. File capabilities of a program do not count for root, which
 * has them anyway. */
static bool inspect_is_privileged(const char *name)
{
	struct program_privileges privileges;

	return program_privileges(name, &privileges) &&
	       ((privileges.setuid && privileges.owner != getuid()) ||
		(privileges.setgid && privileges.group != getgid()) ||
		(privileges.capability && getuid()));
}

/* Report a program of another architecture than the library's, and return false. */
static bool inspect_check_machine(const char *name, const struct elf_file *elf, const char *library)
{
	char problem[512], library_name[32], program_name[32];
	struct elf_file library_elf;

	if (elf_file_read_headers(library, &library_elf))
		return true;
	if (elf->class == library_elf.class && elf->machine == library_elf.machine)
		return true;
	snprintf(problem, sizeof(problem),
		 "is a program for %s: libpeerpin.so is for %s and cannot be preloaded",
		 inspect_machine_name(elf, program_name, sizeof(program_name)),
		 inspect_machine_name(&library_elf, library_name, sizeof(library_name)));
	return inspect_report(name, problem);
}

bool inspect_has_asan(const char *program)
{
	char path[PATH_MAX], line[256];
	struct elf_file elf;
	bool found = false;

	if (!program_find(program, path))
		return false;
	for (int i = 0; i < SCRIPTS_MAX && script_line(path, line, sizeof(line)); i++) {
		if (!script_follow(line, path))
			return false;
	}
	if (!elf_file_read(path, &elf)) {
		found = elf.needed && (strstr(elf.needed, "libasan.so") ||
				       strstr(elf.needed, "libclang_rt.asan"));
		elf_file_free(&elf);
	}
	return found;
}

static bool inspect_program(const char *program, const char *library)
{
	char name[PATH_MAX], line[256];
	struct elf_file elf;
	int error;

	snprintf(name, sizeof(name), "%s", program);
	for (int i = 0; i < SCRIPTS_MAX && script_line(name, line, sizeof(line)); i++) {
		if (script_follow(line, name))
			continue;
		if (strchr(name, '/') && access(name, F_OK) && errno == ENOENT)
			return inspect_report_missing(program, name);
		return true;
	}
	error = elf_file_read_headers(name, &elf);
	if (!elf.class)
		return true;
	if (!inspect_check_machine(name, &elf, library))
		return false;
	if (error)
		return true;
	if (!*elf.interpreter)
		return inspect_report(name,
				      "is statically linked: libpeerpin.so cannot be preloaded");
	if (strstr(elf.interpreter, "/ld-musl"))
		return inspect_report(
			name, "is linked to musl, libpeerpin.so to glibc: it runs without peerpin");
	if (access(elf.interpreter, F_OK) && errno == ENOENT)
		return inspect_report_missing(name, elf.interpreter);
	if (inspect_is_privileged(name))
		return inspect_report(
			name,
			"runs with other privileges than yours: the loader ignores libpeerpin.so");
	return true;
}

int inspect(char **command, const char *library)
{
	const char *kind = launcher_kind(*command);
	bool starts = kind && strcmp(kind, "container") != 0, found = false;
	char path[PATH_MAX];
	int now = 0;

	for (char **word = command + 1; starts && now >= 0 && *word; word++) {
		/* A lone colon precedes the next program of an MPI launcher. */
		if (now) {
			now = strcmp(*word, ":") != 0;
			continue;
		}
		now = launcher_argument(*word, path);
		if (now > 0 && !inspect_program(path, library))
			return 2;
		found |= now > 0;
	}
	program_find(*command, path);
	return found || inspect_program(path, library) ? 0 : 1;
}
