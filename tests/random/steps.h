/* SPDX-License-Identifier: BSD-3-Clause */
/* steps.h -- the steps of a client of a random program, as its source decides */
#ifndef PEERPIN_TESTS_RANDOM_STEPS_H
#define PEERPIN_TESTS_RANDOM_STEPS_H

#include "random/model.h"

void steps_begin(struct client *client);
void steps_take_one(struct client *client);

/* ---- between the files ---- */

/* Memory of a GPU; NULL: the client has none. */
struct model_memory *steps_choose_memory(struct client *client);

void step_request(struct client *client);
void step_drop(struct client *client);
void step_request_mappings(struct client *client);
void step_request_by_dma_buf(struct client *client);
void step_change(struct client *client);
void step_make_room(struct client *client);
void step_request_in_vain(struct client *client);
void step_see_end(struct client *client);
void step_ask_anywhere(struct client *client);
void step_use(struct client *client);
void step_change_fault(struct client *client);

/* End everything that the client has. */
void steps_finish(struct client *client);

#endif
