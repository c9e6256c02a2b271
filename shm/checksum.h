/* CRC-32 (zlib's polynomial: bodies and record checksums) and CRC-32C (frames). They use the CPU's
 * carry-less multiply and CRC instructions if it has them, otherwise tables. Each module that
 * includes this file chooses its variant once, when it is loaded.
 *
 * Folding follows Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ"
 * (Intel, 2009). The folding constants are powers of x modulo the polynomial, computed here.
 */
#ifndef SILO_CHECKSUM_H
#define SILO_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define SILO_CRC32_POLY 0xEDB88320u
#define SILO_CRC32C_POLY 0x82F63B78u

static uint32_t silo_crc_table[2][4][256];
/* Folding constants, [distance][0] = x^(d+32), [1] = x^(d-32), for distances of 128, 256, 384, 512
 * and 2048 bits. */
static uint64_t silo_fold[5][2];
static int silo_crc_level; /* 0 tables, 1 PCLMUL + SSE4.2, 2 VPCLMUL on 512 bits */

/* x^n modulo the CRC-32 polynomial, bit-reflected, in the 33-bit form that a reflected multiply
 * needs. */
static uint64_t silo_x_power(unsigned n) {
    uint32_t v = 0x80000000u; /* x^0 */
    while (n--) v = (v >> 1) ^ (v & 1 ? SILO_CRC32_POLY : 0);
    return (uint64_t)v << 1;
}

