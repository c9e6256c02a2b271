# cython: language_level=3, boundscheck=False, wraparound=False
"""The checksums of `checksum.h` for Python. Tests hold them against zlib and crc32c."""

from libc.stdint cimport uint8_t, uint32_t

cdef extern from "shm/checksum.h" nogil:
    int silo_crc_level
    uint32_t silo_crc32(uint32_t seed, const uint8_t *p, size_t n)
    uint32_t silo_crc32c(uint32_t seed, const uint8_t *p, size_t n)


def crc32(const unsigned char[::1] data not None, uint32_t seed=0):
    """CRC-32 of `data` (bytes), continuing from `seed`: equal to `zlib.crc32(data, seed)`."""
    cdef size_t n = data.shape[0]
    cdef uint32_t value
    if n == 0:
        return seed
    with nogil:
        value = silo_crc32(seed, &data[0], n)
    return value


def crc32c(const unsigned char[::1] data not None, uint32_t seed=0):
    """CRC-32C of `data` (bytes), continuing from `seed`: equal to `crc32c.crc32c(data, seed)`."""
    cdef size_t n = data.shape[0]
    cdef uint32_t value
    if n == 0:
        return seed
    with nogil:
        value = silo_crc32c(seed, &data[0], n)
    return value


def variants():
    """The variants that this CPU can run, for `use_variant`: 0 tables, 1 carry-less multiply, 2 the
    same on 512 bits."""
    return list(range(silo_crc_level + 1))


def use_variant(int level):
    """Chooses the variant with which this module computes, for tests and benchmarks. Other modules
    have a copy of the setting and keep theirs."""
    global silo_crc_level
    silo_crc_level = level
