/* SPDX-License-Identifier: BSD-3-Clause */
/* record.c -- writes and parses readings as readable text
 *
 * A reading starts with a line "== NAME"; the lines up to the next "==" are its text. "!ENOENT
 * message" in place of a text is an error. Binary data is "!bytes COUNT" and lines "OFFSET: 16
 * bytes in hex", without lines of zeros. A text line that starts with one of = ! # \ gets a
 * backslash in front; unprintable bytes are \xHH. Lines that start with # are comments.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/plain_text.h"
#include "tools/doctor/host.h"
#include "tools/units.h"

static const struct {
	int number;
	const char *name;
} errors[] = {
/* clang-format off */
#define ERROR(name) { name, #name },
	ERROR(EPERM) ERROR(ENOENT) ERROR(EIO) ERROR(ENXIO) ERROR(EBADF) ERROR(EAGAIN) ERROR(ENOMEM)
	ERROR(EACCES) ERROR(EFAULT) ERROR(EBUSY) ERROR(EEXIST) ERROR(ENODEV) ERROR(ENOTDIR)
	ERROR(EISDIR) ERROR(EINVAL) ERROR(EMFILE) ERROR(ENFILE) ERROR(ENOTTY) ERROR(ENOSPC)
	ERROR(EROFS) ERROR(ENOSYS) ERROR(ELOOP) ERROR(ENODATA) ERROR(ETIME) ERROR(EPROTO)
	ERROR(EOVERFLOW) ERROR(EPROTONOSUPPORT) ERROR(EOPNOTSUPP) ERROR(ETIMEDOUT) ERROR(EREMOTEIO)
	ERROR(EMSGSIZE) ERROR(ECANCELED) ERROR(EINTR) ERROR(ENAMETOOLONG)
#undef ERROR
	/* clang-format on */
	/* Internal to the kernel, but reaches programs. */
	{ 524, "ENOTSUPP" },
};

const char *host_error_name(int error)
{
	static char number[16];

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		if (errors[i].number == error)
			return errors[i].name;
	}
	snprintf(number, sizeof(number), "%d", error);
	return number;
}

/* Errno of a name, or a number. */
static int record_error_number(const char *name)
{
	size_t length = strcspn(name, " \n");

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		if (strlen(errors[i].name) == length && !strncmp(errors[i].name, name, length))
			return errors[i].number;
	}
	return atoi(name);
}

/* ---- writing ---- */

static FILE *out; /* of the writing functions */

static void record_write_text(const char *text)
{
	bool begins = true;
	unsigned int length;

	for (; *text; text += length ? length : 1) {
		unsigned char byte = (unsigned char)*text;

		length = byte == '\n' || byte == '\t' ? 1 : plain_text_printable(text);
		if (byte == '\\' || (begins && strchr("=!#", byte)))
			fputc('\\', out);
		if (length)
			fwrite(text, 1, length, out);
		else
			fprintf(out, "\\x%02x", byte);
		begins = byte == '\n';
	}
}

static void record_write_bytes(const struct reading *reading)
{
	fprintf(out, "!bytes %zu\n", reading->length);
	for (size_t at = 0; at < reading->length; at += 16) {
		size_t end = at + 16 < reading->length ? at + 16 : reading->length;
		bool zero = true;

		for (size_t i = at; i < end; i++)
			zero = zero && !reading->text[i];
		if (zero)
			continue;
		fprintf(out, "%03zx:", at);
		for (size_t i = at; i < end; i++)
			fprintf(out, " %02x", (unsigned char)reading->text[i]);
		fputc('\n', out);
	}
}

static void record_write(const struct reading *reading)
{
	fprintf(out, "== %s\n", reading->name);
	if (reading->error) {
		fprintf(out, "!%s%s", host_error_name(reading->error), *reading->text ? " " : "");
		for (const char *at = reading->text; *at; at++)
			fputc(*at == '\n' ? ' ' : *at, out);
		fputc('\n', out);
	} else if (strlen(reading->text) != reading->length) {
		record_write_bytes(reading);
	} else if (reading->length) {
		record_write_text(reading->text);
		fputc('\n', out);
	}
}

void record_write_all(FILE *file, struct host *host)
{
	out = file;
	fprintf(out, "%s\n", RECORD_FIRST_LINE);
	host_each(host, record_write);
}

/* ---- reading ---- */

/* Reading during parsing. */
struct part {
	const char *name;
	int error;
	char *text; /* decoded in place: never longer than the source text */
	size_t length;
	bool begun;
	char *bytes; /* data of "!bytes" */
	size_t byte_count;
};

static void record_end_part(struct host *host, struct part *part)
{
	if (part->name && part->bytes)
		host_record_bytes(host, part->name, 0, part->bytes, part->byte_count);
	else if (part->name)
		host_record_bytes(host, part->name, part->error, part->text ? part->text : "",
				  part->length);
	free(part->bytes);
	*part = (struct part){ .name = NULL };
}

static bool record_parse_error(struct part *part, char *line)
{
	char *words = line + strcspn(line, " ");

	if (!strncmp(line, "bytes ", 6)) {
		part->byte_count = strtoul(line + 6, NULL, 10);
		if (part->byte_count > 1 << 20)
			return false;
		part->bytes = zeroed(1, part->byte_count + 1);
		return true;
	}
	part->error = record_error_number(line);
	part->text = words + (*words == ' ');
	part->length = strlen(part->text);
	return part->error > 0;
}

static bool record_parse_bytes(struct part *part, const char *line)
{
	char *end;
	size_t at = strtoul(line, &end, 16);

	if (*end++ != ':')
		return false;
	while (*end) {
		const char *begin = end;
		unsigned long byte = strtoul(begin, &end, 16);

		if (end == begin || at >= part->byte_count || byte > 255)
			return false;
		part->bytes[at++] = (char)byte;
	}
	return true;
}

static void record_parse_text(struct part *part, const char *line)
{
	char *to;

	if (!part->begun)
		part->text = (char *)line;
	else
		part->text[part->length++] = '\n';
	part->begun = true;
	to = part->text + part->length;
	while (*line) {
		char byte = *line++;

		if (byte == '\\' && line[0] == 'x' && isxdigit(line[1]) && isxdigit(line[2])) {
			char hex[3] = { line[1], line[2], '\0' };

			byte = (char)strtoul(hex, NULL, 16);
			line += 3;
		} else if (byte == '\\' && *line) {
			byte = *line++;
		}
		*to++ = byte;
	}
	part->length = (size_t)(to - part->text);
}

bool record_parse(struct host *host, char *text, unsigned int *line)
{
	struct part part = { .name = NULL };
	bool good = true;

	*line = 0;
	for (char *next; good && *text; text = next) {
		size_t length = strcspn(text, "\n");

		next = text + length + (text[length] == '\n');
		text[length] = '\0';
		++*line;
		if (text[0] == '#')
			continue;
		if (!strncmp(text, "== ", 3)) {
			record_end_part(host, &part);
			part.name = text + 3;
		} else if (!part.name) {
			good = !length;
		} else if (text[0] == '!') {
			good = !part.begun && !part.bytes && !part.error &&
			       record_parse_error(&part, text + 1);
		} else if (part.bytes) {
			good = record_parse_bytes(&part, text);
		} else {
			good = !part.error;
			if (good)
				record_parse_text(&part, text);
		}
	}
	record_end_part(host, &part);
	return good;
}
