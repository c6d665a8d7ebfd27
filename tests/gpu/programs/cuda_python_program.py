# SPDX-License-Identifier: BSD-3-Clause
"""cuda_python_program.py -- the driver's interface through cuda-python: memory of each kind, written, read, freed"""
try:
    from cuda.bindings import driver
except ImportError:
    from cuda import cuda as driver


def done(result):
    """Results of a call without its error: a value, or a tuple unless there is exactly one."""
    error, *rest = result
    if error != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(str(error))
    return rest[0] if len(rest) == 1 else tuple(rest)


def through(address, size, step):
    """Written from the host, copied inside, read back: a sum of all bytes."""
    data = bytearray((i * step) % 251 for i in range(size))
    back = bytearray(size)
    other = done(driver.cuMemAlloc(size))
    done(driver.cuMemcpyHtoD(address, bytes(data), size))
    done(driver.cuMemcpyDtoD(other, address, size))
    done(driver.cuMemcpyDtoH(back, other, size))
    done(driver.cuMemFree(other))
    assert back == data
    return sum(back)


def plain(step):
    addresses = [done(driver.cuMemAlloc(1000 << i)) for i in range(8)]
    total = sum(through(address, 1000 << i, step + i) for i, address in enumerate(addresses))
    for address in addresses:
        done(driver.cuMemFree(address))
    return total


def pitched(step):
    address, pitch = done(driver.cuMemAllocPitch(1000, 50, 4))
    total = through(address, pitch, step)
    done(driver.cuMemFree(address))
    return total


def pooled(step):
    stream = done(driver.cuStreamCreate(0))
    address = done(driver.cuMemAllocAsync(300000, stream))
    done(driver.cuStreamSynchronize(stream))
    total = through(address, 300000, step)
    done(driver.cuMemFreeAsync(address, stream))
    done(driver.cuStreamSynchronize(stream))
    done(driver.cuStreamDestroy(stream))
    return total


def mapped(step, device):
    properties = driver.CUmemAllocationProp()
    properties.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.location.id = int(device)
    access = driver.CUmemAccessDesc()
    access.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    access.location.id = int(device)
    access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    least = driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
    size = done(driver.cuMemGetAllocationGranularity(properties, least))
    address = done(driver.cuMemAddressReserve(2 * size, 0, 0, 0))
    total = 0
    for place in (0, size):
        handle = done(driver.cuMemCreate(size, properties, 0))
        done(driver.cuMemMap(int(address) + place, size, 0, handle, 0))
        done(driver.cuMemRelease(handle))
    done(driver.cuMemSetAccess(address, 2 * size, [access], 1))
    for place in (0, size):
        total += through(int(address) + place, 1000, step)
    done(driver.cuMemUnmap(address, 2 * size))
    done(driver.cuMemAddressFree(address, 2 * size))
    return total


done(driver.cuInit(0))
gpu = done(driver.cuDeviceGet(0))
context = done(driver.cuDevicePrimaryCtxRetain(gpu))
done(driver.cuCtxSetCurrent(context))
for step in range(1, 4):
    print("plain", plain(step), "pitched", pitched(step) > 0, "pooled", pooled(step), "mapped", mapped(step, gpu))
# A pointer's questions, and its end.
memory = done(driver.cuMemAlloc(5000))
kind = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
print("kind", int(done(driver.cuPointerGetAttribute(kind, memory))), "range", done(driver.cuMemGetAddressRange(memory))[1])
done(driver.cuMemFree(memory))
done(driver.cuDevicePrimaryCtxRelease(gpu))
