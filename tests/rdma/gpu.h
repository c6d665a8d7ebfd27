/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu.h -- GPU memory for the verbs tests, in a translation unit of its own: verbs.h and our ABI
 * headers declare the same names
 *
 * Everything here ends the test program with a message if the driver refuses it.
 */
#ifndef PEERPIN_TESTS_GPU_H
#define PEERPIN_TESTS_GPU_H

#include <stddef.h>
#include <stdint.h>

void gpu_open(void);  /* a context of the first device, current */
void gpu_join(void);  /* makes it current on another thread */
void gpu_close(void); /* destroys it */
uint64_t gpu_allocate(size_t size);
void gpu_free(uint64_t address);

/* Physical memory, mapped at one and the same address each time; as large as the first was. */
uint64_t gpu_map(size_t size);
void gpu_unmap(uint64_t address);

/* Bytes go by way of the driver alone: the processor cannot reach a real GPU's memory by its
 * address. Both are done when they return. */
void gpu_fill(uint64_t address, unsigned char byte, size_t size);
void gpu_read(void *to, uint64_t from, size_t size);

size_t gpu_free_memory(void); /* what the driver calls free, of the whole device */

/* A descriptor of a dma-buf; otherwise the driver's error. */
int gpu_export(uint64_t address, size_t size, int *fd);

void gpu_name(char *to, size_t size); /* the driver's name of the first device */

#endif
