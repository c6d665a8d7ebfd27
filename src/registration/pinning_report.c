/* SPDX-License-Identifier: BSD-3-Clause */
/* pinning_report.c -- log of a pair's method, and of a pair without one */
#include "registration/pinning_report.h"

#include "base/log.h"
#include "base/system.h"
#include "registration/topology.h"

static const char *pinning_adapter_name(const struct pin_request *request)
{
	const char *name = topology_adapter_name(request->pd->context);

	return *name ? name : "an adapter";
}

const char *pinning_reason(const struct method_support *support, const struct errors_text *failure,
			   char description[DESCRIPTION])
{
	if (!support->possible || !failure->cause)
		return support->text;
	errors_describe(failure, description, DESCRIPTION);
	return description;
}

void pinning_report_method(const struct pin_request *request, const struct pair *pair,
			   unsigned int method, const struct errors_text *preferred)
{
	char description[DESCRIPTION];

	if (!log_is_on(LOG_INFO))
		return;
	log_message(LOG_INFO, "GPU %d, %s: memory is registered by %s%s (%s)%s%s%s%s; %s",
		    pair->device, pinning_adapter_name(request), registration_methods[method].name,
		    pair->pcie ? " over PCIe" : "", pair->support[method].text,
		    method ? ", not by " : "", method ? registration_methods[0].name : "",
		    method ? ": " : "",
		    method ? pinning_reason(&pair->support[0], preferred, description) : "",
		    topology_is_near(request->pd->context, request->device)
			    ? "no other adapter is nearer"
			    : "another adapter is nearer to it");
}

/* An untried method has no cause: the probe excludes it, or it does not accept this memory or these
 * access flags. */
void pinning_report_failure(const struct pin_request *request, const struct pair *pair,
			    const struct errors_text failures[METHODS_MAX])
{
	const struct errors_text *last = &failures[0];
	char text[METHODS_MAX * DESCRIPTION / 2] = "", description[DESCRIPTION];
	size_t used = 0;

	for (unsigned int i = 0; registration_methods[i].name; i++) {
		bool untried = pair->support[i].possible && !failures[i].cause;

		used += (size_t)system_format(
			text + used, sizeof(text) - used, " By %s: %s.",
			registration_methods[i].name,
			untried ? "not for this memory"
				: pinning_reason(&pair->support[i], &failures[i], description));
		if (used >= sizeof(text))
			used = sizeof(text) - 1;
		if (failures[i].cause)
			last = &failures[i];
	}
	log_once(LOG_WARN,
		 "GPU memory cannot be registered with %s for GPU %d; client registrations are "
		 "forwarded.%s %s",
		 pinning_adapter_name(request), request->device, text, last->fix);
}
