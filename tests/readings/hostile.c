/* SPDX-License-Identifier: BSD-3-Clause */
/* hostile.c -- reads truncated ELF files, and ELF files with inverted bits
 *
 * hostile FILE SEED ROUNDS: reads FILE cut at each length, then ROUNDS times with inverted bits,
 * most of them in the headers and in the dynamic section. Texts of a damaged file must be
 * terminated; sanitizers report other errors.
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/doctor/libraries.h"

static char path[64];
static int file;
static unsigned long read_well, refused;
static uint64_t state;

static uint64_t number(uint64_t end)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % end;
}

static void put(const char *bytes, size_t length)
{
	if (ftruncate(file, 0) || pwrite(file, bytes, length, 0) != (ssize_t)length)
		exit(1);
}

static void check_text(const char *text, size_t most)
{
	if (text && strnlen(text, most + 1) > most) {
		printf("a text of more than %zu bytes\n", most);
		exit(1);
	}
}

static void read_once(void)
{
	struct elf_file elf;

	if (elf_file_read(path, &elf)) {
		refused++;
		return;
	}
	read_well++;
	check_text(elf.interpreter, sizeof(elf.interpreter) - 1);
	check_text(elf.glibc, sizeof(elf.glibc) - 1);
	check_text(elf.needed, 1 << 16);
	if (elf.class != 32 && elf.class != 64)
		exit(1);
	elf_file_free(&elf);
}

/* Searches the libraries that a damaged file names. */
static void search_once(void)
{
	struct libraries libraries;

	if (libraries_find(path, &libraries) == 0)
		libraries_free(&libraries);
}

static char *load(const char *name, size_t *length)
{
	FILE *from = fopen(name, "rb");
	char *bytes = malloc(1 << 20);

	*length = from && bytes ? fread(bytes, 1, 1 << 20, from) : 0;
	if (from)
		fclose(from);
	if (!*length)
		exit(1);
	return bytes;
}

/* Offset of the dynamic section; 0: none. */
static size_t dynamic_of(const char *bytes, size_t length, size_t *size)
{
	Elf64_Ehdr header;
	Elf64_Phdr program;

	*size = length;
	memcpy(&header, bytes, sizeof(header));
	for (unsigned int i = 0; i < header.e_phnum; i++) {
		memcpy(&program, bytes + header.e_phoff + i * sizeof(program), sizeof(program));
		if (program.p_type == PT_DYNAMIC) {
			*size = program.p_filesz;
			return program.p_offset;
		}
	}
	return 0;
}

static void invert_bits(char *bytes, size_t length)
{
	size_t size, dynamic = dynamic_of(bytes, length, &size);
	size_t headers = sizeof(Elf64_Ehdr) + 14 * sizeof(Elf64_Phdr);
	char *copy = malloc(length);

	memcpy(copy, bytes, length);
	for (uint64_t i = 1 + number(4); i; i--) {
		uint64_t where = number(3);
		size_t at = where == 0	 ? number(headers)
			    : where == 1 ? dynamic + number(size)
					 : number(length);

		if (at >= SELFMAG && at < length)
			copy[at] = number(3) ? (char)(copy[at] ^ 1 << number(8))
					     : (char)-(char)number(2);
	}
	put(copy, length);
	free(copy);
}

int main(int argc, char **argv)
{
	unsigned long rounds = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
	size_t length;
	char *bytes;

	if (argc < 4)
		return 2;
	state = strtoull(argv[2], NULL, 10) * 2654435761u + 88172645463325252u;
	bytes = load(argv[1], &length);
	file = memfd_create("hostile", 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	for (size_t cut = 0; cut <= length; cut++) {
		put(bytes, cut);
		read_once();
	}
	for (unsigned long i = 0; i < rounds; i++) {
		invert_bits(bytes, length);
		read_once();
		if (i % 64 == 0)
			search_once();
	}
	free(bytes);
	printf("%lu read, %lu refused\n", read_well, refused);
	return !read_well || !refused;
}
