/* Eight float lanes, and the few operations on them that AVX2 has no single instruction for. */
#ifndef FEDORBIT_SIMD_H
#define FEDORBIT_SIMD_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define LANES 8 /* floats in one vector register */

typedef __m256 vec;
typedef __m256i ivec;

/* Register tiles are small arrays of vectors. They stay in registers only if the function that owns
 * them is inlined with its bounds as constants and every loop over the tile is unrolled. */
#define TILE_FUNCTION static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 32")

static inline ptrdiff_t round_up(ptrdiff_t n, ptrdiff_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
}

static inline ptrdiff_t smaller(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }
static inline ptrdiff_t larger(ptrdiff_t a, ptrdiff_t b) { return a > b ? a : b; }

static inline ivec lane_numbers(void) { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }

/* All ones in the first `count` lanes (none for count <= 0, all for count >= 8). */
static inline ivec first_lanes(ptrdiff_t count) {
    const int clamped = count < 0 ? 0 : count > LANES ? LANES : (int)count;
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(clamped), lane_numbers());
}

/* The next row's address as a plain register: left alone, the compiler keeps one index per
 * vector of every row, or carries values from row to row, and runs out of registers either way. */
TILE_FUNCTION const float *next_row(const float *row, ptrdiff_t stride) {
    row += stride;
    __asm__("" : "+r"(row));
    return row;
}

/* Lanes 1 to 7 of v and lane 0 of `next`: what a load one float further on would give, but fresh
 * stores cannot be forwarded to a load that straddles two of them. */
TILE_FUNCTION vec next_lane(vec v, vec next) {
    const ivec middle = _mm256_castps_si256(_mm256_permute2f128_ps(v, next, 0x21));
    return _mm256_castsi256_ps(_mm256_alignr_epi8(middle, _mm256_castps_si256(v), 4));
}

/* r[i][j] becomes r[j][i]. */
TILE_FUNCTION void transpose8(vec r[LANES]) {
    const vec a0 = _mm256_unpacklo_ps(r[0], r[1]), a1 = _mm256_unpackhi_ps(r[0], r[1]);
    const vec a2 = _mm256_unpacklo_ps(r[2], r[3]), a3 = _mm256_unpackhi_ps(r[2], r[3]);
    const vec a4 = _mm256_unpacklo_ps(r[4], r[5]), a5 = _mm256_unpackhi_ps(r[4], r[5]);
    const vec a6 = _mm256_unpacklo_ps(r[6], r[7]), a7 = _mm256_unpackhi_ps(r[6], r[7]);
    const vec b0 = _mm256_shuffle_ps(a0, a2, 0x44), b1 = _mm256_shuffle_ps(a0, a2, 0xEE);
    const vec b2 = _mm256_shuffle_ps(a1, a3, 0x44), b3 = _mm256_shuffle_ps(a1, a3, 0xEE);
    const vec b4 = _mm256_shuffle_ps(a4, a6, 0x44), b5 = _mm256_shuffle_ps(a4, a6, 0xEE);
    const vec b6 = _mm256_shuffle_ps(a5, a7, 0x44), b7 = _mm256_shuffle_ps(a5, a7, 0xEE);
    r[0] = _mm256_permute2f128_ps(b0, b4, 0x20);
    r[1] = _mm256_permute2f128_ps(b1, b5, 0x20);
    r[2] = _mm256_permute2f128_ps(b2, b6, 0x20);
    r[3] = _mm256_permute2f128_ps(b3, b7, 0x20);
    r[4] = _mm256_permute2f128_ps(b0, b4, 0x31);
    r[5] = _mm256_permute2f128_ps(b1, b5, 0x31);
    r[6] = _mm256_permute2f128_ps(b2, b6, 0x31);
    r[7] = _mm256_permute2f128_ps(b3, b7, 0x31);
}

/* to[j][i] = from[i][j] for an 8 x 8 block. */
static inline void transpose_block(const float *from, ptrdiff_t from_stride, float *to,
                                   ptrdiff_t to_stride) {
    vec r[LANES];
    UNROLL for (int i = 0; i < LANES; i++) r[i] = _mm256_loadu_ps(from + i * from_stride);
    transpose8(r);
    UNROLL for (int i = 0; i < LANES; i++) _mm256_storeu_ps(to + i * to_stride, r[i]);
}

/* words[k], lane i = word k of the 16 bytes at from + i * stride. */
TILE_FUNCTION void transpose_words(const uint8_t *from, ptrdiff_t stride, ivec words[4]) {
    ivec r[4];
    UNROLL for (int i = 0; i < 4; i++) {
        const __m128i low = _mm_loadu_si128((const __m128i *)(from + i * stride));
        const __m128i high = _mm_loadu_si128((const __m128i *)(from + (i + 4) * stride));
        r[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
    }
    const ivec a0 = _mm256_unpacklo_epi32(r[0], r[1]), a1 = _mm256_unpackhi_epi32(r[0], r[1]);
    const ivec a2 = _mm256_unpacklo_epi32(r[2], r[3]), a3 = _mm256_unpackhi_epi32(r[2], r[3]);
    words[0] = _mm256_unpacklo_epi64(a0, a2);
    words[1] = _mm256_unpackhi_epi64(a0, a2);
    words[2] = _mm256_unpacklo_epi64(a1, a3);
    words[3] = _mm256_unpackhi_epi64(a1, a3);
}

/* The lanes of four vectors, which are -1 to 127, as bytes one after the other. */
static inline ivec pack_bytes(ivec a, ivec b, ivec c, ivec d) {
    const ivec bytes = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

static inline ivec load_bytes(const uint8_t *from) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)from));
}

static inline ivec load_ints(const int32_t *from) {
    return _mm256_loadu_si256((const __m256i *)from);
}

static inline float sum_lanes(vec v) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

#endif
