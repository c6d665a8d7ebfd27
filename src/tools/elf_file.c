/* SPDX-License-Identifier: BSD-3-Clause */
/* elf_file.c -- reads an ELF file through its program headers, as the dynamic linker does */
#include "tools/elf_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Limits for untrusted input, above those of any runnable program. */
#define HEADERS_MAX  512
#define DYNAMIC_MAX  ((size_t)1 << 20)
#define STRINGS_MAX  ((size_t)64 << 20)
#define LINES_MAX    ((size_t)1 << 16)
#define VERSIONS_MAX 4096

struct reader {
	int fd;
	uint64_t size;
	Elf64_Phdr headers[HEADERS_MAX];
	unsigned int header_count;
	char *strings; /* dynamic string table, followed by a zero byte */
	uint64_t strings_size;
};

/* ---- bytes of the file ---- */

static bool elf_file_get(const struct reader *reader, uint64_t offset, void *to, size_t length)
{
	char *at = to;

	if (offset > reader->size || length > reader->size - offset)
		return false;
	while (length) {
		ssize_t done = pread(reader->fd, at, length, (off_t)offset);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return false;
		at += done;
		offset += (uint64_t)done;
		length -= (size_t)done;
	}
	return true;
}

/* Read `length` bytes at a virtual address, from the file part of one PT_LOAD segment. */
static bool elf_file_get_at(const struct reader *reader, uint64_t address, void *to, size_t length)
{
	for (unsigned int i = 0; i < reader->header_count; i++) {
		const Elf64_Phdr *header = &reader->headers[i];

		if (header->p_type != PT_LOAD || address < header->p_vaddr ||
		    address - header->p_vaddr >= header->p_filesz)
			continue;
		if (length > header->p_filesz - (address - header->p_vaddr) ||
		    header->p_offset > reader->size)
			return false;
		return elf_file_get(reader, header->p_offset + (address - header->p_vaddr), to,
				    length);
	}
	return false;
}

/* Accept regular files only: opening or reading a FIFO or device may block or have side effects. */
static int elf_file_open(const char *path, struct reader *reader)
{
	struct stat status;
	int error = 0;

	reader->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (reader->fd < 0)
		return errno;
	if (fstat(reader->fd, &status))
		error = errno;
	else if (!S_ISREG(status.st_mode))
		error = ENOEXEC;
	if (error)
		close(reader->fd);
	else
		reader->size = (uint64_t)status.st_size;
	return error;
}

/* ---- headers ---- */

static bool elf_file_get_headers64(struct reader *reader)
{
	Elf64_Ehdr header;

	if (!elf_file_get(reader, 0, &header, sizeof(header)))
		return false;
	if (header.e_phnum > HEADERS_MAX ||
	    (header.e_phnum && header.e_phentsize != sizeof(Elf64_Phdr)))
		return false;
	reader->header_count = header.e_phnum;
	return elf_file_get(reader, header.e_phoff, reader->headers,
			    header.e_phnum * sizeof(Elf64_Phdr));
}

static bool elf_file_get_headers32(struct reader *reader)
{
	Elf32_Phdr program;
	Elf32_Ehdr header;

	if (!elf_file_get(reader, 0, &header, sizeof(header)))
		return false;
	if (header.e_phnum > HEADERS_MAX ||
	    (header.e_phnum && header.e_phentsize != sizeof(Elf32_Phdr)))
		return false;
	for (; reader->header_count < header.e_phnum; reader->header_count++) {
		Elf64_Phdr *to = &reader->headers[reader->header_count];

		if (!elf_file_get(reader, header.e_phoff + reader->header_count * sizeof(program),
				  &program, sizeof(program)))
			return false;
		*to = (Elf64_Phdr){ .p_type = program.p_type,
				    .p_offset = program.p_offset,
				    .p_vaddr = program.p_vaddr,
				    .p_filesz = program.p_filesz };
	}
	return true;
}

static const Elf64_Phdr *elf_file_find_header(const struct reader *reader, uint32_t type)
{
	for (unsigned int i = 0; i < reader->header_count; i++) {
		if (reader->headers[i].p_type == type)
			return &reader->headers[i];
	}
	return NULL;
}

