# SPDX-License-Identifier: BSD-3-Clause
"""jax_program.py -- compiled functions on arrays of several sizes"""
import jax
import jax.numpy as jnp


@jax.jit
def step(values):
    return (values * 1.5 + 1).sum()


for size in (10, 1000, 1000000):
    print(size, f"{float(step(jnp.arange(size, dtype=jnp.float32) / size)):.2f}")
