/* What C has and Python lacks: eight bytes from any place, a long product, a prefetch, the bits of
   a double, and what the processor can do. */
#ifndef DPSU_PRIMITIVES_H
#define DPSU_PRIMITIVES_H
#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "dpsu needs a little-endian processor"
#endif

#if !defined(__SIZEOF_INT128__) && !defined(_MSC_VER)
#error "dpsu needs a 64-bit processor"
#endif

#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>
#define DPSU_MSVC
#endif

static inline uint64_t dpsu_word_at(const void *place) {
    uint64_t word;
    memcpy(&word, place, 8);
    return word;
}

static inline uint64_t dpsu_bits_of(double x) { return dpsu_word_at(&x); }

static inline double dpsu_double_of(uint64_t bits) {
    double x;
    memcpy(&x, &bits, 8);
    return x;
}

/* Both halves of the product, of 128 bits, combined by exclusive or. */
static inline uint64_t dpsu_fold_product(uint64_t one, uint64_t other) {
#if defined(DPSU_MSVC)
#if defined(_M_X64)
    uint64_t high, low = _umul128(one, other, &high);
    return low ^ high;
#else
    return one * other ^ __umulh(one, other);
#endif
#else
    unsigned __int128 product = (unsigned __int128)one * other;
    return (uint64_t)(product ^ (product >> 64));
#endif
}

/* Begin to load a cache line, without waiting for it. */
static inline void dpsu_prefetch(const void *place) {
#if defined(DPSU_MSVC)
#if defined(_M_X64)
    _mm_prefetch((const char *)place, _MM_HINT_T0);
#else
    (void)place;
#endif
#else
    __builtin_prefetch(place, 0, 3);
#endif
}

/* One rounding where the build has such an instruction, and two elsewhere. */
static inline double dpsu_multiply_add(double x, double y, double z) {
#if defined(__FMA__) || (defined(__aarch64__) && defined(__ARM_FEATURE_FMA))
    return __builtin_fma(x, y, z);
#else
    return x * y + z;
#endif
}

/* Whether the processor and the system run what is compiled for x86-64-v3, as most have done since 2013.
   By cpuid, because __builtin_cpu_supports cannot be linked by every compiler. */
#if defined(__x86_64__) && !defined(DPSU_MSVC)
#include <cpuid.h>
#endif
static inline int dpsu_is_x86_64_v3(void) {
#if defined(__x86_64__) && !defined(DPSU_MSVC)
    unsigned a, b, c, d, low, high;
    const unsigned fma_movbe_osxsave_avx_f16c = 1u << 12 | 1u << 22 | 1u << 27 | 1u << 28 | 1u << 29;
    const unsigned bmi1_avx2_bmi2 = 1u << 3 | 1u << 5 | 1u << 8;
    const unsigned lzcnt = 1u << 5;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return 0;
    if ((c & fma_movbe_osxsave_avx_f16c) != fma_movbe_osxsave_avx_f16c) return 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
    if ((b & bmi1_avx2_bmi2) != bmi1_avx2_bmi2) return 0;
    if (!__get_cpuid(0x80000001u, &a, &b, &c, &d) || !(c & lzcnt)) return 0;
    /* The system saves the wide registers when it switches between programs. */
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & 6u) == 6u;
#else
    return 0;
#endif
}
#endif