__attribute__((constructor)) static void silo_checksum_init(void) {
    static const unsigned distance[5] = {128, 256, 384, 512, 2048};
    const uint32_t poly[2] = {SILO_CRC32_POLY, SILO_CRC32C_POLY};
    for (int which = 0; which < 2; which++) {
        for (unsigned i = 0; i < 256; i++) {
            uint32_t v = i;
            for (int bit = 0; bit < 8; bit++) v = (v >> 1) ^ (v & 1 ? poly[which] : 0);
            silo_crc_table[which][0][i] = v;
        }
        for (unsigned i = 0; i < 256; i++)
            for (int k = 1; k < 4; k++) {
                uint32_t v = silo_crc_table[which][k - 1][i];
                silo_crc_table[which][k][i] = (v >> 8) ^ silo_crc_table[which][0][v & 255];
            }
    }
    for (int i = 0; i < 5; i++) {
        silo_fold[i][0] = silo_x_power(distance[i] + 32);
        silo_fold[i][1] = silo_x_power(distance[i] - 32);
    }
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.2")) silo_crc_level = 1;
    if (silo_crc_level && __builtin_cpu_supports("vpclmulqdq") &&
        __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl"))
        silo_crc_level = 2;
#endif
}

/* Table number `which` (0 CRC-32, 1 CRC-32C), four bytes a step. `crc` is the inverted running
 * value. */
static inline uint32_t silo_crc_by_table(int which, uint32_t crc, const uint8_t *p, size_t n) {
    uint32_t(*t)[256] = silo_crc_table[which];
    for (; n >= 4; n -= 4, p += 4) {
        uint32_t w;
        memcpy(&w, p, 4);
        crc ^= w;
        crc = t[3][crc & 255] ^ t[2][(crc >> 8) & 255] ^ t[1][(crc >> 16) & 255] ^ t[0][crc >> 24];
    }
    while (n--) crc = (crc >> 8) ^ t[0][(crc ^ *p++) & 255];
    return crc;
}

#if defined(__x86_64__)
#define SILO_CLMUL __attribute__((target("pclmul,sse4.2")))
#define SILO_VCLMUL __attribute__((target("pclmul,sse4.2,vpclmulqdq,avx512f,avx512vl")))

SILO_CLMUL static inline __m128i silo_fold128(__m128i a, __m128i k, __m128i next) {
    __m128i low = _mm_clmulepi64_si128(a, k, 0x00);
    __m128i high = _mm_clmulepi64_si128(a, k, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

SILO_CLMUL static inline __m128i silo_constant(int i) {
    return _mm_set_epi64x((long long)silo_fold[i][1], (long long)silo_fold[i][0]);
}

/* Reduces 128 bits to the running value: the CRC of the 16 bytes in `a`, which are congruent to the
 * message so far. The CPU's CRC instruction has another polynomial, so this takes two folds and a
 * Barrett reduction. */
SILO_CLMUL static inline uint32_t silo_reduce128(__m128i a) {
    const __m128i low32 = _mm_set_epi32(0, 0, 0, -1);
    const __m128i k = silo_constant(0);
    /* 128 -> 96 -> 64 bits */
    __m128i t = _mm_clmulepi64_si128(a, k, 0x10);
    a = _mm_xor_si128(_mm_srli_si128(a, 8), t);
    t = _mm_and_si128(a, low32);
    a = _mm_srli_si128(a, 4);
    a = _mm_xor_si128(a, _mm_clmulepi64_si128(t, _mm_set_epi64x(0, 0x163cd6124LL), 0x00));
    /* Barrett: quotient by mu = floor(x^64 / P), times P */
    const __m128i poly = _mm_set_epi64x(0x1f7011641LL, 0x1db710641LL);
    t = _mm_clmulepi64_si128(_mm_and_si128(a, low32), poly, 0x10);
    t = _mm_clmulepi64_si128(_mm_and_si128(t, low32), poly, 0x00);
    a = _mm_xor_si128(a, t);
    return (uint32_t)_mm_extract_epi32(a, 1);
}

SILO_CLMUL static uint32_t silo_crc32_clmul(uint32_t crc, const uint8_t *p, size_t n) {
    __m128i k128 = silo_constant(0);
    __m128i a = _mm_xor_si128(_mm_loadu_si128((const __m128i *)p), _mm_cvtsi32_si128((int)crc));
    p += 16;
    n -= 16;
    if (n >= 48) {
        const __m128i k512 = silo_constant(3);
        __m128i b = _mm_loadu_si128((const __m128i *)p);
        __m128i c = _mm_loadu_si128((const __m128i *)(p + 16));
        __m128i d = _mm_loadu_si128((const __m128i *)(p + 32));
        for (p += 48, n -= 48; n >= 64; p += 64, n -= 64) {
            a = silo_fold128(a, k512, _mm_loadu_si128((const __m128i *)p));
            b = silo_fold128(b, k512, _mm_loadu_si128((const __m128i *)(p + 16)));
            c = silo_fold128(c, k512, _mm_loadu_si128((const __m128i *)(p + 32)));
            d = silo_fold128(d, k512, _mm_loadu_si128((const __m128i *)(p + 48)));
        }
        a = silo_fold128(silo_fold128(silo_fold128(a, k128, b), k128, c), k128, d);
    }
    for (; n >= 16; p += 16, n -= 16)
        a = silo_fold128(a, k128, _mm_loadu_si128((const __m128i *)p));
    return silo_crc_by_table(0, silo_reduce128(a), p, n);
}

SILO_VCLMUL static inline __m512i silo_fold512(__m512i a, __m512i k, __m512i next) {
    __m512i low = _mm512_clmulepi64_epi128(a, k, 0x00);
    __m512i high = _mm512_clmulepi64_epi128(a, k, 0x11);
    return _mm512_ternarylogic_epi64(low, high, next, 0x96);
}

SILO_VCLMUL static uint32_t silo_crc32_vclmul(uint32_t crc, const uint8_t *p, size_t n) {
    const __m512i k2048 = _mm512_broadcast_i32x4(silo_constant(4));
    const __m512i k512 = _mm512_broadcast_i32x4(silo_constant(3));
    __m512i first = _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc));
    __m512i a = _mm512_xor_si512(_mm512_loadu_si512(p), first);
    __m512i b = _mm512_loadu_si512(p + 64);
    __m512i c = _mm512_loadu_si512(p + 128);
    __m512i d = _mm512_loadu_si512(p + 192);
    for (p += 256, n -= 256; n >= 256; p += 256, n -= 256) {
        a = silo_fold512(a, k2048, _mm512_loadu_si512(p));
        b = silo_fold512(b, k2048, _mm512_loadu_si512(p + 64));
        c = silo_fold512(c, k2048, _mm512_loadu_si512(p + 128));
        d = silo_fold512(d, k2048, _mm512_loadu_si512(p + 192));
    }
    a = silo_fold512(silo_fold512(silo_fold512(a, k512, b), k512, c), k512, d);
    for (; n >= 64; p += 64, n -= 64) a = silo_fold512(a, k512, _mm512_loadu_si512(p));
    const __m128i k128 = silo_constant(0);
    __m128i x = silo_fold128(_mm512_extracti32x4_epi32(a, 0), silo_constant(2),
                             _mm512_extracti32x4_epi32(a, 3));
    x = silo_fold128(_mm512_extracti32x4_epi32(a, 1), silo_constant(1), x);
    x = silo_fold128(_mm512_extracti32x4_epi32(a, 2), k128, x);
    for (; n >= 16; p += 16, n -= 16)
        x = silo_fold128(x, k128, _mm_loadu_si128((const __m128i *)p));
    return silo_crc_by_table(0, silo_reduce128(x), p, n);
}

__attribute__((target("sse4.2"))) static uint32_t
silo_crc32c_sse(uint32_t crc, const uint8_t *p, size_t n) {
    uint64_t c = crc, w;
    for (; n >= 8; n -= 8, p += 8) {
        memcpy(&w, p, 8);
        c = _mm_crc32_u64(c, w);
    }
    uint32_t r = (uint32_t)c;
    while (n--) r = _mm_crc32_u8(r, *p++);
    return r;
}
#endif

/* CRC-32 of `n` bytes, continued from `seed`: equal to zlib.crc32(p, seed). */
static inline uint32_t silo_crc32(uint32_t seed, const uint8_t *p, size_t n) {
    uint32_t crc = ~seed;
#if defined(__x86_64__)
    if (silo_crc_level == 2 && n >= 256) return ~silo_crc32_vclmul(crc, p, n);
    if (silo_crc_level && n >= 32) return ~silo_crc32_clmul(crc, p, n);
#endif
    return ~silo_crc_by_table(0, crc, p, n);
}

/* CRC-32C of `n` bytes, continued from `seed`: equal to crc32c.crc32c(p, seed). */
static inline uint32_t silo_crc32c(uint32_t seed, const uint8_t *p, size_t n) {
#if defined(__x86_64__)
    if (silo_crc_level) return ~silo_crc32c_sse(~seed, p, n);
#endif
    return ~silo_crc_by_table(1, ~seed, p, n);
}

#endif
