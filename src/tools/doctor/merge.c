/* SPDX-License-Identifier: BSD-3-Clause */
/* merge.c -- --merge: the checks in which hosts differ, from what --json wrote on each */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/checks.h"
#include "tools/units.h"

struct merge_hosts {
	json_t **list;
	unsigned int *records; /* that differ, of each host: the first counts */
	size_t count;
};

/* Hosts with one text of a check. */
struct merge_group {
	char *text, *names;
	unsigned int count;
};

static const char *merge_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

/* A second diagnosis of a host is left out: srun may start several processes there. */
static bool merge_has(struct merge_hosts *hosts, const json_t *json)
{
	for (size_t i = 0; i < hosts->count; i++) {
		if (strcmp(merge_text(hosts->list[i], "host"), merge_text(json, "host")))
			continue;
		hosts->records[i] += !json_equal(hosts->list[i], json);
		return true;
	}
	return false;
}

static void merge_warn_of_names(const struct merge_hosts *hosts)
{
	for (size_t i = 0; i < hosts->count; i++) {
		if (hosts->records[i] > 1)
			fprintf(stderr,
				"peerpin doctor: %s is the name of %u hosts, or of one that was "
				"examined %u times: only the first is compared\n",
				clean(merge_text(hosts->list[i], "host")), hosts->records[i],
				hosts->records[i]);
	}
}

/* Reads objects, one behind the other. False: it has printed the reason. */
static bool merge_read(struct merge_hosts *hosts, FILE *from, const char *file)
{
	json_error_t error;
	json_t *json;
	int byte;

	while ((byte = fgetc(from)) != EOF) {
		if (strchr(" \t\r\n", byte))
			continue;
		ungetc(byte, from);
		json = json_loadf(from, JSON_DISABLE_EOF_CHECK, &error);
		if (!*merge_text(json, "host") || !json_is_array(json_object_get(json, "checks"))) {
			fprintf(stderr,
				"peerpin doctor: %s: not written by peerpin doctor --json\n", file);
			json_decref(json);
			return false;
		}
		if (merge_has(hosts, json)) {
			json_decref(json);
			continue;
		}
		hosts->list = grown(hosts->list, hosts->count, sizeof(*hosts->list));
		hosts->records = grown(hosts->records, hosts->count, sizeof(*hosts->records));
		hosts->records[hosts->count] = 1;
		hosts->list[hosts->count++] = json;
	}
	return true;
}

static bool merge_read_files(struct merge_hosts *hosts, char **files)
{
	for (; *files; files++) {
		FILE *from = fopen(*files, "re");
		bool good = from && merge_read(hosts, from, *files);

		if (!from)
			fprintf(stderr, "peerpin doctor: %s: %s\n", *files, strerror(errno));
		else
			fclose(from);
		if (!good)
			return false;
	}
	return true;
}

/* Times and log lines differ on each host: their results count. The caller frees the text. */
static char *merge_check(const json_t *host, const char *id)
{
	bool varies = !strcmp(id, "probe") || !strcmp(id, "kernel-log");
	json_t *check;
	size_t i;

	json_array_foreach(json_object_get(host, "checks"), i, check) {
		if (!strcmp(merge_text(check, "id"), id))
			return text_of("%s%s%s", merge_text(check, "result"), varies ? "" : "  ",
				       varies ? "" : clean(merge_text(check, "found")));
	}
	return text_of("not checked");
}

static const char *merge_verdict(const json_t *host)
{
	switch (json_integer_value(json_object_get(host, "status"))) {
	case DOCTOR_WORKS:
		return "works";
	case DOCTOR_FAILS:
		return "fails";
	default:
		return "undecided";
	}
}

/* The largest group first. */
static int merge_compare(const void *a, const void *b)
{
	const struct merge_group *left = a, *right = b;

	return (left->count < right->count) - (left->count > right->count);
}

/* Prints nothing if all hosts have one text. `id` NULL: their verdicts. */
static bool merge_print(const struct merge_hosts *hosts, const char *id)
{
	struct merge_group *groups = zeroed(hosts->count, sizeof(*groups));
	size_t count = 0;

	for (size_t i = 0; i < hosts->count; i++) {
		const char *name = clean(merge_text(hosts->list[i], "host"));
		const char *text =
			id ? merge_check(hosts->list[i], id) : merge_verdict(hosts->list[i]);
		size_t k = 0;

		while (k < count && strcmp(groups[k].text, text))
			k++;
		if (k == count)
			groups[count++].text = text_of("%s", text);
		groups[k].count++;
		list_add(&groups[k].names, name);
	}
	qsort(groups, count, sizeof(*groups), merge_compare);
	for (size_t k = 0; k < count; k++) {
		char *names = list_shorten(groups[k].names);

		if (count > 1)
			printf("%-15s  %-20s  %s\n",
			       k    ? ""
			       : id ? id
				    : "verdict",
			       k || groups[k].count == 1 ? names
							 : text_of("%u hosts", groups[k].count),
			       groups[k].text);
	}
	free(groups);
	return count > 1;
}

static int merge_print_all(const struct merge_hosts *hosts)
{
	unsigned int equal = 0;
	int status = DOCTOR_WORKS;

	printf("peerpin doctor  %zu host%s\n", hosts->count, hosts->count == 1 ? "" : "s");
	if (!merge_print(hosts, NULL))
		printf("%-15s  %-20s  %s\n", "verdict", "all", merge_verdict(hosts->list[0]));
	for (unsigned int i = 0; i < check_count; i++)
		equal += !merge_print(hosts, checks[i].id);
	printf("%u of %u checks are equal on all hosts.\n", equal, check_count);
	for (size_t i = 0; i < hosts->count; i++) {
		int one = (int)json_integer_value(json_object_get(hosts->list[i], "status"));

		if (one == DOCTOR_FAILS || (one && status == DOCTOR_WORKS))
			status = one;
	}
	return status;
}

int merge_print_hosts(char **files)
{
	struct merge_hosts hosts = { 0 };
	int status = DOCTOR_USAGE;
	bool good = *files ? merge_read_files(&hosts, files)
			   : merge_read(&hosts, stdin, "standard input");

	merge_warn_of_names(&hosts);
	if (good && !hosts.count)
		fputs("peerpin doctor: --merge: no host was read\n", stderr);
	else if (good)
		status = merge_print_all(&hosts);
	while (hosts.count)
		json_decref(hosts.list[--hosts.count]);
	free(hosts.list);
	free(hosts.records);
	texts_free();
	return status;
}
