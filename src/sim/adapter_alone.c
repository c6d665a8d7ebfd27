/* SPDX-License-Identifier: BSD-3-Clause */
/* adapter_alone.c -- queries of device and port, where the adapter is built without the data plane
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim/adapter.h"

int context_install(struct ibv_context *context)
{
	(void)context;
	return 0;
}

bool context_uninstall(struct ibv_context *context)
{
	(void)context;
	return true;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attributes)
{
	memset(attributes, 0, sizeof(*attributes));
	snprintf(attributes->fw_ver, sizeof(attributes->fw_ver), "simulated %u",
		 adapter_number(context));
	attributes->max_mr_size = UINT64_MAX;
	attributes->page_size_cap = UINT64_MAX & ~(uint64_t)0xfff;
	attributes->max_mr = adapter_regions_max();
	attributes->max_pd = 1 << 16;
	attributes->phys_port_cnt = 1;
	return 0;
}

/* One active port; nothing is ever sent. */
int ibv_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attributes)
{
	(void)context;
	if (port != 1)
		return EINVAL;
	*attributes = (struct ibv_port_attr){ .state = 4, .phys_state = 5, .link_layer = 1 };
	return 0;
}
