from dpsu.kernels.primitives cimport Word

cdef void sort_words(
    Word[::1] values, Word[::1] spare, Py_ssize_t size, int lowest
) noexcept nogil
cdef Word nth_smallest(Word[::1] values, Py_ssize_t size, Py_ssize_t n) noexcept nogil
cdef int check_users(
    const long long[::1] start, const long long[::1] stop, Py_ssize_t first, Py_ssize_t last
) except -1
cdef Py_ssize_t longest_set(
    const long long[::1] start, const long long[::1] stop, Py_ssize_t first, Py_ssize_t last
) except -1
