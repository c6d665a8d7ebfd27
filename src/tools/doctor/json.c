/* SPDX-License-Identifier: BSD-3-Clause */
/* json.c -- the diagnosis as one JSON object, with the texts and results of the printed form */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/plain_text.h"
#include "tools/doctor/checks.h"
#include "tools/units.h"

/* Readings may hold any bytes. jansson escapes control characters below U+0020 on output. Others,
 * and invalid UTF-8, become "?". NULL becomes null. */
static json_t *json_print_text(const char *text)
{
	char *copy = text ? text_of("%s", text) : NULL;
	unsigned int length;

	for (char *at = copy; at && *at; at += length ? length : 1) {
		length = (unsigned char)*at < 0x20 ? 1 : plain_text_printable(at);
		if (!length)
			*at = '?';
	}
	return copy ? json_string(copy) : json_null();
}

/* "o" members steal their reference. A failed allocation makes the whole NULL. */
static json_t *json_print_checks(const struct diagnosis *diagnosis)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < check_count; i++) {
		const struct finding *finding = &diagnosis->findings[i];
		const struct check *check = &checks[i];
		json_t *fixes;

		if (!diagnosis->shown[i])
			continue;
		fixes = json_array();
		for (unsigned int j = 0; j < finding->fix_count; j++)
			json_array_append_new(fixes, json_print_text(finding->fixes[j]));
		json_array_append_new(
			list, json_pack("{ss ss ss so ss ss so ss ss}", "id", check->id, "group",
					check->group, "result", result_name(finding->result),
					"found", json_print_text(finding->text), "read",
					check->read, "why", check->why, "fixes", fixes, "needs",
					check->privilege, "more", check->link));
	}
	return list;
}

/* Registration times of the probe in ns, by size; NULL: none. */
static json_t *json_print_times(struct host *host, const struct gpu *gpu,
				const struct adapter *adapter, enum method method)
{
	const char *small = probe_text(host, gpu, adapter, method, PROBE_SMALL, "ok");
	const char *large = probe_text(host, gpu, adapter, method, PROBE_LARGE, "ok");

	if (!small && !large)
		return NULL;
	return json_pack("{so* so*}", PROBE_SMALL, small ? json_integer(atoll(small)) : NULL,
			 PROBE_LARGE, large ? json_integer(atoll(large)) : NULL);
}

/* [export, register, deregister] of each size, in ns; NULL: none. */
static json_t *json_print_costs(struct host *host, const struct gpu *gpu,
				const struct adapter *adapter, enum method method)
{
	json_t *costs = NULL;
	struct cost cost;
	char size[24];

	for (unsigned int i = 0; cost_of(host, gpu, adapter, method, i, &cost); i++) {
		costs = costs ? costs : json_object();
		snprintf(size, sizeof(size), "%zu", cost.size);
		json_object_set_new(costs, size,
				    json_pack("[III]", (json_int_t)cost.export,
					      (json_int_t)cost.enter, (json_int_t)cost.leave));
	}
	return costs;
}

static json_t *json_print_pair(struct host *host, const struct gpu *gpu,
			       const struct adapter *adapter, bool chosen)
{
	static const char *const levels[] = { "no", "unknown", "expected", "proved" };
	json_t *methods = json_object(), *times = json_object(), *costs = json_object();

	for (enum method method = 0; method < METHODS; method++) {
		enum level level = support_between(host, gpu, adapter, method).level;

		json_object_set_new(methods, method_name(method), json_string(levels[level]));
		json_object_set_new(times, method_name(method),
				    json_print_times(host, gpu, adapter, method));
		json_object_set_new(costs, method_name(method),
				    json_print_costs(host, gpu, adapter, method));
	}
	return json_pack("{so so ss sb so so so}", "gpu", json_print_text(gpu->label), "adapter",
			 json_print_text(adapter->name), "distance",
			 distance_name(distance_between(gpu, adapter)), "chosen", chosen, "methods",
			 methods, "registration_ns", times, "costs_ns", costs);
}

static json_t *json_print_adapter(const struct adapter *adapter)
{
	return json_pack("{so so so sb}", "name", json_print_text(adapter->name), "pci",
			 json_print_text(adapter->pci), "active",
			 adapter->ports == PORTS_UNKNOWN
				 ? json_null()
				 : json_boolean(adapter->ports == PORTS_ACTIVE),
			 "software", adapter->software);
}

bool print_json(const struct diagnosis *diagnosis)
{
	json_t *gpus = json_array(), *adapters = json_array(), *pairs = json_array(), *whole;
	struct host *host = diagnosis->host;
	struct support support;
	bool written;

	EACH_GPU(host, gpu) {
		const struct adapter *chosen = adapter_of_gpu(host, gpu, &support);

		json_array_append_new(
			gpus,
			json_pack("{so so so}", "label", json_print_text(gpu->label), "pci",
				  json_print_text(gpu->pci), "name",
				  json_print_text(host_text(host, "cuda/%d/name", gpu->ordinal))));
		EACH_ADAPTER(host, adapter)
			json_array_append_new(
				pairs, json_print_pair(host, gpu, adapter, chosen == adapter));
	}
	EACH_ADAPTER(host, adapter)
		json_array_append_new(adapters, json_print_adapter(adapter));
	whole = json_pack("{si ss so si so so so so so}", "doctor", 1, "version", PACKAGE_VERSION,
			  "host", json_print_text(host_text(host, "identity/host")), "status",
			  diagnosis->status, "conclusion", json_print_text(diagnosis->conclusion),
			  "gpus", gpus, "adapters", adapters, "pairs", pairs, "checks",
			  json_print_checks(diagnosis));
	written = !json_dumpf(whole, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII) &&
		  putchar('\n') != EOF;
	json_decref(whole);
	return written;
}
