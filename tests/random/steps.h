/* SPDX-License-Identifier: BSD-3-Clause */
/* steps.h -- the steps of a client of a random program, as its source decides */
#ifndef PEERPIN_TESTS_RANDOM_STEPS_H
#define PEERPIN_TESTS_RANDOM_STEPS_H

#include "random/model.h"

void steps_begin(struct client *client);
void steps_take_one(struct client *client);

/* End everything that the client has. */
void steps_finish(struct client *client);

#endif