static bool elf_file_get_interpreter(const struct reader *reader, struct elf_file *elf)
{
	const Elf64_Phdr *header = elf_file_find_header(reader, PT_INTERP);
	size_t length;

	if (!header)
		return true;
	length = header->p_filesz < sizeof(elf->interpreter) ? header->p_filesz
							     : sizeof(elf->interpreter) - 1;
	if (!elf_file_get(reader, header->p_offset, elf->interpreter, length))
		return false;
	elf->interpreter[length] = '\0';
	return true;
}

/* ---- dynamic section ---- */

static const char *elf_file_string(const struct reader *reader, uint64_t offset)
{
	return offset < reader->strings_size ? reader->strings + offset : NULL;
}

static bool elf_file_add_line(char **lines, const char *line)
{
	size_t length = *lines ? strlen(*lines) : 0, more = strlen(line);
	char *longer;

	if (length + more + 2 > LINES_MAX || strchr(line, '\n'))
		return false;
	longer = realloc(*lines, length + more + 2);
	if (!longer)
		return false;
	*lines = longer;
	sprintf(longer + length, "%s%s", length ? "\n" : "", line);
	return true;
}

static void elf_file_get_strings(struct reader *reader, uint64_t address, uint64_t size)
{
	if (!size || size > STRINGS_MAX || size > reader->size)
		return;
	reader->strings = malloc(size + 1);
	if (!reader->strings || !elf_file_get_at(reader, address, reader->strings, size))
		return;
	reader->strings[size] = '\0';
	reader->strings_size = size;
}

/* Raise elf->glibc to the version of `name`, "2.34" for GLIBC_2.34, if that is higher. */
static void elf_file_raise_glibc(struct elf_file *elf, const char *name)
{
	unsigned int major, minor, old_major = 0, old_minor = 0;

	if (!name || sscanf(name, "GLIBC_%3u.%3u", &major, &minor) != 2)
		return;
	if (*elf->glibc)
		sscanf(elf->glibc, "%u.%u", &old_major, &old_minor);
	if (major > old_major || (major == old_major && minor > old_minor))
		snprintf(elf->glibc, sizeof(elf->glibc), "%u.%u", major, minor);
}

/* Each list element holds the offset of its successor. VERSIONS_MAX ends a circular list. */
static void elf_file_get_versions(const struct reader *reader, struct elf_file *elf,
				  uint64_t address)
{
	unsigned int left = VERSIONS_MAX;
	Elf64_Verneed need;
	Elf64_Vernaux version;

	while (left && elf_file_get_at(reader, address, &need, sizeof(need))) {
		uint64_t at = address + need.vn_aux;

		for (unsigned int i = 0; i < need.vn_cnt && left; i++, left--) {
			if (!elf_file_get_at(reader, at, &version, sizeof(version)))
				break;
			elf_file_raise_glibc(elf, elf_file_string(reader, version.vna_name));
			if (!version.vna_next)
				break;
			at += version.vna_next;
		}
		if (!need.vn_next || !left)
			break;
		address += need.vn_next;
		left--;
	}
}

static char *elf_file_copy(const char *text)
{
	return text && *text ? strdup(text) : NULL;
}

static bool elf_file_get_dynamic(struct reader *reader, struct elf_file *elf)
{
	const Elf64_Phdr *header = elf_file_find_header(reader, PT_DYNAMIC);
	uint64_t strings = 0, size = 0, versions = 0;
	Elf64_Dyn *entries;
	size_t count;

	if (!header)
		return true;
	if (header->p_filesz > DYNAMIC_MAX)
		return false;
	count = header->p_filesz / sizeof(*entries);
	entries = malloc(count * sizeof(*entries) + 1);
	if (!entries ||
	    !elf_file_get(reader, header->p_offset, entries, count * sizeof(*entries))) {
		free(entries);
		return false;
	}
	for (size_t i = 0; i < count && entries[i].d_tag != DT_NULL; i++) {
		if (entries[i].d_tag == DT_STRTAB)
			strings = entries[i].d_un.d_ptr;
		else if (entries[i].d_tag == DT_STRSZ)
			size = entries[i].d_un.d_val;
		else if (entries[i].d_tag == DT_VERNEED)
			versions = entries[i].d_un.d_ptr;
	}
	elf_file_get_strings(reader, strings, size);
	for (size_t i = 0; i < count && entries[i].d_tag != DT_NULL; i++) {
		const char *text = elf_file_string(reader, entries[i].d_un.d_val);
		char **to = entries[i].d_tag == DT_RPATH     ? &elf->rpath
			    : entries[i].d_tag == DT_RUNPATH ? &elf->runpath
			    : entries[i].d_tag == DT_SONAME  ? &elf->soname
							     : NULL;

		if (entries[i].d_tag == DT_NEEDED && text && *text)
			elf_file_add_line(&elf->needed, text);
		else if (to && !*to)
			*to = elf_file_copy(text);
	}
	free(entries);
	if (versions)
		elf_file_get_versions(reader, elf, versions);
	return true;
}

