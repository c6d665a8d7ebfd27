/* SPDX-License-Identifier: BSD-3-Clause */
/* methods.c -- the table of registration methods; tests link their own */
#include "registration/methods.h"
#include "report/statistics.h"

const struct registration_method registration_methods[] = {
#define METHOD REGISTRATION_METHOD
#include "report/methods.def"
#undef METHOD
	{ .name = NULL },
};
