/* SPDX-License-Identifier: BSD-3-Clause */
/* json.c -- the result as one JSON object, with the texts and verdicts of the printed result */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/host_internal.h"
#include "tools/doctor/result.h"

/* Readings may hold any bytes. Invalid UTF-8: bytes above 127 become "?". jansson escapes
 * control characters on output, except 0x7f: replaced here. */
static json_t *print_json_text(const char *text)
{
	char *copy = text ? need_text("%s", text) : NULL;
	json_t *value;

	for (char *at = copy; at && *at; at++) {
		if (*at == 0x7f)
			*at = '?';
	}
	value = copy ? json_string(copy) : json_null();
	for (char *at = value ? NULL : copy; at && *at; at++) {
		if (*at & 0x80)
			*at = '?';
	}
	if (!value)
		value = need(json_string(copy));
	free(copy);
	return value;
}

static json_t *print_json_fixes(const struct finding *finding)
{
	json_t *list = need(json_array());

	for (unsigned int i = 0; i < finding->fix_count; i++)
		json_array_append_new(list, print_json_text(finding->fixes[i]));
	return list;
}

static json_t *print_json_checks(const struct result *result)
{
	json_t *list = need(json_array());

	for (unsigned int i = 0; i < check_count; i++) {
		const struct finding *finding = &result->findings[i];
		json_t *check;

		if (!result->shown[i])
			continue;
		check = need(json_object());
		json_object_set_new(check, "id", json_string(checks[i].id));
		json_object_set_new(check, "group", json_string(checks[i].group));
		json_object_set_new(check, "verdict", json_string(verdict_name(finding->verdict)));
		json_object_set_new(check, "found", print_json_text(finding->text));
		json_object_set_new(check, "read", print_json_text(finding->read));
		json_object_set_new(check, "why", json_string(checks[i].why));
		json_object_set_new(check, "do", print_json_fixes(finding));
		json_object_set_new(check, "needs", json_string(checks[i].privilege));
		json_object_set_new(check, "more", json_string(checks[i].link));
		json_array_append_new(list, check);
	}
	return list;
}

/* Registration times of the probe in ns, by method and size. */
static json_t *print_json_times(struct host *host, const struct gpu *gpu,
				const struct adapter *adapter)
{
	static const char *const sizes[] = { "2097152", "67108864" };
	json_t *all = need(json_object());

	for (enum way way = 0; way < WAYS; way++) {
		json_t *times = need(json_object());

		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			const char *text = host_text(host, "probe/%d/%s/%s/%s", gpu->ordinal,
						     adapter->name, way_name(way), sizes[i]);

			if (text && !strncmp(text, "ok ", 3))
				json_object_set_new(times, sizes[i], json_integer(atoll(text + 3)));
		}
		if (json_object_size(times))
			json_object_set(all, way_name(way), times);
		json_decref(times);
	}
	return all;
}

static json_t *print_json_pair(struct host *host, const struct gpu *gpu,
			       const struct adapter *adapter, bool chosen)
{
	static const char *const answers[] = { "no", "unknown", "expected", "proved" };
	json_t *pair = need(json_object()), *ways = need(json_object());

	for (enum way way = 0; way < WAYS; way++)
		json_object_set_new(
			ways, way_name(way),
			json_string(answers[way_between(host, gpu, adapter, way).answer]));
	json_object_set_new(pair, "gpu", print_json_text(gpu->label));
	json_object_set_new(pair, "adapter", print_json_text(adapter->name));
	json_object_set_new(pair, "distance",
			    json_string(distance_name(distance_between(gpu, adapter))));
	json_object_set_new(pair, "chosen", json_boolean(chosen));
	json_object_set_new(pair, "ways", ways);
	json_object_set_new(pair, "registration_ns", print_json_times(host, gpu, adapter));
	return pair;
}

static json_t *print_json_pairs(struct host *host)
{
	const struct machine *machine = machine_of(host);
	json_t *list = need(json_array());

	for (unsigned int i = 0; i < machine->gpu_count; i++) {
		struct answered answered;
		const struct adapter *chosen = adapter_of_gpu(host, &machine->gpus[i], &answered);

		for (unsigned int j = 0; j < machine->adapter_count; j++)
			json_array_append_new(list,
					      print_json_pair(host, &machine->gpus[i],
							      &machine->adapters[j],
							      chosen == &machine->adapters[j]));
	}
	return list;
}

static json_t *print_json_gpus(struct host *host)
{
	const struct machine *machine = machine_of(host);
	json_t *list = need(json_array());

	for (unsigned int i = 0; i < machine->gpu_count; i++) {
		const struct gpu *gpu = &machine->gpus[i];
		json_t *one = need(json_object());

		json_object_set_new(one, "label", print_json_text(gpu->label));
		json_object_set_new(one, "pci", print_json_text(gpu->pci));
		json_object_set_new(one, "name",
				    print_json_text(host_text(host, "cuda/%d/name", gpu->ordinal)));
		json_array_append_new(list, one);
	}
	return list;
}

static json_t *print_json_adapters(struct host *host)
{
	const struct machine *machine = machine_of(host);
	json_t *list = need(json_array());

	for (unsigned int i = 0; i < machine->adapter_count; i++) {
		const struct adapter *adapter = &machine->adapters[i];
		json_t *one = need(json_object());

		json_object_set_new(one, "name", print_json_text(adapter->name));
		json_object_set_new(one, "pci", print_json_text(adapter->pci));
		json_object_set_new(one, "active",
				    adapter->ports == PORTS_UNKNOWN
					    ? json_null()
					    : json_boolean(adapter->ports == PORTS_ACTIVE));
		json_object_set_new(one, "software", json_boolean(adapter->software));
		json_array_append_new(list, one);
	}
	return list;
}

bool print_json(const struct result *result)
{
	json_t *whole = need(json_object());
	bool written;

	json_object_set_new(whole, "doctor", json_integer(1));
	json_object_set_new(whole, "version", json_string(PACKAGE_VERSION));
	json_object_set_new(whole, "host",
			    print_json_text(host_text(result->host, "identity/host")));
	json_object_set_new(whole, "status", json_integer(result->status));
	json_object_set_new(whole, "conclusion", print_json_text(result->conclusion));
	json_object_set_new(whole, "gpus", print_json_gpus(result->host));
	json_object_set_new(whole, "adapters", print_json_adapters(result->host));
	json_object_set_new(whole, "pairs", print_json_pairs(result->host));
	json_object_set_new(whole, "checks", print_json_checks(result));
	written = !json_dumpf(whole, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII) &&
		  putchar('\n') != EOF;
	json_decref(whole);
	return written;
}
