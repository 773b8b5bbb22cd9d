# What several kernels need inside of their loops, where a call of another module would cost more
# than the work. Compilers copy these functions into each kernel.
from libc.stdint cimport uint8_t, uint64_t

# Elements of arrays. What kernels only read is constant.
ctypedef unsigned long long Word
ctypedef const unsigned long long ConstWord
ctypedef long long Int64
ctypedef const long long ConstInt64
ctypedef int Int32
ctypedef const int ConstInt32
ctypedef unsigned int UInt32
ctypedef const unsigned int ConstUInt32
ctypedef unsigned short Class
ctypedef const unsigned short ConstClass
ctypedef unsigned char Byte
ctypedef const unsigned char ConstByte
ctypedef double Double
ctypedef const double ConstDouble
# Places in arrays, and numbers of elements.
ctypedef Py_ssize_t Size

cdef extern from "primitives.h" nogil:
    uint64_t word_at "dpsu_word_at"(const void *place) noexcept
    uint64_t bits_of "dpsu_bits_of"(double x) noexcept
    double double_of "dpsu_double_of"(uint64_t bits) noexcept
    uint64_t fold_product "dpsu_fold_product"(uint64_t one, uint64_t other) noexcept
    void prefetch "dpsu_prefetch"(const void *place) noexcept
    double multiply_add "dpsu_multiply_add"(double x, double y, double z) noexcept
    int is_x86_64_v3 "dpsu_is_x86_64_v3"() noexcept


cdef inline Word load_word(const uint8_t[::1] data, Py_ssize_t at) noexcept nogil:
    # Eight bytes from position `at` on as a little-endian word. There is no check of the position:
    # the caller knows that at least eight bytes follow it.
    return word_at(&data[0] + at)


cdef inline Word load_end(const uint8_t[::1] data, Py_ssize_t at, Py_ssize_t rest) noexcept nogil:
    # The last `rest` < 8 bytes of a text as a word whose other bytes are 0.
    cdef Word word = 0
    cdef Py_ssize_t i
    if at + 8 <= data.shape[0]:
        return load_word(data, at) & ((<Word> 1 << (8 * rest)) - 1)
    for i in range(rest):
        word |= <Word> (&data[0])[at + i] << (8 * i)
    return word


cdef inline Word rotate_left(Word word, int by) noexcept nogil:
    return (word << by) | (word >> (64 - by))


cdef inline Word hash_word(Word word, Word seed) noexcept nogil:
    # XxHash64 of the eight little-endian bytes of `word`.
    cdef Word h = seed + 0x27D4EB2F165667C5u + 8
    h ^= rotate_left(word * 0xC2B2AE3D27D4EB4Fu, 31) * 0x9E3779B185EBCA87u
    h = rotate_left(h, 27) * 0x9E3779B185EBCA87u + 0x85EBCA77C2B2AE63u
    h = (h ^ (h >> 33)) * 0xC2B2AE3D27D4EB4Fu
    h = (h ^ (h >> 29)) * 0x165667B19E3779F9u
    return h ^ (h >> 32)
