/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu.h -- GPU memory for the verbs tests, in a translation unit of its own: verbs.h and our ABI
 * headers declare the same names
 *
 * A refusal of the driver ends the program with a message.
 */
#ifndef PEERPIN_TESTS_GPU_H
#define PEERPIN_TESTS_GPU_H

#include <stddef.h>
#include <stdint.h>

void gpu_open(void); /* a context of the first device, current */
void gpu_join(void); /* current on another thread */
void gpu_close(void);
uint64_t gpu_allocate(size_t size);
void gpu_free(uint64_t address);

/* Physical memory, mapped at one address each time; as large as the first. */
uint64_t gpu_map(size_t size);
void gpu_unmap(uint64_t address);

/* By the driver alone: the processor cannot access a real GPU's memory. Synchronous. */
void gpu_fill(uint64_t address, unsigned char byte, size_t size);
void gpu_read(void *to, uint64_t from, size_t size);

size_t gpu_free_memory(void); /* the driver's free memory, of the whole device */

/* A descriptor of a dma-buf; otherwise the driver's error. */
int gpu_export(uint64_t address, size_t size, int *fd);

void gpu_name(char *to, size_t size); /* the driver's name of the first device */

#endif
