from libc.stdint cimport uint8_t

from dpsu.kernels.primitives cimport Word

cdef Word hash_bytes(
    const uint8_t[::1] data, Py_ssize_t start, Py_ssize_t stop, Word seed
) noexcept nogil
