/* SPDX-License-Identifier: BSD-3-Clause */
/* own_thread.c -- the mark of the library's own thread */
#include "base/own_thread.h"

__thread bool own_thread_here __attribute__((tls_model("initial-exec")));