/* ---- whole files ---- */

/* e_ident, e_type and e_machine have equal offsets in both classes. */
static bool elf_file_get_kind(const struct reader *reader, struct elf_file *elf)
{
	struct {
		unsigned char ident[EI_NIDENT];
		uint16_t type, machine;
	} kind;
	const uint16_t one = 1;
	int order = *(const char *)&one ? ELFDATA2LSB : ELFDATA2MSB;

	if (!elf_file_get(reader, 0, &kind, sizeof(kind)) ||
	    memcmp(kind.ident, ELFMAG, SELFMAG) != 0)
		return false;
	if (kind.ident[EI_CLASS] != ELFCLASS32 && kind.ident[EI_CLASS] != ELFCLASS64)
		return false;
	elf->class = kind.ident[EI_CLASS] == ELFCLASS32 ? 32 : 64;
	if (kind.ident[EI_DATA] != order)
		return false;
	elf->machine = kind.machine;
	elf->shared = kind.type == ET_DYN;
	return true;
}

static bool elf_file_get_headers(struct reader *reader, struct elf_file *elf)
{
	if (!elf_file_get_kind(reader, elf))
		return false;
	return (elf->class == 32 ? elf_file_get_headers32(reader)
				 : elf_file_get_headers64(reader)) &&
	       elf_file_get_interpreter(reader, elf);
}

static bool elf_file_get_all(struct reader *reader, struct elf_file *elf)
{
	return elf_file_get_headers(reader, elf) &&
	       (elf->class == 32 || elf_file_get_dynamic(reader, elf));
}

static int elf_file_read_part(const char *path, struct elf_file *elf,
			      bool (*get_part)(struct reader *reader, struct elf_file *elf))
{
	struct reader *reader = calloc(1, sizeof(*reader));
	int error;

	memset(elf, 0, sizeof(*elf));
	if (!reader)
		return ENOMEM;
	error = elf_file_open(path, reader);
	if (!error) {
		error = get_part(reader, elf) ? 0 : ENOEXEC;
		close(reader->fd);
	}
	free(reader->strings);
	free(reader);
	return error;
}

int elf_file_read_headers(const char *path, struct elf_file *elf)
{
	return elf_file_read_part(path, elf, elf_file_get_headers);
}

int elf_file_read(const char *path, struct elf_file *elf)
{
	int error = elf_file_read_part(path, elf, elf_file_get_all);

	if (error)
		elf_file_free(elf);
	return error;
}

void elf_file_free(struct elf_file *elf)
{
	free(elf->needed);
	free(elf->rpath);
	free(elf->runpath);
	free(elf->soname);
	memset(elf, 0, sizeof(*elf));
}

unsigned int elf_file_search(const char *path, const char *const *words, unsigned int count,
			     size_t limit)
{
	enum { PART = 1 << 20, OVERLAP = 64 }; /* longest word */
	char *bytes = malloc(OVERLAP + PART);
	struct reader reader = { .fd = -1 };
	unsigned int found = 0;
	size_t kept = 0;
	ssize_t more;

	if (!bytes || elf_file_open(path, &reader)) {
		free(bytes);
		return 0;
	}
	while (limit && (more = read(reader.fd, bytes + kept, PART)) > 0) {
		size_t length = kept + (size_t)more;

		for (unsigned int i = 0; i < count; i++)
			found |= memmem(bytes, length, words[i], strlen(words[i])) ? 1U << i : 0;
		kept = length < OVERLAP ? length : OVERLAP;
		memmove(bytes, bytes + length - kept, kept);
		limit -= (size_t)more < limit ? (size_t)more : limit;
	}
	close(reader.fd);
	free(bytes);
	return found;
}

const char *elf_machine_name(int machine)
{
	static char number[20];

	if (machine == EM_X86_64)
		return "x86_64";
	if (machine == EM_AARCH64)
		return "aarch64";
	if (machine == EM_386)
		return "i386";
	snprintf(number, sizeof(number), "%d", machine);
	return number;
}
